//! Which teams sent what is much work lately.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// For how long a team counts as such after the last time.
const SLOW_FOR: Duration = Duration::from_secs(10);

/// Shared by the task that finds out and the one that works for them.
#[derive(Debug, Clone, Default)]
pub(super) struct SlowTeams(Arc<Mutex<HashMap<i64, SlowTeam>>>);

#[derive(Debug)]
struct SlowTeam {
    until: Instant,
    /// What waits, or is being done.
    in_progress: usize,
}

impl SlowTeam {
    fn is_over(&self) -> bool {
        self.in_progress == 0 && self.until <= Instant::now()
    }
}

impl SlowTeams {
    /// Also as long as something of it is in progress: nothing else may be done for it then.
    pub(super) fn contains(&self, team: i64) -> bool {
        self.lock().get(&team).is_some_and(|team| !team.is_over())
    }

    /// From now on, for a while.
    pub(super) fn note(&self, team: i64) {
        let mut teams = self.lock();
        teams.retain(|_, team| !team.is_over());
        let until = Instant::now() + SLOW_FOR;
        let team = teams.entry(team).or_insert(SlowTeam { until, in_progress: 0 });
        team.until = until;
    }

    pub(super) fn begin(&self, team: i64) {
        let mut teams = self.lock();
        let team = teams.entry(team).or_insert_with(|| SlowTeam {
            until: Instant::now(),
            in_progress: 0,
        });
        team.in_progress += 1;
    }

    pub(super) fn end(&self, team: i64) {
        if let Some(team) = self.lock().get_mut(&team) {
            team.in_progress = team.in_progress.saturating_sub(1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i64, SlowTeam>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_team_is_slow_for_a_while_and_until_all_of_it_is_done() {
        let teams = SlowTeams::default();
        assert!(!teams.contains(1));
        teams.note(1);
        assert!(teams.contains(1) && !teams.contains(2));
        teams.begin(1);
        teams.begin(1);
        teams.lock().get_mut(&1).unwrap().until = Instant::now();
        teams.end(1);
        assert!(teams.contains(1), "one is in progress");
        teams.end(1);
        assert!(!teams.contains(1));
        teams.note(2);
        assert_eq!(teams.lock().len(), 1, "those that are over are forgotten");
    }
}
