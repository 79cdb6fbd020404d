//! What is recorded of a write: the thing, what happened to it, and which of its fields became another.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::{OrganizationId, TeamId};

/// One field of the thing that became another. Values that were read stay text, which takes no more memory than it is long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change<V = Value> {
    pub action: ChangeKind,
    pub field: String,
    pub before: V,
    pub after: V,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    Created,
    Changed,
    Deleted,
}

/// What a use case hands over to be recorded.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) organization: Option<OrganizationId>,
    pub(crate) team: Option<TeamId>,
    pub(crate) scope: &'static str,
    pub(crate) item: String,
    pub(crate) activity: &'static str,
    pub(crate) name: String,
    pub(crate) changes: Vec<Change>,
}

/// A thing whose changes are recorded.
pub(crate) trait Recorded: Serialize {
    const SCOPE: &'static str;
    /// Where one type stands for several kinds of things, each has a scope of its own.
    fn scope(&self) -> &'static str {
        Self::SCOPE
    }
    fn organization(&self) -> Option<OrganizationId>;
    /// The team it belongs to, if it is one team's: a key limited to other teams does not see its entries.
    fn team(&self) -> Option<TeamId> {
        None
    }
    fn item(&self) -> String;
    fn name(&self) -> String;
}

impl Entry {
    pub(crate) fn created<T: Recorded>(thing: &T) -> Self {
        Self::new(thing, "created", changes(None, Some(thing)))
    }

    /// `None` if nothing that people would notice has changed.
    pub(crate) fn updated<T: Recorded>(before: &T, after: &T) -> Option<Self> {
        let changes = changes(Some(before), Some(after));
        (!changes.is_empty()).then(|| Self::new(after, "updated", changes))
    }

    pub(crate) fn deleted<T: Recorded>(thing: &T) -> Self {
        Self::new(thing, "deleted", changes(Some(thing), None))
    }

    /// Something that happened to the thing, under its own name.
    pub(crate) fn happened<T: Recorded>(thing: &T, activity: &'static str) -> Self {
        Self::new(thing, activity, Vec::new())
    }

    /// The same action under another name.
    pub(crate) fn named(mut self, activity: &'static str) -> Self {
        self.activity = activity;
        self
    }

    /// Whether it tells of the end of the thing.
    pub(crate) fn is_deletion(&self) -> bool {
        matches!(self.activity, "deleted" | "config_deleted")
    }

    /// Adds what was true at the time.
    pub(crate) fn noting(mut self, field: &str, value: &str) -> Self {
        self.changes.push(Change {
            action: ChangeKind::Created,
            field: field.to_owned(),
            before: Value::Null,
            after: cut(&value.into()),
        });
        self
    }

    fn new<T: Recorded>(thing: &T, activity: &'static str, changes: Vec<Change>) -> Self {
        Self {
            organization: thing.organization(),
            team: thing.team(),
            scope: thing.scope(),
            item: thing.item(),
            activity,
            name: thing.name(),
            changes,
        }
    }
}

/// Fields that say nothing about what somebody did.
const UNREMARKABLE: [&str; 5] = ["id", "uuid", "created_at", "updated_at", "member_count"];
/// Values nobody should read in a log.
const REDACTED: &str = "[redacted]";
const SECRET: [&str; 8] = [
    "api_token",
    "destination_secrets",
    "oidc_client_secret",
    "password_hash",
    "private_token",
    "secret_hash",
    "secrets",
    "token",
];

fn changes<T: Recorded>(before: Option<&T>, after: Option<&T>) -> Vec<Change> {
    let (before, after) = (fields(before), fields(after));
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    let noted = names.into_iter().filter(|name| !UNREMARKABLE.contains(&name.as_str()));
    noted
        .filter_map(|name| change(name, before.get(name), after.get(name)))
        .collect()
}

