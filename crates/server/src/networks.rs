//! What each network has at the same time: connections, and requests on all of them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ipnet::IpNet;
use service::sign_in::network;

use crate::connections::Limits;

#[derive(Debug, Clone, Default)]
pub(crate) struct Networks(Arc<Mutex<HashMap<IpAddr, Open>>>);

#[derive(Debug, Default)]
struct Open {
    connections: usize,
    requests: Arc<AtomicUsize>,
}

/// The place of one connection, given back when dropped. Those of proxies are not counted.
#[derive(Debug)]
pub(crate) struct Place {
    counted: Option<(Networks, IpAddr)>,
    pub(crate) requests: Requests,
}

/// How many requests a network may have under way, over all its connections: each holds memory until it is answered.
#[derive(Debug, Clone)]
pub(crate) struct Requests {
    open: Option<Arc<AtomicUsize>>,
    most: usize,
}

/// One request under way.
#[derive(Debug)]
pub(crate) struct UnderWay(Option<Arc<AtomicUsize>>);

impl Networks {
    pub(crate) fn enter(&self, address: IpAddr, limits: &Limits) -> Option<Place> {
        let most = limits.requests_of_network;
        let is_proxy = |proxies: &IpNet| proxies.contains(&address.to_canonical());
        if limits.proxies.iter().any(is_proxy) {
            return Some(Place {
                counted: None,
                requests: Requests { open: None, most },
            });
        }
        let network = network(address);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let open = all.entry(network).or_default();
        if open.connections >= limits.of_network {
            return None;
        }
        open.connections += 1;
        Some(Place {
            counted: Some((self.clone(), network)),
            requests: Requests {
                open: Some(open.requests.clone()),
                most,
            },
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some((networks, network)) = &self.counted else {
            return;
        };
        let mut all = networks.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = all.get_mut(network) {
            open.connections -= 1;
            if open.connections == 0 {
                all.remove(network);
            }
        }
    }
}

impl Requests {
    /// None: there are too many already.
    pub(crate) fn enter(&self) -> Option<UnderWay> {
        let Some(open) = &self.open else {
            return Some(UnderWay(None));
        };
        let entered = UnderWay(Some(open.clone()));
        (open.fetch_add(1, Ordering::Relaxed) < self.most).then_some(entered)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some(open) = &self.0 {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(of_network: usize) -> Limits {
        Limits {
            of_network,
            requests_of_network: 3,
            proxies: vec!["10.0.0.0/8".parse().unwrap()],
            ..Limits::default()
        }
    }

    #[test]
    fn addresses_of_one_network_count_together() {
        let (networks, limits) = (Networks::default(), limits(1));
        let enter = |text: &str| networks.enter(text.parse().unwrap(), &limits);
        let first = enter("2001:db8:1:200::1");
        assert!(first.is_some());
        assert!(enter("2001:db8:1:200:ffff::9").is_none());
        assert!(enter("2001:db8:1:2ff::1").is_none(), "one customer has a /56");
        assert!(enter("2001:db8:1:300::1").is_some());
        assert!(enter("192.0.2.1").is_some());
        drop(first);
        assert!(enter("2001:db8:1:2ff:ffff::9").is_some());
        assert!(networks.0.lock().unwrap().is_empty());
    }

    #[test]
    fn requests_of_all_connections_count_together() {
        let (networks, limits) = (Networks::default(), limits(2));
        let enter = |text: &str| networks.enter(text.parse().unwrap(), &limits).unwrap();
        let (first, second, other) = (enter("192.0.2.1"), enter("192.0.2.1"), enter("192.0.2.2"));
        let mut under_way = vec![first.requests.enter().unwrap(), second.requests.enter().unwrap()];
        under_way.push(first.requests.enter().unwrap());
        for _ in 0..5 {
            assert!(second.requests.enter().is_none(), "and what is refused does not count");
        }
        assert!(other.requests.enter().is_some());
        under_way.pop();
        assert!(second.requests.enter().is_some());
        let proxy = enter("10.1.2.3");
        let many: Vec<_> = (0..100).map(|_| proxy.requests.enter()).collect();
        assert!(many.iter().all(Option::is_some));
    }
}
