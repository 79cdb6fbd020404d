//! What an app can do, in words.

use serde_json::Value;
use service::pipeline::App;

/// Everything that its code offers, a sentence each.
pub(super) fn offers(app: &App) -> Vec<String> {
    let lists = app.capabilities.as_object().into_iter().flatten();
    let each = lists.flat_map(|(list, names)| {
        let names = names.as_array().into_iter().flatten().filter_map(Value::as_str);
        names.map(move |name| sentence(list, name))
    });
    each.collect()
}

/// One that is told as `methods.onEvent`.
pub(super) fn describe(capability: &str) -> String {
    match capability.split_once('.') {
        Some((list, name)) => sentence(list, name),
        None => capability.to_owned(),
    }
}

fn sentence(list: &str, name: &str) -> String {
    if list == "jobs" {
        return format!("Job: {name}");
    }
    let known = match name {
        "onEvent" => "Receives each event as it arrives (onEvent)",
        "composeWebhook" => "Sends a webhook for each event (composeWebhook)",
        "exportEvents" => "Receives events in batches (exportEvents)",
        "setupPlugin" => "Runs setup when it starts (setupPlugin)",
        "teardownPlugin" => "Cleans up before it stops (teardownPlugin)",
        "runEveryMinute" => "Runs every minute (runEveryMinute)",
        "runEveryHour" => "Runs every hour (runEveryHour)",
        "runEveryDay" => "Runs every day (runEveryDay)",
        "processEvent" | "processEventBatch" | "onAction" | "onSnapshot" | "getSettings" => {
            return format!("Defines {name}, which is never called here");
        }
        _ => return format!("Defines {name}"),
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_told_in_words() {
        assert_eq!(
            describe("methods.onEvent"),
            "Receives each event as it arrives (onEvent)"
        );
        assert_eq!(describe("jobs.again"), "Job: again");
        assert_eq!(
            describe("methods.processEvent"),
            "Defines processEvent, which is never called here"
        );
        assert_eq!(describe("odd"), "odd");
    }
}
