//! A part of the memory that subnets share: an organization's, and all of it.
//!
//! Tokens can be read on any website, so whoever sends for an organization may be a stranger who wants nobody else to. Some
//! requests hold what they have for as long as their events wait to be stored, so it is not enough that each is served in turn.

use std::net::IpAddr;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

#[derive(Debug, Default)]
pub(super) struct Part {
    bytes: usize,
    by_subnet: HashMap<IpAddr, usize>,
    /// How many of them have more than a little.
    large: usize,
}

impl Part {
    /// Whether a subnet may have so many bytes more of the `whole`, for a request that has `of_request` of its bytes.
    ///
    /// What is little, each may have while there is any. Of the rest it gets half of what others leave, or as much as if there was one more
    /// than there are: so the next one need not wait for others to end. One that is alone may have everything, for one request.
    pub(super) fn has_room_for(&self, whole: usize, subnet: IpAddr, of_request: usize, bytes: usize) -> bool {
        let own = self.by_subnet.get(&subnet).copied().unwrap_or_default();
        let (will_have, will_be_used) = (own + bytes, self.bytes + bytes);
        if will_have <= little(whole) {
            return will_be_used <= whole;
        }
        let others = self.large - usize::from(own > little(whole));
        let left_by_others = much(whole).saturating_sub(self.bytes - own);
        let share = (much(whole) / (others + 2)).max(left_by_others / 2);
        let is_alone = others == 0 && own == of_request;
        will_be_used <= much(whole) && (is_alone || will_have <= share)
    }

    /// Counts what a request of a subnet has now, instead of what it had before.
    pub(super) fn change(&mut self, whole: usize, subnet: IpAddr, before: usize, after: usize) {
        self.bytes = self.bytes + after - before;
        let entry = self.by_subnet.entry(subnet);
        let had = match &entry {
            Entry::Occupied(own) => *own.get(),
            Entry::Vacant(_) => 0,
        };
        let has = had + after - before;
        self.large = self.large + usize::from(has > little(whole)) - usize::from(had > little(whole));
        match entry {
            Entry::Occupied(own) if has == 0 => drop(own.remove()),
            entry if has > 0 => drop(entry.insert(has)),
            _ => {}
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_subnet.is_empty()
    }
}

/// What every subnet may have, whatever others have: some hundred small events of an organization, by default.
fn little(whole: usize) -> usize {
    whole / 256
}

/// What all may have who have more than a little. It is the most that one request can have, too.
pub(super) fn much(whole: usize) -> usize {
    whole / 8 * 7
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: usize = 256_000;

    fn subnet(number: u8) -> IpAddr {
        [192, 0, number, 0].into()
    }

    /// Takes as much as there is, in small steps.
    fn take(part: &mut Part, number: u8, most: usize) -> usize {
        let mut taken = 0;
        while taken < most && part.has_room_for(WHOLE, subnet(number), 0, 100) {
            part.change(WHOLE, subnet(number), 0, 100);
            taken += 100;
        }
        taken
    }

    #[test]
    fn whoever_is_alone_can_use_nearly_all_for_one_request() {
        let mut part = Part::default();
        assert!(part.has_room_for(WHOLE, subnet(1), 0, much(WHOLE)));
        assert!(!part.has_room_for(WHOLE, subnet(1), 0, much(WHOLE) + 1));
        part.change(WHOLE, subnet(1), 0, 50_000);
        assert!(part.has_room_for(WHOLE, subnet(1), 50_000, 150_000), "it grows");
        assert!(!part.has_room_for(WHOLE, subnet(1), 0, 150_000), "another one");
        assert!(part.has_room_for(WHOLE, subnet(1), 0, 50_000));
    }

    /// Or a stranger whose requests are replaced at once would leave no room for a step of somebody else's.
    #[test]
    fn many_requests_of_one_leave_room_to_whoever_comes() {
        let mut part = Part::default();
        assert_eq!(take(&mut part, 1, WHOLE), much(WHOLE) / 2);
        assert!(part.has_room_for(WHOLE, subnet(2), 0, much(WHOLE) / 3));
    }

    /// A stranger holds what they can, from many subnets: events of others still come in.
    #[test]
    fn many_who_have_much_leave_a_little_for_everybody() {
        let mut part = Part::default();
        let taken: usize = (0..16).map(|number| take(&mut part, number, WHOLE)).sum();
        assert!(taken >= much(WHOLE));
        for number in 100..115 {
            assert_eq!(take(&mut part, number, little(WHOLE)), little(WHOLE), "{number}");
        }
    }

    /// To have a little more than a little costs a stranger next to nothing.
    #[test]
    fn many_who_have_hardly_anything_leave_half_of_the_rest() {
        let mut part = Part::default();
        for number in 0..16 {
            take(&mut part, number, 2 * little(WHOLE));
        }
        assert!(take(&mut part, 99, WHOLE) > WHOLE / 3);
    }

    /// What others held when there were fewer, they do not get again.
    #[test]
    fn the_next_one_gets_its_share_once_others_have_ended() {
        let mut part = Part::default();
        let mut held = take(&mut part, 1, WHOLE);
        take(&mut part, 2, WHOLE);
        take(&mut part, 3, WHOLE);
        let mut late = take(&mut part, 99, WHOLE);
        assert_eq!(late, little(WHOLE));
        // The first one's requests end, and it sends as many again.
        for _ in 0..held / 10_000 {
            part.change(WHOLE, subnet(1), 10_000, 0);
            late += take(&mut part, 99, 5_000);
            held = held - 10_000 + take(&mut part, 1, 10_000);
        }
        assert!(late >= much(WHOLE) / 6, "{late} beside {held}");
    }

    #[test]
    fn nothing_stays_when_all_have_ended() {
        let mut part = Part::default();
        part.change(WHOLE, subnet(1), 0, 100_000);
        part.change(WHOLE, subnet(2), 0, 10);
        part.change(WHOLE, subnet(2), 10, 0);
        part.change(WHOLE, subnet(1), 100_000, 0);
        assert!(part.is_empty());
        assert_eq!((part.bytes, part.large), (0, 0));
    }
}
