//! What each network has at the same time: connections, and requests on all of them. When there is hardly room for more
//! connections, the network that has the most of them loses one, so that others still find a place.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use service::sign_in::network;
use tokio::sync::Notify;

use crate::connections::{Activity, Limits};

/// A /48 of IPv6 holds 256 networks, but has no more than so many of them may have.
pub(crate) const NETWORKS_OF_SITE: usize = 4;
/// How many connections are looked at, to find one that can be closed.
const LOOKED_AT: usize = 256;
/// How many networks without connections are remembered, because requests of theirs go on.
const REMEMBERED: usize = 1_000;

#[derive(Debug, Clone)]
pub(crate) struct Networks(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: Arc<Limits>,
    open: Mutex<Open>,
    /// Told whenever a connection has ended.
    freed: Notify,
}

#[derive(Debug, Default)]
struct Open {
    /// All connections there are, with those of proxies and those that are about to close.
    all: usize,
    /// Those that were told to close, the longest ago first.
    closing: VecDeque<Arc<Activity>>,
    networks: HashMap<IpAddr, Network>,
    sites: HashMap<IpAddr, Site>,
    by_size: BTreeSet<Rank>,
    changes: u64,
}

/// How many connections a network has, and since when: the last in order has the most, and has had them longest.
type Rank = (usize, Reverse<u64>, IpAddr);

#[derive(Debug)]
struct Network {
    /// But for those that were told to close.
    connections: Vec<Arc<Activity>>,
    /// When that number last changed.
    changed: u64,
    requests: Arc<Counter>,
}

/// A /48 of IPv6.
#[derive(Debug)]
struct Site {
    connections: usize,
    requests: Arc<Counter>,
}

/// Requests in progress.
#[derive(Debug)]
struct Counter {
    count: AtomicUsize,
    most: usize,
    site: Option<Arc<Counter>>,
}

/// Why a connection gets no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoPermit {
    /// Its network has enough.
    TooMany,
    /// Somebody else's has to end first.
    Full,
}

/// The permit of one connection, given back when dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    networks: Networks,
    /// None: of a proxy, which has no limit of its own and is never told to close.
    network: Option<IpAddr>,
    pub(crate) activity: Arc<Activity>,
    pub(crate) requests: Requests,
}

/// How many requests a network may have in progress, over all its connections: each holds memory until it is answered.
#[derive(Debug, Clone)]
pub(crate) struct Requests(Option<Arc<Counter>>);

/// One request in progress.
#[derive(Debug)]
pub(crate) struct InProgress(Option<Arc<Counter>>);

impl Networks {
    pub(crate) fn new(limits: Arc<Limits>) -> Self {
        Self(Arc::new(Shared {
            limits,
            open: Mutex::default(),
            freed: Notify::new(),
        }))
    }

    /// A permit for a connection from this address, as soon as there is one. None: its network has enough.
    pub(crate) async fn acquire(&self, address: IpAddr) -> Option<ConnectionPermit> {
        loop {
            match self.enter(address) {
                Ok(permit) => return Some(permit),
                Err(NoPermit::TooMany) => return None,
                Err(NoPermit::Full) => self.0.freed.notified().await,
            }
        }
    }

    /// Waits until no connection is left.
    pub(crate) async fn emptied(&self) {
        while self.lock().all > 0 {
            self.0.freed.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, address: IpAddr) -> Result<ConnectionPermit, NoPermit> {
        let limits = &self.0.limits;
        let is_proxy = |proxies: &IpNet| proxies.contains(&address.to_canonical());
        let network = (!limits.proxies.iter().any(is_proxy)).then(|| network(address));
        let mut open = self.lock();
        if network.is_some_and(|network| open.has_enough(network, limits)) {
            return Err(NoPermit::TooMany);
        }
        if open.all - open.closing.len() >= limits.nearly_all() {
            open.make_room(network)?;
        }
        if open.all >= limits.connections {
            if let Some(first_told) = open.closing.front() {
                first_told.cut();
            }
            return Err(NoPermit::Full);
        }
        let activity = Arc::new(Activity::new());
        open.all += 1;
        let requests = Requests(network.map(|network| open.add(network, activity.clone(), limits)));
        Ok(ConnectionPermit {
            networks: self.clone(),
            network,
            activity,
            requests,
        })
    }
}

/// The /48 that a network of IPv6 is part of.
fn site(network: IpAddr) -> Option<IpAddr> {
    match network {
        IpAddr::V6(v6) => Some(IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 80 << 80))),
        IpAddr::V4(_) => None,
    }
}

impl Open {
    fn count(&self, network: IpAddr) -> usize {
        self.networks.get(&network).map_or(0, |found| found.connections.len())
    }

    fn has_enough(&self, network: IpAddr, limits: &Limits) -> bool {
        let of_site = site(network).and_then(|site| self.sites.get(&site));
        self.count(network) >= limits.of_network
            || of_site.is_some_and(|site| site.connections >= limits.of_network * NETWORKS_OF_SITE)
    }

    /// Tells a connection to close, so that another may come: one of the largest network. A network that would be the
    /// largest itself has to do with one of its own.
    fn make_room(&mut self, new_network: Option<IpAddr>) -> Result<(), NoPermit> {
        let Some(&(largest, ..)) = self.by_size.last() else {
            return Ok(());
        };
        let own = new_network.map_or(0, |network| self.count(network));
        let found = match new_network {
            Some(network) if own > 0 && largest <= own + 1 => {
                let idle = longest_idle(self.of(network));
                idle.ok_or(NoPermit::TooMany)?
            }
            _ => self.dispensable(largest),
        };
        let (network, activity) = (found.0, found.1.clone());
        self.remove(network, &activity);
        activity.close();
        self.closing.push_back(activity);
        metrics::counter!("hedgerow_connections_evicted_total").increment(1);
        Ok(())
    }

