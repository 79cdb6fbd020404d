use super::*;

fn policy(allowed: &[&str]) -> Policy {
    Policy::new(allowed.iter().map(|range| range.parse().unwrap()).collect())
}

fn check(policy: &Policy, url: &str) -> Result<(), Rule> {
    policy
        .check_url(&Url::parse(url).unwrap())
        .map_err(|refusal| refusal.rule)
}

/// N1: every special range, at both of its ends, and its neighbours.
#[test]
fn addresses_outside_the_public_internet_are_refused() {
    use Network::*;
    let cases = [
        ("0.0.0.0", Some(Unspecified)),
        ("0.255.255.255", Some(Unspecified)),
        ("1.0.0.0", None),
        ("9.255.255.255", None),
        ("10.0.0.0", Some(Private)),
        ("10.255.255.255", Some(Private)),
        ("11.0.0.0", None),
        ("100.63.255.255", None),
        ("100.64.0.0", Some(Shared)),
        ("100.127.255.255", Some(Shared)),
        ("100.128.0.0", None),
        ("127.0.0.1", Some(Loopback)),
        ("127.255.255.255", Some(Loopback)),
        ("128.0.0.0", None),
        ("169.253.255.255", None),
        ("169.254.0.0", Some(LinkLocal)),
        ("169.254.169.254", Some(LinkLocal)),
        ("169.255.0.0", None),
        ("172.15.255.255", None),
        ("172.16.0.0", Some(Private)),
        ("172.31.255.255", Some(Private)),
        ("172.32.0.0", None),
        ("192.0.0.1", Some(Reserved)),
        ("192.0.2.1", Some(Documentation)),
        ("192.88.99.1", Some(Reserved)),
        ("192.167.255.255", None),
        ("192.168.0.0", Some(Private)),
        ("192.168.255.255", Some(Private)),
        ("192.169.0.0", None),
        ("198.17.255.255", None),
        ("198.18.0.0", Some(Reserved)),
        ("198.19.255.255", Some(Reserved)),
        ("198.51.100.7", Some(Documentation)),
        ("203.0.113.7", Some(Documentation)),
        ("223.255.255.255", None),
        ("224.0.0.1", Some(Multicast)),
        ("239.255.255.255", Some(Multicast)),
        ("240.0.0.1", Some(Reserved)),
        ("255.255.255.255", Some(Multicast)),
        ("::", Some(Unspecified)),
        ("::1", Some(Loopback)),
        ("::8.8.8.8", Some(Embedded)),
        ("::ffff:127.0.0.1", Some(Embedded)),
        ("::ffff:8.8.8.8", Some(Embedded)),
        ("::ffff:0:10.0.0.1", Some(Embedded)),
        ("64:ff9b::10.0.0.1", Some(Embedded)),
        ("64:ff9b:1::10.0.0.1", Some(Embedded)),
        ("100::1", Some(Reserved)),
        ("2000::1", None),
        ("2001::1", Some(Embedded)),
        ("2001:2::1", Some(Reserved)),
        ("2001:200::1", None),
        ("2001:db8::1", Some(Documentation)),
        ("2002:7f00:1::", Some(Embedded)),
        ("2606:4700::1111", None),
        ("3fff::1", Some(Documentation)),
        ("4000::1", Some(Reserved)),
        ("5f00::1", Some(Reserved)),
        ("fbff::1", Some(Reserved)),
        ("fc00::1", Some(Private)),
        ("fdff:ffff::1", Some(Private)),
        ("fe80::1", Some(LinkLocal)),
        ("febf::1", Some(LinkLocal)),
        ("fec0::1", Some(Private)),
        ("ff02::1", Some(Multicast)),
    ];
    for (address, network) in cases {
        let verdict = policy(&[]).check_address(address.parse().unwrap());
        assert_eq!(
            verdict.map_err(|refusal| refusal.rule),
            network.map_or(Ok(()), |n| Err(Rule::Address(n))),
            "{address}"
        );
    }
}

#[test]
fn an_allowed_range_opens_itself_and_nothing_else() {
    let policy = policy(&["10.1.0.0/16", "fd00::/8", "127.0.0.1/32"]);
    for (address, is_open) in [
        ("10.1.2.3", true),
        ("10.2.0.1", false),
        ("fd12::1", true),
        ("fc12::1", false),
        ("127.0.0.1", true),
        ("127.0.0.2", false),
        // The same machine in its mapped spelling, which the system dials as IPv4.
        ("::ffff:10.1.2.3", true),
        ("::ffff:10.2.0.1", false),
        // Not the same machine: a tunnel decides where these go.
        ("64:ff9b::10.1.2.3", false),
        ("2002:0a01:0203::1", false),
    ] {
        assert_eq!(
            policy.check_address(address.parse().unwrap()).is_ok(),
            is_open,
            "{address}"
        );
    }
}

