//! How many pages are made at a time, be they JSON or for people.

use boxed::boxed;

use crate::db::{FairSemaphore, Permit};
use crate::error::Result;
use crate::id::UserId;

/// How many pages of one organization are read and written at a time. Only a page that is written is counted as an answer, and until then
/// it may be in memory more than once: as rows, as what is shown of them, and as text.
const PAGES_AT_ONCE: usize = 8;

/// How many of one person, in whichever organizations: whoever creates organizations does not get more with each.
const PAGES_OF_PERSON: usize = 8;

/// Who reads and writes a page now.
#[derive(Debug, Clone)]
pub struct PageSlots {
    of_organizations: FairSemaphore,
    of_people: FairSemaphore,
}

/// The right to read and write a page, until it is dropped.
#[derive(Debug)]
pub struct PageSlot {
    _of_person: Option<Permit>,
    _of_organization: Permit,
}

impl Default for PageSlots {
    fn default() -> Self {
        Self {
            of_organizations: FairSemaphore::for_each("The server", PAGES_AT_ONCE),
            of_people: FairSemaphore::for_each("The server", PAGES_OF_PERSON),
        }
    }
}

impl PageSlots {
    /// Most people read the pages of one organization, and wait at most once.
    #[boxed]
    pub async fn acquire(&self, user: Option<UserId>) -> Result<PageSlot> {
        let of_organization = self.of_organizations.acquire().await?;
        let of_person = user.map(|user| self.of_people.try_acquire_for(user).ok_or(user));
        match of_person.transpose() {
            Ok(of_person) => Ok(PageSlot {
                _of_person: of_person,
                _of_organization: of_organization,
            }),
            Err(user) => {
                // Whoever waits for their own other pages keeps none of an organization's.
                drop(of_organization);
                Ok(PageSlot {
                    _of_person: Some(self.of_people.acquire_for(user).await?),
                    _of_organization: self.of_organizations.acquire().await?,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;
    use uuid::Uuid;

    use super::*;
    use crate::db::caller;
    use crate::id::OrganizationId;

    /// None: they wait.
    fn acquire(slots: &PageSlots, organization: u128, user: i64) -> Option<PageSlot> {
        let organization = OrganizationId(Uuid::from_u128(organization));
        let acquired = caller::on_behalf_of_organization(organization, slots.acquire(Some(UserId(user))));
        acquired.now_or_never().map(|slot| slot.expect("a slot"))
    }

    #[tokio::test]
    async fn a_person_has_so_many_in_all_organizations() {
        let slots = PageSlots::default();
        let mut held: Vec<PageSlot> = (1..=8).filter_map(|number| acquire(&slots, number, 1)).collect();
        assert_eq!(held.len(), PAGES_OF_PERSON);
        assert!(acquire(&slots, 9, 1).is_none());
        assert!(acquire(&slots, 9, 2).is_some(), "others do not wait for them");
        held.pop();
        assert!(acquire(&slots, 9, 1).is_some());
    }

    #[tokio::test]
    async fn an_organization_has_so_many_of_all_its_people() {
        let slots = PageSlots::default();
        let held: Vec<PageSlot> = (1..=9).filter_map(|user| acquire(&slots, 1, user)).collect();
        assert_eq!(held.len(), PAGES_AT_ONCE);
    }

    #[tokio::test]
    async fn whoever_waits_for_their_own_pages_keeps_none_of_an_organization() {
        let slots = PageSlots::default();
        let _held: Vec<PageSlot> = (1..=8).filter_map(|number| acquire(&slots, number, 1)).collect();
        let organization = OrganizationId(Uuid::from_u128(9));
        let mut waiting = pin!(caller::on_behalf_of_organization(
            organization,
            slots.acquire(Some(UserId(1)))
        ));
        assert!(waiting.as_mut().now_or_never().is_none());
        let others: Vec<PageSlot> = (2..=9).filter_map(|user| acquire(&slots, 9, user)).collect();
        assert_eq!(others.len(), PAGES_AT_ONCE);
    }

    #[tokio::test]
    async fn whoever_waits_elsewhere_sends_nobody_back_to_the_end_of_the_queue() {
        let slots = PageSlots::default();
        let page = |organization: u128, user: i64| {
            let organization = OrganizationId(Uuid::from_u128(organization));
            Box::pin(caller::on_behalf_of_organization(
                organization,
                slots.acquire(Some(UserId(user))),
            ))
        };
        let _own: Vec<PageSlot> = (1..=8).filter_map(|number| acquire(&slots, number, 1)).collect();
        let mut elsewhere = page(9, 1);
        assert!(elsewhere.as_mut().now_or_never().is_none());
        let mut held: Vec<PageSlot> = (11..=18).filter_map(|user| acquire(&slots, 10, user)).collect();
        let (mut first, mut second) = (page(10, 19), page(10, 20));
        assert!(first.as_mut().now_or_never().is_none());
        assert!(second.as_mut().now_or_never().is_none());
        held.pop();
        let slot = first.as_mut().now_or_never();
        assert!(slot.is_some() && second.as_mut().now_or_never().is_none());
    }
}
