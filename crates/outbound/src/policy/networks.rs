//! The networks that are not the public internet.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is not a public one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    Unspecified,
    Loopback,
    Private,
    Shared,
    /// Also where clouds hand out machine credentials.
    LinkLocal,
    Multicast,
    Documentation,
    Reserved,
    /// An IPv6 address that leads to an IPv4 one: mapped, 6to4, NAT64, Teredo.
    Embedded,
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unspecified => "unspecified (0.0.0.0 or ::)",
            Self::Loopback => "a loopback address",
            Self::Private => "in a private network",
            Self::Shared => "in a provider's internal network (100.64.0.0/10)",
            Self::LinkLocal => "link-local",
            Self::Multicast => "a multicast or broadcast address",
            Self::Documentation => "in a documentation range",
            Self::Reserved => "in a reserved range",
            Self::Embedded => "an IPv6 address that embeds an IPv4 address",
        })
    }
}

impl Network {
    /// The special network an address belongs to; none for public addresses.
    pub fn of(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(v4) => of_v4(v4),
            IpAddr::V6(v6) => of_v6(v6),
        }
    }
}

/// The ranges of IANA's IPv4 special-purpose registry that are not globally reachable.
fn of_v4(address: Ipv4Addr) -> Option<Network> {
    match address.octets() {
        [0, ..] => Some(Network::Unspecified),
        [127, ..] => Some(Network::Loopback),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Some(Network::Private),
        [100, 64..=127, ..] => Some(Network::Shared),
        [169, 254, ..] => Some(Network::LinkLocal),
        [224..=239, ..] | [255, 255, 255, 255] => Some(Network::Multicast),
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Some(Network::Documentation),
        // Protocol assignments, the withdrawn 6to4 relay, benchmarks, and the former class E.
        [192, 0, 0, _] | [192, 88, 99, _] | [198, 18..=19, ..] | [240..=255, ..] => Some(Network::Reserved),
        _ => None,
    }
}

/// Only `2000::/3` is handed out as global unicast, so all else is refused without a list.
fn of_v6(address: Ipv6Addr) -> Option<Network> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some(Network::Unspecified),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some(Network::Loopback),
        // Compatible, mapped and translated IPv4; NAT64, well-known and local; Teredo; 6to4.
        [0, 0, 0, 0, 0 | 0xffff, 0 | 0xffff, ..] | [0x64, 0xff9b, 0 | 1, ..] | [0x2001, 0, ..] | [0x2002, ..] => {
            Some(Network::Embedded)
        }
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0x0fff, ..] => Some(Network::Documentation),
        [0x2001, 0..=0x1ff, ..] => Some(Network::Reserved),
        [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] => Some(Network::Private),
        [0xfe80..=0xfebf, ..] => Some(Network::LinkLocal),
        [0xff00..=0xffff, ..] => Some(Network::Multicast),
        [0x2000..=0x3fff, ..] => None,
        _ => Some(Network::Reserved),
    }
}

/// The IPv4 addresses that packets to this address end up at.
///
/// Local NAT64 (`64:ff9b:1::/48`) is absent: only the operator who set it up knows where the IPv4 address stands in it.
pub(super) fn embedded(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let from = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => vec![],
        [0, 0, 0, 0, 0 | 0xffff, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            vec![from(high, low)]
        }
        [0x2002, high, low, ..] => vec![from(high, low)],
        // Teredo: the relay's server, and the client's address with every bit turned over.
        [0x2001, 0, server_high, server_low, _, _, high, low] => {
            vec![from(server_high, server_low), from(!high, !low)]
        }
        _ => vec![],
    }
}
