//! Who uses how much of the memory of [`super::budget`], and who may use more.

use std::hash::Hash;
use std::net::IpAddr;
use std::time::Duration;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use service::OrganizationId;
use service::sign_in::subnet;

use super::part::Part;
use super::waiters::Waiters;
use crate::http::bodies::{Bodies, BodyRef};

/// Who needs more than this gets it from the part for large bodies.
const LARGE: usize = 1024 * 1024;
/// How many requests of one network, and for one organization, may be in progress. Of the latter no subnet has more than half of what
/// others leave: anybody can use the organization's token.
pub(super) const MAX_OF_NETWORK: usize = 2_000;
pub(super) const MAX_OF_ORGANIZATION: usize = 5_000;

#[derive(Debug)]
pub(super) struct Limits {
    pub(super) all: usize,
    pub(super) large: usize,
    pub(super) unauthenticated: usize,
    pub(super) unauthenticated_of_subnet: usize,
    pub(super) unauthenticated_of_network: usize,
    pub(super) of_one: usize,
    pub(super) wait_limit: Duration,
}

#[derive(Debug, Default)]
pub(super) struct Used {
    pub(super) all: usize,
    pub(super) large: usize,
    pub(super) unauthenticated: usize,
    pub(super) networks: HashMap<IpAddr, Share>,
    pub(super) organizations: HashMap<OrganizationId, Share>,
    /// What organizations use, by the subnets that send for them.
    pub(super) parts: HashMap<OrganizationId, Part>,
    /// What all organizations use, by subnet.
    pub(super) known: Part,
    /// The requests for an organization from a subnet.
    pub(super) senders: HashMap<(OrganizationId, IpAddr), usize>,
    /// What subnets have of the part for large bodies.
    pub(super) subnets: HashMap<IpAddr, usize>,
    /// Those without a token that stay, by subnet.
    pub(super) bodies: Bodies<IpAddr>,
    /// How many came to stay.
    pub(super) stayed: u64,
    pub(super) waiters: Waiters,
}

/// What one network or organization uses.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Share {
    pub(super) requests: usize,
    pub(super) bytes: usize,
    pub(super) large: usize,
    pub(super) unauthenticated: usize,
}

/// What one request uses.
#[derive(Debug)]
pub(super) struct Holding {
    pub(super) network: IpAddr,
    pub(super) organization: Option<OrganizationId>,
    /// Where it stands among those that may have to make room.
    pub(super) body_ref: Option<BodyRef<IpAddr>>,
    pub(super) bytes: usize,
}

impl Holding {
    /// Nothing yet.
    pub(super) fn of(network: IpAddr) -> Self {
        Self {
            network,
            organization: None,
            body_ref: None,
            bytes: 0,
        }
    }

    /// What of so many bytes comes from the part for large bodies. Unknown senders have a part of their own.
    pub(super) fn large_part(&self, bytes: usize) -> usize {
        if self.organization.is_some() {
            large_part(bytes)
        } else {
            0
        }
    }
}

impl Used {
    /// Of the part for large bodies nobody has more than half of what others leave: so a few never have all of it.
    pub(super) fn has_room_for(
        &self,
        limits: &Limits,
        of: &Holding,
        organization: OrganizationId,
        bytes: usize,
        large: usize,
    ) -> bool {
        let subnet = subnet(of.network);
        // What it had before its token was known counts for nobody yet.
        let counted = of.organization.map_or(0, |_| of.bytes);
        let has_room = |part: &Part, whole| part.has_room_for(whole, subnet, counted, bytes);
        let share = self.organizations.get(&organization).copied().unwrap_or_default();
        let most = share.large.max(self.subnets.get(&subnet).copied().unwrap_or_default());
        has_room(&self.known, limits.all)
            && has_room(self.parts.get(&organization).unwrap_or(&Part::default()), limits.of_one)
            && (large == 0 || self.large + most + 2 * large <= limits.large)
    }

