//! Which addresses count as one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One customer has a /56 of IPv6 or more, and an IPv4 address is one however it is written.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 72 << 72)),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// Who counts as one: a /48 of IPv6, and a /24 of IPv4, as those who rent addresses rent neighbors.
pub fn subnet(address: IpAddr) -> IpAddr {
    match network(address) {
        IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & !0xff)),
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 80 << 80)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings_of_an_address_count_as_one() {
        let of = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_eq!(of("2001:db8:1:200::1"), of("2001:db8:1:2ff:ffff::9"));
        assert_ne!(of("2001:db8:1:200::1"), of("2001:db8:1:300::1"));
    }
}
