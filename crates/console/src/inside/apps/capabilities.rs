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
pub(super) fn told(capability: &str) -> String {
    match capability.split_once('.') {
        Some((list, name)) => sentence(list, name),
        None => capability.to_owned(),
    }
}

fn sentence(list: &str, name: &str) -> String {
    if list == "jobs" {
        return format!("Has a job of its own: {name}");
    }
    let known = match name {
        "onEvent" => "Gets each event as it comes in (onEvent)",
        "composeWebhook" => "Has a request sent for each event (composeWebhook)",
        "exportEvents" => "Gets events many at a time (exportEvents)",
        "setupPlugin" => "Prepares itself when it starts (setupPlugin)",
        "teardownPlugin" => "Tidies up before it ends (teardownPlugin)",
        "runEveryMinute" => "Runs every minute (runEveryMinute)",
        "runEveryHour" => "Runs every hour (runEveryHour)",
        "runEveryDay" => "Runs every day (runEveryDay)",
        "processEvent" | "processEventBatch" | "onAction" | "onSnapshot" | "getSettings" => {
            return format!("Has {name}, which is never called here");
        }
        _ => return format!("Has {name}"),
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_told_in_words() {
        assert_eq!(told("methods.onEvent"), "Gets each event as it comes in (onEvent)");
        assert_eq!(told("jobs.again"), "Has a job of its own: again");
        assert_eq!(
            told("methods.processEvent"),
            "Has processEvent, which is never called here"
        );
        assert_eq!(told("odd"), "odd");
    }
}
