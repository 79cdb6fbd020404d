//! The connection that a request came by: its other end, and who is really asking.

use std::any::Any;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::http::request::Parts;

use crate::http::settings::Settings;

/// The address at the other end of the connection, put there by whoever accepts connections.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

/// Something that counts the request as in progress for as long as it is held, put there by whoever accepts connections.
#[derive(Debug, Clone)]
pub struct InProgress(#[expect(dead_code, reason = "it is held, not read")] Arc<dyn Any + Send + Sync>);

impl InProgress {
    pub fn new(held: impl Any + Send + Sync) -> Self {
        Self(Arc::new(held))
    }
}

impl Settings {
    /// Whether the other end is a proxy whose forwarded headers are believed.
    pub(crate) fn is_behind_proxy(&self, parts: &Parts) -> bool {
        self.is_proxy(peer(parts))
    }

    fn is_proxy(&self, address: IpAddr) -> bool {
        self.trusted_proxies
            .iter()
            .any(|network| network.contains(&address.to_canonical()))
    }

    /// Who is really asking: the last address in the chain that is no proxy of ours.
    pub(crate) fn client_address(&self, parts: &Parts) -> IpAddr {
        let peer = peer(parts);
        if !self.is_proxy(peer) {
            return peer;
        }
        let lines = parts.headers.get_all("x-forwarded-for").iter().rev();
        let hops = lines.flat_map(|line| line.to_str().unwrap_or_default().rsplit(','));
        for hop in hops {
            // Beyond what our proxies wrote, anybody may have written anything.
            match address(hop.trim()) {
                Some(address) if self.is_proxy(address) => {}
                Some(address) => return address,
                None => return peer,
            }
        }
        peer
    }
}

/// An address, as proxies write it: some add the port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    bare.parse()
        .ok()
        .or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

fn peer(parts: &Parts) -> IpAddr {
    parts
        .extensions
        .get::<Peer>()
        .map_or(IpAddr::from([127, 0, 0, 1]), |peer| peer.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwarded_addresses_are_believed_of_our_proxies_only() {
        let settings = Settings {
            trusted_proxies: vec!["192.0.2.0/24".parse().expect("a network")],
            ..Settings::default()
        };
        let parts = |peer: [u8; 4]| {
            let request = axum::http::Request::builder()
                .header("x-forwarded-for", "198.51.100.9, 203.0.113.5, 192.0.2.2")
                .extension(Peer(IpAddr::from(peer)));
            request.body(()).expect("a request").into_parts().0
        };
        assert_eq!(
            settings.client_address(&parts([192, 0, 2, 1])),
            IpAddr::from([203, 0, 113, 5])
        );
        assert_eq!(
            settings.client_address(&parts([198, 51, 100, 1])),
            IpAddr::from([198, 51, 100, 1])
        );
    }
}
