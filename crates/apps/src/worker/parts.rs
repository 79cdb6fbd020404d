//! How much of the list of what is due is one person's: somebody's hundred thousand configurations must not make it long for everybody.

use std::collections::HashMap;

use service::Person;
use service::pipeline::DueAfter;

/// So many configurations of a person are in the list at a time. The next list goes on behind them.
const PART: usize = 200;

/// The parts of all persons.
#[derive(Debug, Default)]
pub(super) struct Parts(HashMap<Person, Part>);

#[derive(Debug, Default)]
struct Part {
    /// How many are in the list that is being read.
    listed: usize,
    /// The last one that was in a list, if the person has more.
    behind: Option<DueAfter>,
}

impl Parts {
    /// Another list begins. Whoever has come to an end starts over.
    pub(super) fn begin(&mut self) {
        self.0.retain(|_, part| part.listed >= PART);
        for part in self.0.values_mut() {
            part.listed = 0;
        }
    }

    /// None: this one is in the list. Else reading goes on behind what is returned.
    pub(super) fn skip(&mut self, person: Person, this: DueAfter) -> Option<DueAfter> {
        let part = self.0.entry(person).or_default();
        let end = this.end_of_organization();
        if part.listed >= PART {
            return Some(end);
        }
        if let Some(behind) = part.behind.filter(|behind| this <= *behind) {
            return Some(behind.min(end));
        }
        part.listed += 1;
        if part.listed == PART {
            part.behind = Some(this);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use service::pipeline::{Cursor, DueApp};
    use service::{AppConfigId, OrganizationId, TeamId, Time, UserId};
    use uuid::Uuid;

    use super::*;

    fn due(organization: u128, config: i64) -> DueAfter {
        DueAfter::this(&DueApp {
            config: AppConfigId(config),
            organization: OrganizationId(Uuid::from_u128(organization)),
            team: TeamId(1),
            due_at: Time::UNIX_EPOCH,
            cursor: Cursor {
                until: Time::UNIX_EPOCH,
                count: 0,
            },
        })
    }

    /// What is in a list, and how often the database was asked where to go on.
    fn listed(parts: &mut Parts, all: &[(Person, DueAfter)]) -> (Vec<(Person, DueAfter)>, usize) {
        parts.begin();
        let (mut listed, mut skipped, mut after) = (Vec::new(), 0, DueAfter::START);
        for (person, this) in all {
            if *this <= after {
                continue;
            }
            after = *this;
            match parts.skip(*person, *this) {
                Some(beyond) => (after, skipped) = (beyond, skipped + 1),
                None => listed.push((*person, *this)),
            }
        }
        (listed, skipped)
    }

    #[test]
    fn somebody_with_many_has_a_part_of_each_list_and_all_of_them_have_turns() {
        let (many, few) = (Person::Creator(UserId(1)), Person::Creator(UserId(2)));
        let organizations = 1..=10_u128;
        let of_many = organizations.flat_map(|one| (0..100).map(move |config| (many, due(2 * one, config))));
        let of_few = (1..=10_u128).map(|one| (few, due(2 * one + 1, 0)));
        let mut all: Vec<_> = of_many.chain(of_few).collect();
        all.sort_by_key(|(_, this)| *this);
        let mut parts = Parts::default();
        let mut seen = HashMap::new();
        for _ in 0..6 {
            let (listed, skipped) = listed(&mut parts, &all);
            assert_eq!(
                listed.iter().filter(|(person, _)| *person == few).count(),
                10,
                "nobody else has less"
            );
            assert!(
                listed.len() <= 10 + PART && skipped <= 11,
                "{} and {skipped}",
                listed.len()
            );
            for (_, this) in listed.into_iter().filter(|(person, _)| *person == many) {
                *seen.entry(this).or_insert(0) += 1;
            }
        }
        // A thousand in five lists; the sixth, which finds the end, is empty.
        assert_eq!(seen.len(), 1000);
        assert!(seen.values().all(|times| *times == 1));
        assert_eq!(listed(&mut parts, &all).0.len(), 10 + PART, "and it starts over");
    }
}