    /// Whether there is room for so many bytes more of a body without a token, once others that stay have made some. Those of
    /// one network wait for each other.
    pub(super) fn make_room(&mut self, limits: &Limits, of: &Holding, bytes: usize) -> bool {
        loop {
            let of_network = self.networks.get(&of.network).map_or(0, |share| share.unauthenticated);
            if of_network + bytes > limits.unauthenticated_of_network {
                return false;
            }
            let is_full = self.unauthenticated + bytes > limits.unauthenticated;
            let Some(body_ref) = of.body_ref else { return !is_full };
            if !self.bodies.has(body_ref) {
                return false;
            }
            let is_crowded = self.bodies.bytes_of(body_ref.whose) + bytes > limits.unauthenticated_of_subnet;
            let ended = match (is_full, is_crowded) {
                (false, false) => return true,
                (_, true) => self.bodies.end_beside(body_ref, bytes),
                (true, false) => self.bodies.end_any(body_ref, bytes),
            };
            let Some(ended) = ended else { return false };
            // It still has its memory for a moment, which counts for all, but stands in nobody's way.
            self.unauthenticated -= ended.bytes;
            self.networks.entry(ended.network).or_default().unauthenticated -= ended.bytes;
        }
    }

    /// It no longer stays, if it did.
    pub(super) fn forget(&mut self, body_ref: Option<BodyRef<IpAddr>>) {
        if let Some(body_ref) = body_ref {
            self.bodies.remove(body_ref);
        }
    }

    pub(super) fn forget_sender(&mut self, sender: (OrganizationId, IpAddr)) {
        if let Entry::Occupied(mut requests) = self.senders.entry(sender) {
            *requests.get_mut() -= 1;
            if *requests.get() == 0 {
                requests.remove();
            }
        }
    }

    pub(super) fn may_have_one_more(&self, sender: (OrganizationId, IpAddr)) -> bool {
        let all = self.organizations.get(&sender.0).map_or(0, |share| share.requests);
        let own = self.senders.get(&sender).copied().unwrap_or_default();
        own < MAX_OF_ORGANIZATION.saturating_sub(all - own) / 2
    }

    /// Counts a reservation as one of so many bytes.
    pub(super) fn change(&mut self, limits: &Limits, of: &Holding, bytes: usize) {
        let set = |count: &mut usize, before: usize, after: usize| *count = *count + after - before;
        set(&mut self.all, of.bytes, bytes);
        set(&mut self.large, of.large_part(of.bytes), of.large_part(bytes));
        let share = self.networks.entry(of.network).or_default();
        set(&mut share.bytes, of.bytes, bytes);
        if let Some(organization) = of.organization {
            let subnet = subnet(of.network);
            self.known.change(limits.all, subnet, of.bytes, bytes);
            let part = self.parts.entry(organization).or_default();
            part.change(limits.of_one, subnet, of.bytes, bytes);
            if part.is_empty() {
                self.parts.remove(&organization);
            }
            let (before, after) = (large_part(of.bytes), large_part(bytes));
            if before != after {
                let share = self.organizations.entry(organization).or_default();
                set(&mut share.large, before, after);
                let large = self.subnets.entry(subnet).or_default();
                set(large, before, after);
                if *large == 0 {
                    self.subnets.remove(&subnet);
                }
            }
        } else if of.body_ref.is_none_or(|body_ref| self.bodies.resize(body_ref, bytes)) {
            set(&mut share.unauthenticated, of.bytes, bytes);
            set(&mut self.unauthenticated, of.bytes, bytes);
        }
    }
}

pub(super) fn large_part(bytes: usize) -> usize {
    if bytes > LARGE { bytes } else { 0 }
}

/// One request less; who has none is forgotten.
pub(super) fn leave<K: Eq + Hash>(shares: &mut HashMap<K, Share>, key: K) {
    if let Entry::Occupied(mut share) = shares.entry(key) {
        share.get_mut().requests -= 1;
        if share.get().requests == 0 {
            share.remove();
        }
    }
}