    fn of(&self, network: IpAddr) -> impl Iterator<Item = (IpAddr, &Arc<Activity>)> {
        let connections = self.networks.get(&network).map(|found| found.connections.as_slice());
        connections
            .unwrap_or_default()
            .iter()
            .map(move |activity| (network, activity))
    }

    /// Of the largest networks, the connection that has been idle longest; if all are busy, the oldest of the first.
    fn dispensable(&self, largest: usize) -> (IpAddr, &Arc<Activity>) {
        let networks = self.by_size.iter().rev().map(|(count, _, network)| (*count, *network));
        let as_large = networks.take_while(|(count, _)| *count == largest);
        let mut looked_at = as_large.map(|(_, network)| network).take(LOOKED_AT.div_ceil(largest));
        let idle = longest_idle(looked_at.clone().flat_map(|network| self.of(network)));
        idle.or_else(|| self.of(looked_at.next()?).min_by_key(|(_, activity)| activity.opened()))
            .expect("the largest network has a connection")
    }

    /// A network's new connection.
    fn add(&mut self, network: IpAddr, activity: Arc<Activity>, limits: &Limits) -> Arc<Counter> {
        self.forget();
        let of_site = site(network).map(|site| self.add_to_site(site, limits));
        let found = self.networks.entry(network).or_insert_with(|| Network {
            connections: Vec::new(),
            changed: 0,
            requests: Arc::new(Counter::new(limits.requests_of_network, of_site)),
        });
        let requests = found.requests.clone();
        self.change(network, |connections| connections.push(activity));
        requests
    }

    fn add_to_site(&mut self, site: IpAddr, limits: &Limits) -> Arc<Counter> {
        let site = self.sites.entry(site).or_insert_with(|| Site {
            connections: 0,
            requests: Arc::new(Counter::new(limits.requests_of_network * NETWORKS_OF_SITE, None)),
        });
        site.connections += 1;
        site.requests.clone()
    }

    fn remove(&mut self, network: IpAddr, activity: &Arc<Activity>) {
        self.change(network, |connections| {
            if let Some(place) = connections.iter().position(|other| Arc::ptr_eq(other, activity)) {
                connections.swap_remove(place);
            }
        });
    }

    /// Changes the connections of a network, and its place in the order.
    fn change(&mut self, network: IpAddr, change: impl FnOnce(&mut Vec<Arc<Activity>>)) {
        let Some(found) = self.networks.get_mut(&network) else {
            return;
        };
        self.by_size
            .remove(&(found.connections.len(), Reverse(found.changed), network));
        change(&mut found.connections);
        self.changes += 1;
        found.changed = self.changes;
        if !found.connections.is_empty() {
            self.by_size
                .insert((found.connections.len(), Reverse(found.changed), network));
        } else if found.requests.is_zero() {
            self.networks.remove(&network);
        }
    }

    /// A connection has ended.
    fn leave(&mut self, network: IpAddr, activity: &Arc<Activity>) {
        match self.closing.iter().position(|other| Arc::ptr_eq(other, activity)) {
            Some(place) => drop(self.closing.remove(place)),
            None => self.remove(network, activity),
        }
        let Some(site) = site(network) else { return };
        if let Some(found) = self.sites.get_mut(&site) {
            found.connections -= 1;
            if found.connections == 0 && found.requests.is_zero() {
                self.sites.remove(&site);
            }
        }
    }

    /// Requests may go on when their connection has ended. Once they have ended, too, nothing is left to count.
    fn forget(&mut self) {
        let most = self.all + REMEMBERED;
        if self.networks.len() > most {
            self.networks
                .retain(|_, network| !network.connections.is_empty() || !network.requests.is_zero());
        }
        if self.sites.len() > most {
            self.sites
                .retain(|_, site| site.connections > 0 || !site.requests.is_zero());
        }
    }
}

fn longest_idle<'a>(
    connections: impl Iterator<Item = (IpAddr, &'a Arc<Activity>)>,
) -> Option<(IpAddr, &'a Arc<Activity>)> {
    let idle = connections.filter_map(|(network, activity)| Some((activity.idle_since()?, (network, activity))));
    idle.min_by_key(|(since, _)| *since).map(|(_, found)| found)
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut open = self.networks.lock();
        open.all -= 1;
        if let Some(network) = self.network {
            open.leave(network, &self.activity);
        }
        drop(open);
        self.networks.0.freed.notify_one();
    }
}

impl Counter {
    fn new(most: usize, site: Option<Arc<Self>>) -> Self {
        Self {
            count: AtomicUsize::new(0),
            most,
            site,
        }
    }

    /// Counts one more, and says whether that is within the limits.
    fn add(&self) -> bool {
        let is_within = self.count.fetch_add(1, Ordering::Relaxed) < self.most;
        self.site.as_ref().is_none_or(|site| site.add()) && is_within
    }

    fn subtract(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        if let Some(site) = &self.site {
            site.subtract();
        }
    }

    fn is_zero(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }
}

impl Requests {
    /// None: there are too many already.
    pub(crate) fn enter(&self) -> Option<InProgress> {
        let Some(counter) = &self.0 else {
            return Some(InProgress(None));
        };
        let is_within = counter.add();
        let entered = InProgress(Some(counter.clone()));
        is_within.then_some(entered)
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        if let Some(counter) = &self.0 {
            counter.subtract();
        }
    }
}

#[cfg(test)]
mod tests;
