//! Configurations that had nothing to do: when they are looked at again, and which teams need not be asked about. And teams
//! whose events cannot be read.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use service::pipeline::Cursor;
use service::{AppConfigId, TeamId, Time};

/// How often to poll for work.
pub(super) const POLL: Duration = Duration::from_secs(1);
/// A configuration without events is looked at less and less often, but at least this often.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// A pause that ended this long ago belongs to a configuration that is no longer checked.
const FORGOTTEN: Duration = Duration::from_mins(1);
/// How long one look waits for what cannot be read. The next look goes on with others.
const MAX_FAILING: Duration = Duration::from_secs(2);
/// How often it is logged that the events of a team cannot be read, and of how many teams.
const LOG_EVERY: Duration = Duration::from_mins(1);
const MAX_LOGGED: usize = 100;

/// When each configuration that had nothing is looked at again.
#[derive(Debug, Default)]
pub(super) struct Pauses(HashMap<AppConfigId, Pause>);

#[derive(Debug, Clone, Copy)]
struct Pause {
    until: Instant,
    length: Duration,
}

impl Pauses {
    pub(super) fn is_over(&self, id: AppConfigId, now: Instant) -> bool {
        self.0.get(&id).is_none_or(|pause| pause.until <= now)
    }

    pub(super) fn lengthen(&mut self, id: AppConfigId, now: Instant) {
        let before = self.0.get(&id).map_or(POLL / 2, |pause| pause.length);
        let length = (before * 2).min(MAX_PAUSE);
        let until = now + length;
        self.0.insert(id, Pause { until, length });
    }

    /// Drops configurations that were disabled or deleted: what is due is looked at soon after its pause.
    pub(super) fn tidy(&mut self, now: Instant) {
        self.0.retain(|_, pause| now < pause.until + FORGOTTEN);
    }

    pub(super) fn end(&mut self, id: AppConfigId) {
        self.0.remove(&id);
    }
}

/// Where one look over all configurations found nothing: others of the same team need not ask again.
#[derive(Debug, Default)]
pub(super) struct TeamsWithoutEvents {
    /// From this moment on there is nothing for the team.
    since: HashMap<TeamId, Time>,
    /// Those who have been handed something stand behind it.
    cursors: HashSet<(TeamId, Time, i64)>,
    /// Whose events could not be read, and how long that took in one look.
    failed: HashSet<TeamId>,
    failing: Duration,
}

impl TeamsWithoutEvents {
    pub(super) fn has(&self, team: TeamId, cursor: &Cursor) -> bool {
        let since = self.since.get(&team);
        since.is_some_and(|since| *since <= cursor.until)
            || self.cursors.contains(&(team, cursor.until, cursor.count))
            || self.failed.contains(&team)
    }

    /// Another look begins.
    pub(super) fn begin(&mut self) {
        self.failing = Duration::ZERO;
    }

    pub(super) fn note_failure(&mut self, team: TeamId, took: Duration) {
        self.failed.insert(team);
        self.failing += took;
    }

    /// Whether the look ends, because it has taken too long.
    pub(super) fn has_failed_for_long(&self) -> bool {
        self.failing >= MAX_FAILING
    }

    /// The list is read again, maybe while a look goes on: what it has waited for in vain still counts.
    pub(super) fn forget_all(&mut self) {
        *self = Self {
            failing: self.failing,
            ..Self::default()
        };
    }

    /// There is something for the team.
    pub(super) fn forget(&mut self, team: TeamId) {
        self.since.remove(&team);
        self.cursors.retain(|(of, _, _)| *of != team);
    }

    pub(super) fn note(&mut self, team: TeamId, cursor: &Cursor) {
        if cursor.count > 0 {
            self.cursors.insert((team, cursor.until, cursor.count));
            return;
        }
        let since = self.since.entry(team).or_insert(cursor.until);
        *since = cursor.until.min(*since);
    }
}

/// Of which teams it was logged lately that their events cannot be read.
#[derive(Debug, Default)]
pub(super) struct Failures(HashMap<TeamId, Instant>);

