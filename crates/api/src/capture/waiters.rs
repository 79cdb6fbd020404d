//! Those who wait for memory, by subnet and network: who is told that some was given back tries again.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use service::round::{Queue, Round};
use service::sign_in::subnet;
use tokio::sync::oneshot;

use super::answers::Refused;

/// How many may wait, of one network, of its subnet and altogether. Others are asked to come back immediately.
pub(super) const MAX_OF_NETWORK: usize = 64;
const MAX_OF_SUBNET: usize = 125;
const MAX: usize = 1_000;
/// Beyond this the places are for subnets of which nobody waits.
const OF_MANY: usize = MAX / 2;

#[derive(Debug, Default)]
pub(super) struct Waiters {
    lines: Round<IpAddr, Round<IpAddr, VecDeque<oneshot::Sender<()>>>>,
    count: usize,
    of_subnets: HashMap<IpAddr, usize>,
}

impl Waiters {
    /// One more waits, until it leaves.
    pub(super) fn enter(&mut self, network: IpAddr) -> Result<(), Refused> {
        let of_subnet = self.of_subnets.get(&subnet(network)).copied();
        let most = if of_subnet.is_none() { MAX } else { OF_MANY };
        let of_subnet = of_subnet.unwrap_or_default();
        if self.count >= most || of_subnet >= MAX_OF_SUBNET {
            return Err(Refused::Busy);
        }
        self.count += 1;
        self.of_subnets.insert(subnet(network), of_subnet + 1);
        Ok(())
    }

    pub(super) fn leave(&mut self, network: IpAddr) {
        self.count -= 1;
        if let Entry::Occupied(mut count) = self.of_subnets.entry(subnet(network)) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Told when something was given back.
    pub(super) fn turn(&mut self, network: IpAddr) -> Result<oneshot::Receiver<()>, Refused> {
        let (turn, told) = oneshot::channel();
        let line = self.lines.of(subnet(network)).of(network);
        line.retain(|other| !other.is_closed());
        if line.len() >= MAX_OF_NETWORK {
            return Err(Refused::Busy);
        }
        line.push_back(turn);
        Ok(told)
    }

    /// This network gave something back. That may be what one of its own waits for, or one of any other; not what all wait
    /// for, so only these two are told.
    pub(super) fn wake(&mut self, network: IpAddr) {
        while let Some(told) = self.lines.pop_of(subnet(network)) {
            if told.send(()).is_ok() {
                break;
            }
        }
        self.wake_next();
    }

    pub(super) fn wake_next(&mut self) {
        while let Some(told) = self.lines.pop() {
            if told.send(()).is_ok() {
                break;
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0 && self.of_subnets.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_places_to_wait_for_those_of_whom_nobody_waits() {
        let mut waiters = Waiters::default();
        let mut entered = Vec::new();
        let mut enter = |address: [u8; 4]| {
            let is_in = waiters.enter(address.into()).is_ok();
            entered.extend(is_in.then_some(address));
            is_in
        };
        let of_one = (0..MAX).filter(|_| enter([192, 0, 2, 1])).count();
        assert_eq!(of_one, MAX_OF_SUBNET);
        assert!(!enter([192, 0, 2, 99]), "nor any of its neighbors");
        assert!((0..200).all(|number| enter([198, 51, number, 1])));
        let second = (0..200).filter(|number| enter([198, 51, *number, 1])).count();
        assert_eq!(of_one + 200 + second, OF_MANY);
        assert!(
            (0..200).all(|number| enter([203, 0, number, 1])),
            "there is room for those who are new"
        );
        for address in entered {
            waiters.leave(address.into());
        }
        assert!(waiters.is_empty());
    }
}
