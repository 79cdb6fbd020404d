//! What is said of an app's code: where it comes from, and which version it is.

use service::pipeline::{App, PluginType};

/// Where the code of an app comes from, as people would say it.
pub(super) fn origin(app: &App) -> String {
    match (app.plugin_type, &app.url) {
        (PluginType::Source | PluginType::Inline, _) => "Custom code".to_owned(),
        (PluginType::Local, Some(url)) => format!("Folder {}", url.trim_start_matches("file:")),
        (PluginType::Local, None) => "Local folder".to_owned(),
        (_, Some(url)) => url.trim_start_matches("https://").to_owned(),
        (_, None) => "Unknown".to_owned(),
    }
}

/// What is newer than what it has.
pub(super) fn newer_tag(app: &App) -> Option<String> {
    app.latest_tag.clone().filter(|latest| app.tag.as_ref() != Some(latest))
}

/// Its tag, or else its number.
pub(super) fn version(number: i64, tag: Option<&str>) -> String {
    match (number, tag) {
        (_, Some(tag)) if !tag.is_empty() => tag.to_owned(),
        (0, _) => "No code yet".to_owned(),
        (number, _) => format!("Version {number}"),
    }
}
