//! How many pages are made at a time.

use service::{FairSemaphore, Permit, Result, UserId};

/// How many pages of one organization are read and written at a time. Only a page that is written is counted as an answer, and until then
/// it may be in memory more than once: as rows, as what is shown of them, and as text.
const PAGES_AT_ONCE: usize = 4;

/// How many of one person, in whichever organizations: whoever creates organizations does not get more with each.
const PAGES_OF_PERSON: usize = 8;

/// Who reads and writes a page now.
#[derive(Debug, Clone)]
pub(crate) struct PageSlots {
    of_organizations: FairSemaphore,
    of_people: FairSemaphore,
}

/// The right to read and write a page, until it is dropped.
#[derive(Debug)]
pub(crate) struct PageSlot {
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
    /// Whoever waits for their own other pages keeps none of an organization's.
    pub(crate) async fn acquire(&self, user: Option<UserId>) -> Result<PageSlot> {
        let of_person = match user {
            Some(user) => Some(self.of_people.acquire_for(user).await?),
            None => None,
        };
        Ok(PageSlot {
            _of_person: of_person,
            _of_organization: self.of_organizations.acquire().await?,
        })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use service::{OrganizationId, caller};
    use uuid::Uuid;

    use super::*;

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
        let held: Vec<PageSlot> = (1..=8).filter_map(|user| acquire(&slots, 1, user)).collect();
        assert_eq!(held.len(), PAGES_AT_ONCE);
    }
}