impl Failures {
    pub(super) fn is_to_log(&mut self, team: TeamId, now: Instant) -> bool {
        self.0.retain(|_, logged| now < *logged + LOG_EVERY);
        if self.0.len() >= MAX_LOGGED || self.0.contains_key(&team) {
            return false;
        }
        self.0.insert(team, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_team_without_events_is_asked_for_once() {
        let at = |second: i64, count: i64| Cursor {
            until: Time::from_timestamp(second, 0).unwrap(),
            count,
        };
        let (team, other, mut without_events) = (TeamId(1), TeamId(2), TeamsWithoutEvents::default());
        without_events.note(team, &at(10, 0));
        assert!(
            without_events.has(team, &at(10, 0))
                && without_events.has(team, &at(11, 0))
                && without_events.has(team, &at(11, 3))
        );
        assert!(!without_events.has(team, &at(9, 0)) && !without_events.has(other, &at(10, 0)));
        without_events.note(team, &at(8, 0));
        without_events.note(team, &at(12, 0));
        assert!(without_events.has(team, &at(9, 0)));
        // Whoever stands behind events knows of no others: only who stands at the same place has nothing, either.
        without_events.note(other, &at(10, 2));
        assert!(
            without_events.has(other, &at(10, 2))
                && !without_events.has(other, &at(10, 1))
                && !without_events.has(other, &at(11, 0))
        );
        without_events.forget(team);
        assert!(!without_events.has(team, &at(10, 0)) && without_events.has(other, &at(10, 2)));
        without_events.forget(other);
        assert!(!without_events.has(other, &at(10, 2)));
    }

    #[test]
    fn a_team_that_cannot_be_read_is_asked_for_once_and_a_look_does_not_wait_for_many() {
        let (team, other, mut without_events) = (TeamId(1), TeamId(2), TeamsWithoutEvents::default());
        let cursor = Cursor {
            until: Time::UNIX_EPOCH,
            count: 0,
        };
        without_events.note_failure(team, MAX_FAILING / 2);
        assert!(without_events.has(team, &cursor) && !without_events.has(other, &cursor));
        assert!(!without_events.has_failed_for_long());
        without_events.note_failure(other, MAX_FAILING / 2);
        assert!(without_events.has_failed_for_long());
        without_events.forget_all();
        assert!(without_events.has_failed_for_long() && !without_events.has(team, &cursor));
        without_events.note_failure(team, Duration::ZERO);
        without_events.begin();
        assert!(!without_events.has_failed_for_long() && without_events.has(team, &cursor));
    }

    #[test]
    fn failures_of_a_team_are_logged_once_a_minute_and_those_of_many_not_all() {
        let (mut failures, start) = (Failures::default(), Instant::now());
        assert!(failures.is_to_log(TeamId(0), start) && !failures.is_to_log(TeamId(0), start));
        let logged = (0..1000).filter(|team| failures.is_to_log(TeamId(*team), start));
        assert_eq!(logged.count(), MAX_LOGGED - 1);
        assert!(failures.is_to_log(TeamId(0), start + LOG_EVERY));
    }

    #[test]
    fn pauses_of_configurations_that_are_gone_are_forgotten() {
        let (mut pauses, start) = (Pauses::default(), Instant::now());
        let (there, gone) = (AppConfigId(1), AppConfigId(2));
        pauses.lengthen(there, start);
        pauses.lengthen(gone, start);
        assert!(!pauses.is_over(there, start) && pauses.is_over(there, start + POLL));
        for second in 0..120 {
            let now = start + Duration::from_secs(second);
            pauses.tidy(now);
            if pauses.is_over(there, now) {
                pauses.lengthen(there, now);
            }
        }
        assert_eq!(pauses.0.keys().collect::<Vec<_>>(), [&there]);
        assert_eq!(
            pauses.0[&there].length, MAX_PAUSE,
            "whoever is still looked at keeps the pause"
        );
    }
}
