//! How things are put into words.

use std::time::Duration;

use chrono::TimeDelta;
use service::sso::Sso;
use service::{Level, Time};

/// What the service says, as a sentence: it begins small and has no full stop.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

/// Whole seconds to wait, never too few.
pub(crate) fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

pub(crate) fn duration(wait: Duration) -> String {
    let seconds = whole_seconds(wait);
    if seconds < 90 {
        counted(i64::try_from(seconds).unwrap_or(i64::MAX), "second")
    } else {
        counted(i64::try_from(seconds.div_ceil(60)).unwrap_or(i64::MAX), "minute")
    }
}

/// How long ago, as long as that is easier to grasp than a date.
pub(crate) fn ago(time: Time, now: Time) -> String {
    let past = now - time;
    if past < TimeDelta::minutes(1) {
        "just now".to_owned()
    } else if past < TimeDelta::hours(1) {
        format!("{} ago", counted(past.num_minutes(), "minute"))
    } else if past < TimeDelta::days(1) {
        format!("{} ago", counted(past.num_hours(), "hour"))
    } else if past < TimeDelta::days(14) {
        format!("{} ago", counted(past.num_days(), "day"))
    } else {
        day(time)
    }
}

/// How long until then, as long as that is easier to grasp than a date.
pub(crate) fn until(time: Time, now: Time) -> String {
    // To the nearest: what is good for three days is so a minute later, too.
    let left = time - now;
    if left < TimeDelta::hours(1) {
        let minutes = (left + TimeDelta::seconds(30)).num_minutes();
        format!("in {}", counted(minutes.clamp(1, 59), "minute"))
    } else if left < TimeDelta::days(2) {
        let hours = (left + TimeDelta::minutes(30)).num_hours();
        format!("in {}", counted(hours, "hour"))
    } else if left < TimeDelta::days(14) {
        let days = (left + TimeDelta::hours(12)).num_days();
        format!("in {}", counted(days, "day"))
    } else {
        day(time)
    }
}

pub(crate) fn day(time: Time) -> String {
    time.format("%-d %b %Y").to_string()
}

/// For programs, and for whoever points at it.
pub(crate) fn exactly(time: Time) -> String {
    time.format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

pub(crate) fn counted(number: i64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// A browser by the name people know it by, as far as it says.
pub(crate) fn browser(user_agent: &str) -> String {
    // Most browsers also claim to be those that come later in this list.
    const BROWSERS: [(&str, &str); 7] = [
        ("Edg/", "Edge"),
        ("OPR/", "Opera"),
        ("Firefox/", "Firefox"),
        ("FxiOS/", "Firefox"),
        ("CriOS/", "Chrome"),
        ("Chrome/", "Chrome"),
        ("Safari/", "Safari"),
    ];
    const SYSTEMS: [(&str, &str); 7] = [
        ("Windows", "Windows"),
        ("Android", "Android"),
        ("iPhone", "iPhone"),
        ("iPad", "iPad"),
        ("Mac OS X", "macOS"),
        ("CrOS", "ChromeOS"),
        ("Linux", "Linux"),
    ];
    let named = |names: &[(&str, &'static str)]| {
        let found = names.iter().find(|(mark, _)| user_agent.contains(mark));
        found.map(|(_, name)| *name)
    };
    match (named(&BROWSERS), named(&SYSTEMS)) {
        (Some(browser), Some(system)) => format!("{browser} on {system}"),
        (Some(browser), None) => browser.to_owned(),
        _ if user_agent.is_empty() => "Unknown browser".to_owned(),
        _ => user_agent.chars().take(40).collect(),
    }
}

/// A level by the name of its role.
pub(crate) const fn level(level: Level) -> &'static str {
    match level {
        Level::Member => "Member",
        Level::Admin => "Administrator",
        Level::Owner => "Owner",
    }
}

/// What stands before that name in a sentence.
pub(crate) const fn article(level: Level) -> &'static str {
    match level {
        Level::Member => "a",
        Level::Admin | Level::Owner => "an",
    }
}

/// How a session was opened.
pub(crate) fn method(method: &str) -> &str {
    match method {
        "password" => "Password",
        "recovery_code" => "Recovery code",
        other => other.parse().map_or(other, |sso: Sso| sso.title()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_service_says_becomes_a_sentence() {
        assert_eq!(sentence("this is required"), "This is required.");
        assert_eq!(sentence("Done."), "Done.");
        assert_eq!(sentence(""), ".");
    }

    #[test]
    fn waiting_is_told_in_what_people_count_in() {
        assert_eq!(duration(Duration::from_millis(900)), "1 second");
        assert_eq!(duration(Duration::from_secs(61)), "61 seconds");
        assert_eq!(duration(Duration::from_secs(541)), "10 minutes");
    }

    #[test]
    fn the_past_is_told_by_how_far_away_it_is() {
        let now: Time = "2026-11-15T09:30:00Z".parse().unwrap();
        assert_eq!(ago(now - TimeDelta::seconds(3), now), "just now");
        assert_eq!(ago(now - TimeDelta::minutes(1), now), "1 minute ago");
        assert_eq!(ago(now - TimeDelta::hours(30), now), "1 day ago");
        assert_eq!(ago(now - TimeDelta::days(40), now), "6 Oct 2026");
    }

    #[test]
    fn so_is_what_is_to_come() {
        let now: Time = "2026-11-15T09:30:00Z".parse().unwrap();
        assert_eq!(until(now + TimeDelta::seconds(3), now), "in 1 minute");
        assert_eq!(until(now + TimeDelta::hours(30), now), "in 30 hours");
        assert_eq!(until(now + TimeDelta::days(3), now), "in 3 days");
        assert_eq!(
            until(now + TimeDelta::days(3), now + TimeDelta::minutes(2)),
            "in 3 days"
        );
        assert_eq!(until(now + TimeDelta::seconds(3599), now), "in 59 minutes");
        assert_eq!(until(now + TimeDelta::days(40), now), "25 Dec 2026");
    }

    #[test]
    fn browsers_are_called_by_their_names() {
        let chrome =
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/148.0 Safari/537.36";
        assert_eq!(browser(chrome), "Chrome on Linux");
        let safari = "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Version/19.0 Mobile Safari/604.1";
        assert_eq!(browser(safari), "Safari on iPhone");
        assert_eq!(browser("curl/8.14"), "curl/8.14");
        assert_eq!(browser(""), "Unknown browser");
    }
}