#[test]
fn an_allowed_tunnel_leads_only_where_ipv4_may_go() {
    let policy = policy(&["64:ff9b::/96", "2002::/16", "2001::/32", "10.1.0.0/16"]);
    for (address, is_open) in [
        ("64:ff9b::8.8.8.8", true),
        ("64:ff9b::10.1.2.3", true),
        ("64:ff9b::10.2.0.1", false),
        ("64:ff9b::169.254.169.254", false),
        ("2002:0808:0808::1", true),
        ("2002:7f00:0001::1", false),
        // Teredo by way of 65.54.227.120, first to 8.8.8.8, then to 10.2.0.1.
        ("2001:0:4136:e378:0:0:f7f7:f7f7", true),
        ("2001:0:4136:e378:0:0:f5fd:fffe", false),
    ] {
        assert_eq!(
            policy.check_address(address.parse().unwrap()).is_ok(),
            is_open,
            "{address}"
        );
    }
}

/// N1, N6: every spelling is judged after the parser has normalised it.
#[test]
fn urls_are_judged_by_what_they_mean() {
    use Network::*;
    let refused = |network| Err(Rule::Address(network));
    for (url, verdict) in [
        ("https://example.com/path?query", Ok(())),
        ("https://example.com:8443/", Ok(())),
        ("https://8.8.8.8/", Ok(())),
        ("https://127.0.0.1/", refused(Loopback)),
        ("https://127.0.0.1./", refused(Loopback)),
        ("https://127.1/", refused(Loopback)),
        ("https://2130706433/", refused(Loopback)),
        ("https://0x7f.1/", refused(Loopback)),
        ("https://0177.0.0.1/", refused(Loopback)),
        ("https://0x7f000001/", refused(Loopback)),
        ("https://127%2e0%2e0%2e1/", refused(Loopback)),
        ("https://１２７.0.0.1/", refused(Loopback)),
        ("https://0/", refused(Unspecified)),
        ("https://[::]/", refused(Unspecified)),
        ("https://[::1]/", refused(Loopback)),
        ("https://[0:0:0:0:0:0:0:1]/", refused(Loopback)),
        ("https://[::ffff:127.0.0.1]/", refused(Embedded)),
        ("https://[::ffff:7f00:1]/", refused(Embedded)),
        ("https://169.254.169.254/latest/meta-data/", refused(LinkLocal)),
        ("https://localhost/", refused(Loopback)),
        ("https://LOCALHOST./", refused(Loopback)),
        ("https://printer.localhost/", refused(Loopback)),
        ("https://localhost.example.com/", Ok(())),
        ("http://example.com/", Err(Rule::PlainHttp)),
        ("http://10.0.0.1/", Err(Rule::PlainHttp)),
        ("http://127.0.0.1/", refused(Loopback)),
        ("http://localhost/", refused(Loopback)),
        ("https://name@example.com/", Err(Rule::UserInfo)),
        ("https://:password@example.com/", Err(Rule::UserInfo)),
        ("https://example.com@127.0.0.1/", Err(Rule::UserInfo)),
        ("file:///etc/passwd", Err(Rule::Scheme)),
        ("gopher://example.com/", Err(Rule::Scheme)),
        ("unix:/run/socket", Err(Rule::Scheme)),
        ("ftp://example.com/", Err(Rule::Scheme)),
        ("data:text/plain,hello", Err(Rule::Scheme)),
        ("javascript:alert(1)", Err(Rule::Scheme)),
    ] {
        assert_eq!(check(&policy(&[]), url), verdict, "{url}");
    }
}

/// Apps can ask for any name, and it is remembered what they asked for.
#[test]
fn host_names_are_no_longer_than_names_can_be() {
    let policy = policy(&[]);
    let url = |length: usize| Url::parse(&format!("https://{}.com/", "a.".repeat((length - 4) / 2) + "a")).unwrap();
    assert_eq!(policy.check_url(&url(252)).map_err(|refusal| refusal.rule), Ok(()));
    for length in [256, 60_000] {
        assert_eq!(
            policy.check_url(&url(length)).map_err(|refusal| refusal.rule),
            Err(Rule::NoHost)
        );
    }
}

#[test]
fn plain_http_is_for_allowed_loopback_only() {
    let loopback = policy(&["127.0.0.0/8", "10.0.0.0/8"]);
    for (url, verdict) in [
        ("http://127.0.0.1:8080/", Ok(())),
        ("http://localhost:8080/", Ok(())),
        ("https://localhost/", Ok(())),
        ("http://[::1]/", Err(Rule::Address(Network::Loopback))),
        ("http://10.0.0.1/", Err(Rule::PlainHttp)),
        ("https://10.0.0.1/", Ok(())),
    ] {
        assert_eq!(check(&loopback, url), verdict, "{url}");
    }
    assert_eq!(check(&policy(&["::1/128"]), "http://localhost/"), Ok(()));
}

#[test]
fn a_refusal_says_what_to_do_and_keeps_its_detail_for_the_log() {
    let refusal = policy(&[]).check_address("10.0.0.7".parse().unwrap()).unwrap_err();
    assert!(refusal.to_string().contains("HEDGEROW_ALLOW_PRIVATE_NETWORKS"));
    assert!(!refusal.to_string().contains("10.0.0.7"));
    assert_eq!(refusal.detail(), "10.0.0.7");
}
