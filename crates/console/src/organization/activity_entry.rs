//! How an activity is told: who did what to which thing, and what was before and after.

use serde_json::Value;
use serde_json::value::RawValue;
use service::activity::{Activity, Change};
use service::{Level, Time, UserUuid};

use crate::show;

/// What activities concern: as the log names it, as people do, and all of a kind. Keys are not among them: they belong to
/// people, and what is done to them concerns no organization.
pub(super) const KINDS: [(&str, &str, &str); 11] = [
    ("Organization", "the organization", "Organization"),
    ("OrganizationMembership", "the membership of", "Members"),
    ("OrganizationInvite", "the invite for", "Invites"),
    ("OrganizationDomain", "the domain", "Domains"),
    ("Team", "the team", "Teams"),
    ("BatchExport", "the batch export", "Batch exports"),
    ("BatchExportRun", "a run of", "Batch export runs"),
    ("BatchExportBackfill", "a backfill of", "Backfills"),
    ("PipelineDestination", "the destination", "Destinations"),
    ("PipelineFrontendApp", "the frontend app", "Frontend apps"),
    ("PipelineImportApp", "the import app", "Import apps"),
];

pub(super) struct ActivityEntry {
    pub(super) actor: String,
    /// Nobody: the server itself, or its command line.
    pub(super) actor_uuid: Option<UserUuid>,
    pub(super) is_by_key: bool,
    pub(super) verb: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) scope: String,
    pub(super) item: String,
    pub(super) time: String,
    pub(super) exactly: String,
    pub(super) request: String,
    pub(super) changes: Vec<Changed>,
    pub(super) summary: String,
}

pub(super) struct Changed {
    pub(super) field: String,
    /// None: there was nothing.
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
}

impl ActivityEntry {
    pub(super) fn new(activity: &Activity, now: Time) -> Self {
        let changes: Vec<Changed> = activity.changes.iter().map(Changed::from).collect();
        let count = i64::try_from(changes.len()).unwrap_or(i64::MAX);
        Self {
            actor: activity
                .user
                .as_ref()
                .map_or_else(|| "System".to_owned(), service::users::User::called),
            actor_uuid: activity.user.as_ref().map(|user| user.uuid),
            is_by_key: activity.key.is_some(),
            verb: verb(&activity.activity),
            kind: kind(&activity.scope),
            name: activity.name.clone(),
            scope: activity.scope.clone(),
            item: activity.item.clone(),
            time: show::ago(activity.created_at, now),
            exactly: show::exactly(activity.created_at),
            request: activity.request.clone(),
            changes,
            summary: show::counted(count, "field"),
        }
    }
}

impl From<&Change<Box<RawValue>>> for Changed {
    fn from(change: &Change<Box<RawValue>>) -> Self {
        let told = |json: &RawValue| value(&change.field, &serde_json::from_str(json.get()).ok()?);
        Self {
            field: label(&change.field),
            before: told(&change.before),
            after: told(&change.after),
        }
    }
}

fn kind(scope: &str) -> String {
    let known = KINDS.iter().find(|(name, _, _)| *name == scope);
    known.map_or_else(|| scope.to_owned(), |(_, kind, _)| (*kind).to_owned())
}

/// What was done, as people would say it before the name of the thing.
fn verb(activity: &str) -> String {
    match activity {
        "config_created" => "configured".to_owned(),
        "config_updated" => "updated a configuration of".to_owned(),
        "config_deleted" => "deleted a configuration of".to_owned(),
        "sign_in_refused" => "denied a sign-in through".to_owned(),
        "sign_up_refused" => "denied a sign-up with".to_owned(),
        "recovery_codes_created" => "created recovery codes for".to_owned(),
        "recovery_code_used" => "used a recovery code of".to_owned(),
        other => words(other),
    }
}

/// `is_member_join_email_enabled` as people would write it.
fn words(name: &str) -> String {
    name.replace('_', " ")
}

/// The field of a change. People know a level as a role.
fn label(field: &str) -> String {
    match field {
        "level" => "role".to_owned(),
        other => words(other),
    }
}

fn value(field: &str, value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Bool(is_on) => Some(if *is_on { "yes" } else { "no" }.to_owned()),
        Value::String(text) if text.is_empty() => Some("empty".to_owned()),
        Value::String(text) => Some(text.clone()),
        Value::Number(number) if field == "level" => {
            let level = number.as_i64().and_then(|number| i16::try_from(number).ok());
            let level = level.and_then(|number| Level::try_from(number).ok());
            Some(level.map_or_else(|| number.to_string(), |level| show::level(level).to_owned()))
        }
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_told_in_words() {
        assert_eq!(value("level", &json!(8)).as_deref(), Some(show::level(Level::Admin)));
        assert_eq!(value("level", &json!(7)).as_deref(), Some("7"));
        assert_eq!(label("level"), "role");
        assert_eq!(label("enforce_2fa"), "enforce 2fa");
        assert_eq!(value("enforce_2fa", &json!(true)).as_deref(), Some("yes"));
        assert_eq!(value("message", &json!("")).as_deref(), Some("empty"));
        assert_eq!(value("config", &json!({ "a": 1 })).as_deref(), Some("{\"a\":1}"));
        assert_eq!(value("end_at", &Value::Null), None);
    }

    #[test]
    fn what_is_not_known_is_called_by_its_name() {
        assert_eq!(kind("Team"), "the team");
        assert_eq!(kind("Something"), "Something");
    }
}