fn change(field: &str, before: Option<&Value>, after: Option<&Value>) -> Option<Change> {
    let (before, after) = (before.unwrap_or(&Value::Null), after.unwrap_or(&Value::Null));
    if before == after {
        return None;
    }
    let action = match (before.is_null(), after.is_null()) {
        (true, _) => ChangeKind::Created,
        (_, true) => ChangeKind::Deleted,
        _ => ChangeKind::Changed,
    };
    let shown = |value: &Value| match value {
        value if SECRET.contains(&field) && !value.is_null() => Value::from(REDACTED),
        value => cut(value),
    };
    Some(Change {
        action,
        field: field.to_owned(),
        before: shown(before),
        after: shown(after),
    })
}

/// Values that are longer in JSON are cut: a page of the log shows both sides of many changes.
const MAX_LENGTH: usize = 4 << 10;

/// The value, or the beginning of it as text, which says that it was cut.
fn cut(value: &Value) -> Value {
    let json = value.to_string();
    if json.len() <= MAX_LENGTH {
        return value.clone();
    }
    let text = value.as_str().unwrap_or(&json);
    Value::from(format!(
        "{}… [truncated: {} bytes in total]",
        beginning(text),
        text.len()
    ))
}

/// As much of a text as is not too long in JSON.
fn beginning(text: &str) -> &str {
    let mut length = 0;
    let too_long = text.char_indices().find(|(_, character)| {
        length += match character {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\0'..' ' => 6,
            other => other.len_utf8(),
        };
        length > MAX_LENGTH
    });
    too_long.map_or(text, |(end, _)| &text[..end])
}

fn fields<T: Recorded>(thing: Option<&T>) -> Map<String, Value> {
    match thing.map(serde_json::to_value) {
        Some(Ok(Value::Object(fields))) => fields,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Serialize)]
    struct Thing {
        id: i64,
        label: Option<&'static str>,
        token: &'static str,
    }

    impl Recorded for Thing {
        const SCOPE: &'static str = "Thing";
        fn organization(&self) -> Option<OrganizationId> {
            None
        }
        fn item(&self) -> String {
            self.id.to_string()
        }
        fn name(&self) -> String {
            "thing".to_owned()
        }
    }

    #[test]
    fn long_values_are_cut_and_say_so() {
        let short = json!({ "a": "\u{e4}".repeat(1000) });
        assert_eq!(cut(&short), short);
        for long in [
            json!("\u{e4}".repeat(100_000)),
            json!(vec![1; 100_000]),
            json!({ "a": "x".repeat(200_000) }),
        ] {
            let cut = cut(&long);
            let text = cut.as_str().expect("a text");
            assert!(
                text.len() < MAX_LENGTH + 50 && text.contains("[truncated: 200"),
                "{text}"
            );
        }
    }

    /// Or a page of the log has several times as many bytes.
    #[test]
    fn values_are_cut_to_what_is_stored_of_them() {
        for text in ["\u{1}", "\"", "\\\n", "\u{e4}\u{7f}", "\u{8}\u{c}\r\t\0"] {
            let long = text.repeat(4000);
            for value in [json!(long), json!([long])] {
                let stored = cut(&value).to_string().len();
                assert!(
                    (MAX_LENGTH - 10..MAX_LENGTH + 50).contains(&stored),
                    "{text:?}: {stored}"
                );
            }
        }
    }

    #[test]
    fn only_what_changed_is_kept_and_secrets_are_not() {
        let before = Thing {
            id: 1,
            label: None,
            token: "one",
        };
        let after = Thing {
            id: 1,
            label: Some("new"),
            token: "two",
        };
        let entry = Entry::updated(&before, &after).expect("two fields changed");
        let [label, token] = entry.changes.as_slice() else {
            panic!("{:?}", entry.changes)
        };
        assert_eq!((label.action, &label.after), (ChangeKind::Created, &json!("new")));
        assert_eq!(
            (&token.before, &token.after),
            (&json!("[redacted]"), &json!("[redacted]"))
        );
        assert!(Entry::updated(&before, &before).is_none());
    }
}
