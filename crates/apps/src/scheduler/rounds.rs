//! Rounds in which persons are served one after the other, each with one of their organizations, however many these are.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use service::{OrganizationId, Person, Tenant};

use super::speed_class::{Pass, SpeedClass};
use super::state::State;

/// Where persons are, and each of them with their organizations.
#[derive(Debug, Default)]
struct Round {
    served: HashSet<Person>,
    /// The organization that was served last. Those behind it come first.
    last: HashMap<Person, OrganizationId>,
}

impl Round {
    fn is_turn_of(&self, tenant: Tenant) -> bool {
        let person = tenant.person();
        let last = self.last.get(&person);
        !self.served.contains(&person) && last.is_none_or(|last| tenant.organization > *last)
    }

    fn note(&mut self, tenant: Tenant) {
        self.served.insert(tenant.person());
        self.last.insert(tenant.person(), tenant.organization);
    }

    /// Nobody was found whose turn it is: those who were not served begin again with their first organization, and when there are none, the next round
    /// begins. Whether somebody may be found now.
    fn go_on(&mut self, is_looked_for: impl Fn(Person) -> bool) -> bool {
        let Self { served, last } = self;
        let before = last.len();
        last.retain(|person, _| served.contains(person) || !is_looked_for(*person));
        if last.len() < before {
            return true;
        }
        let is_over = !served.is_empty();
        served.clear();
        is_over
    }
}

/// The rounds of all slots that look for the same.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    underserved: Round,
    overdue: Round,
    /// Of each class for itself: where the slowest have no room, the others go on.
    slow: HashMap<SpeedClass, Round>,
}

impl Rounds {
    fn of(&self, pass: Pass, standing: SpeedClass) -> Option<&Round> {
        match pass {
            Pass::Underserved => Some(&self.underserved),
            Pass::Overdue => Some(&self.overdue),
            Pass::OverdueSlow => self.slow.get(&standing),
            _ => None,
        }
    }

    pub(super) fn is_turn_of(&self, tenant: Tenant, pass: Pass, standing: SpeedClass) -> bool {
        self.of(pass, standing).is_none_or(|round| round.is_turn_of(tenant))
    }

    pub(super) fn note(&mut self, tenant: Tenant, pass: Pass, standing: SpeedClass) {
        match pass {
            Pass::Underserved => self.underserved.note(tenant),
            Pass::Overdue => self.overdue.note(tenant),
            Pass::OverdueSlow => self.slow.entry(standing).or_default().note(tenant),
            _ => {}
        }
    }
}

impl State {
    pub(super) fn end_look(&mut self, takes_tasks: bool, pass: Pass, has_found: bool, took: Duration, now: Instant) {
        self.looks(takes_tasks).end(pass, has_found, took, now);
        if !has_found && self.go_on(takes_tasks, pass, now) {
            self.looks(takes_tasks).look_again(pass);
        }
    }

    fn go_on(&mut self, takes_tasks: bool, pass: Pass, now: Instant) -> bool {
        let with_room = [SpeedClass::Slow, SpeedClass::Slower, SpeedClass::Slowest];
        let with_room = with_room.map(|class| (class, self.has_kept_room_for(class)));
        let rounds = &mut self.rounds[usize::from(takes_tasks)];
        match pass {
            Pass::Underserved => rounds.underserved.go_on(|person| self.loads.is_little(person, now)),
            Pass::Overdue => rounds.overdue.go_on(|_| true),
            Pass::OverdueSlow => with_room.into_iter().fold(false, |may_find, (class, has_room)| {
                let round = rounds.slow.get_mut(&class).filter(|_| has_room);
                round.is_some_and(|round| round.go_on(|_| true)) || may_find
            }),
            _ => false,
        }
    }
}
