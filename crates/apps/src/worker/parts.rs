//! How much of the list of what is due is one person's: somebody's hundred thousand configurations must not make it long for everybody.

use std::collections::HashMap;

use service::Person;
use service::pipeline::DueAfter;

/// So many configurations of a person are in the list at a time. The next list goes on behind them.
const PART: usize = 200;
/// Configurations that are read together.
const MAX_PAGE: i64 = 500;

/// The parts of all persons.
#[derive(Debug, Default)]
pub(super) struct Parts {
    of: HashMap<Person, Part>,
    page: i64,
}

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
        self.page = MAX_PAGE;
        self.of.retain(|_, part| part.listed >= PART);
        for part in self.of.values_mut() {
            part.listed = 0;
        }
    }

    /// How many are read next. After something was skipped, what follows may be to be skipped as well: few at first.
    pub(super) fn page(&mut self) -> i64 {
        let page = self.page;
        self.page = (2 * page).min(MAX_PAGE);
        page
    }

    /// None: this one is in the list. Else reading goes on behind what is returned.
    pub(super) fn skip(&mut self, person: Person, this: DueAfter) -> Option<DueAfter> {
        let part = self.of.entry(person).or_default();
        let end = this.end_of_organization();
        let is_before = |behind: &DueAfter| this <= *behind;
        let beyond = if part.listed >= PART {
            Some(end)
        } else {
            part.behind.filter(is_before).map(|behind| behind.min(end))
        };
        if beyond.is_some() {
            self.page = 1;
            return beyond;
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

    struct List {
        listed: Vec<(Person, DueAfter)>,
        skipped: usize,
        /// Rows that the database returned.
        read: usize,
    }

    fn list(parts: &mut Parts, all: &[(Person, DueAfter)]) -> List {
        parts.begin();
        let (mut listed, mut skipped, mut read, mut after) = (Vec::new(), 0, 0, DueAfter::START);
        loop {
            let page = usize::try_from(parts.page()).unwrap();
            let start = all.partition_point(|(_, this)| *this <= after);
            let rows = &all[start..all.len().min(start + page)];
            if rows.is_empty() {
                return List { listed, skipped, read };
            }
            read += rows.len();
            for (person, this) in rows {
                after = *this;
                if let Some(beyond) = parts.skip(*person, *this) {
                    (after, skipped) = (beyond, skipped + 1);
                    break;
                }
                listed.push((*person, *this));
            }
        }
    }

    /// So many organizations of each, one after the other in turns, with so many configurations.
    fn configurations(people: &[(i64, i64)], organizations: u128) -> Vec<(Person, DueAfter)> {
        let mut all = Vec::new();
        for round in 0..organizations {
            for (place, (person, count)) in (1..).zip(people) {
                let organization = 100 * round + place;
                all.extend((0..*count).map(|config| (Person::Creator(UserId(*person)), due(organization, config))));
            }
        }
        all
    }

    #[test]
    fn somebody_with_many_has_a_part_of_each_list_and_all_of_them_have_turns() {
        let all = configurations(&[(1, 100), (2, 1)], 10);
        let few = Person::Creator(UserId(2));
        let (mut parts, mut seen) = (Parts::default(), HashMap::new());
        for _ in 0..6 {
            let List { listed, skipped, .. } = list(&mut parts, &all);
            let of_few = listed.iter().filter(|(person, _)| *person == few).count();
            assert_eq!(of_few, 10, "nobody else has less");
            assert!(
                listed.len() <= 10 + PART && skipped <= 11,
                "{} and {skipped}",
                listed.len()
            );
            for (_, this) in listed.into_iter().filter(|(person, _)| *person != few) {
                *seen.entry(this).or_insert(0) += 1;
            }
        }
        // A thousand in five lists; the sixth, which finds the end, is empty.
        assert_eq!(seen.len(), 1000);
        assert!(seen.values().all(|times| *times == 1));
        let List { listed, .. } = list(&mut parts, &all);
        assert_eq!(listed.len(), 10 + PART, "and it starts over");
    }

    #[test]
    fn hardly_anything_is_read_in_vain() {
        let people: Vec<(i64, i64)> = (0..10).flat_map(|one| [(2 * one, 10), (2 * one + 1, 1)]).collect();
        let all = configurations(&people, 99);
        let mut parts = Parts::default();
        for _ in 0..3 {
            let List { listed, skipped, read } = list(&mut parts, &all);
            assert!(
                read <= 3 * listed.len() + skipped,
                "{read} for {} and {skipped}",
                listed.len()
            );
        }
    }
}
