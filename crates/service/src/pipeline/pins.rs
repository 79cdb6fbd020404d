//! Which version of an app a configuration runs: the one that its organization approved, until it takes a newer one.

use std::collections::BTreeSet;

use serde_json::Value;

use super::types::{App, AppConfig, AppLogLevel, Derived, empty_object};
use super::{logs, sql};
use crate::activity::{Change, Entry};
use crate::db::Session;
use crate::error::{Error, Result};
use crate::transaction::WriteTx;

/// The app as a configuration runs it: with the code that was approved, and what was said of it then.
pub(super) async fn as_approved(db: &mut Session, app: App, config: &AppConfig) -> Result<App> {
    if app.version == config.version {
        return Ok(app);
    }
    let manifest = sql::versions::manifest(db, app.id, config.version).await?;
    Ok(app.at(config.version, manifest))
}

/// The app as it is run. What was written of it can leave out what its code can do, and adds nothing.
pub(super) async fn as_run(db: &mut Session, mut app: App) -> Result<App> {
    if app.version > 0 && !app.overrides.contains(&Derived::Capabilities) {
        return Ok(app);
    }
    let metadata = sql::versions::metadata(db, &app).await?;
    let offered = metadata.map_or_else(empty_object, |metadata| metadata.capabilities);
    app.capabilities = common(&app.capabilities, &offered);
    Ok(app)
}

/// What both list.
fn common(written: &Value, offered: &Value) -> Value {
    let names = |value: &Value, list: &str| -> BTreeSet<String> {
        let names = value.get(list).and_then(Value::as_array).into_iter().flatten();
        names.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let lists = ["methods", "scheduled_tasks", "jobs"].map(|list| {
        let both = &names(written, list) & &names(offered, list);
        (list.to_owned(), both.into_iter().collect::<Value>())
    });
    Value::Object(lists.into_iter().collect())
}

/// What those who use an app of others see of it, whatever version they run.
const SHOWN: [&str; 6] = ["name", "description", "icon", "plugin_type", "tag", "url"];

/// What is shown otherwise than before.
pub(super) fn shown_changes(before: &App, app: &App) -> Vec<Change> {
    let changes = Entry::updated(before, app).map(|entry| entry.changes);
    let mut changes = changes.unwrap_or_default();
    changes.retain(|change| SHOWN.contains(&change.field.as_str()));
    changes
}

/// Tells those who use an app of others that it has another version now, or is shown otherwise.
pub(super) async fn tell(
    db: &mut WriteTx,
    app: &App,
    config: &AppConfig,
    is_new_version: bool,
    shown: &[Change],
) -> Result<Entry> {
    let mut entry = if is_new_version {
        tell_version(db, app, config).await?
    } else {
        Entry::happened(config, "app_updated")
    };
    entry.changes.extend_from_slice(shown);
    Ok(entry)
}

async fn tell_version(db: &mut WriteTx, app: &App, config: &AppConfig) -> Result<Entry> {
    let message = format!(
        "The app now has version {}. This configuration keeps running version {}, which was approved here, until somebody reviews and \
         accepts the update.",
        app.version, config.version
    );
    logs::say(db, config, AppLogLevel::Info, &message).await?;
    Ok(Entry::happened(config, "new_version").noting("version", &app.version.to_string()))
}

/// What was looked at is no longer what would be taken.
pub(super) fn version_changed(latest: i64) -> Error {
    Error::Conflict {
        code: "version_changed",
        detail: format!("version {latest} of the app was published in the meantime: review it and try again"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_can_leave_out_and_not_add() {
        let offered = json!({ "methods": ["onEvent", "setupPlugin"], "scheduled_tasks": [], "jobs": ["all"] });
        let written = json!({ "methods": ["onEvent", "onEvent", "exportEvents", 1], "scheduled_tasks": ["runEveryDay"], "x": [] });
        let both = json!({ "methods": ["onEvent"], "scheduled_tasks": [], "jobs": [] });
        assert_eq!(common(&written, &offered), both);
    }
}
