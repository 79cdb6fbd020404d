//! Rounds in which persons are served one after the other, each with one of their organizations, however many these are.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use service::{Person, Tenant};

use super::speed_class::{Pass, SpeedClass};
use super::state::State;

/// Who has been served in this round.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    underserved: HashSet<Person>,
    /// Of each class for itself: where the slowest have no room, the others go on.
    slow: HashSet<(SpeedClass, Person)>,
}

impl State {
    /// Whether another person is to be served before.
    pub(super) fn has_had_turn(&self, pass: Pass, tenant: Tenant, standing: SpeedClass) -> bool {
        let person = tenant.person();
        match pass {
            Pass::Underserved => self.rounds.underserved.contains(&person),
            Pass::OverdueSlow => self.rounds.slow.contains(&(standing, person)),
            _ => false,
        }
    }

    pub(super) fn note_turn(&mut self, pass: Pass, tenant: Tenant, standing: SpeedClass) {
        let person = tenant.person();
        match pass {
            Pass::Underserved => _ = self.rounds.underserved.insert(person),
            Pass::OverdueSlow => _ = self.rounds.slow.insert((standing, person)),
            _ => {}
        }
    }

    /// If nobody is left in the round, the next one begins immediately.
    pub(super) fn end_look(&mut self, takes_tasks: bool, pass: Pass, has_found: bool, took: Duration, now: Instant) {
        self.looks(takes_tasks).end(pass, has_found, took, now);
        let is_round_over = !has_found && self.end_round(pass);
        if is_round_over {
            self.looks(takes_tasks).look_again(pass);
        }
    }

    /// Whether anybody was served in it.
    fn end_round(&mut self, pass: Pass) -> bool {
        match pass {
            Pass::Underserved => !std::mem::take(&mut self.rounds.underserved).is_empty(),
            Pass::OverdueSlow => {
                let before = self.rounds.slow.len();
                let mut slow = std::mem::take(&mut self.rounds.slow);
                slow.retain(|(standing, _)| !self.has_kept_room_for(*standing));
                let is_over = slow.len() < before;
                self.rounds.slow = slow;
                is_over
            }
            _ => false,
        }
    }
}
