//! What apps do by the clock: every minute, hour or day.

use chrono::{DurationRound, TimeDelta};

use super::sql;
use super::sql::configs::Configs;
use super::types::SCHEDULED;
use crate::clock::Time;
use crate::error::Result;
use crate::transaction::WriteTx;

/// Makes the schedules of these configurations what the code offers, as long as they are on: by one statement for each of its functions,
/// however many configurations there are.
pub(super) async fn schedule(db: &mut WriteTx, configs: Configs, names: &[&str]) -> Result<()> {
    let now = db.now;
    for name in SCHEDULED {
        if names.contains(&name) {
            sql::configs::schedule(db, configs, name, next_turn(name, now)).await?;
        }
    }
    sql::configs::unschedule(db, configs, names).await
}

/// Full minutes, hours and days in UTC.
pub(super) fn next_turn(name: &str, now: Time) -> Time {
    let every = match name {
        "runEveryMinute" => TimeDelta::minutes(1),
        "runEveryHour" => TimeDelta::hours(1),
        _ => TimeDelta::days(1),
    };
    now.duration_trunc(every).unwrap_or(now) + every
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_full_minutes_hours_and_days() {
        let now: Time = "2026-11-15T13:30:30.5Z".parse().expect("a time");
        let at = |name: &str| next_turn(name, now).to_rfc3339();
        assert_eq!(at("runEveryMinute"), "2026-11-15T13:31:00+00:00");
        assert_eq!(at("runEveryHour"), "2026-11-15T14:00:00+00:00");
        assert_eq!(at("runEveryDay"), "2026-11-16T00:00:00+00:00");
    }
}
