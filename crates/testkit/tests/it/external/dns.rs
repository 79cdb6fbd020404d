//! Names asked for with knot's own client.

use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use testkit::external::{Dns, SilentDns};

fn ask(server: SocketAddr, arguments: &[&str]) -> Vec<String> {
    let mut kdig = Command::new("kdig");
    kdig.arg(format!("@{}", server.ip()))
        .args(["-p", &server.port().to_string()]);
    let output = kdig
        .args(["+short", "+time=2", "+retry=0"])
        .args(arguments)
        .output()
        .unwrap();
    let mut lines: Vec<String> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort();
    lines
}

#[test]
fn records_are_seen_as_soon_as_they_are_put() {
    let dns = Dns::start(&["example.test", "other.test"]);
    let name = "_challenge.example.test";
    assert!(ask(dns.address(), &[name, "TXT"]).is_empty());
    dns.put_txt(name, &["part one", "part \"two\""]);
    dns.put_txt(name, &["alone"]);
    let expected = [r#""alone""#, r#""part one" "part \"two\"""#];
    assert_eq!(ask(dns.address(), &[name, "TXT"]), expected);
    assert_eq!(ask(dns.address(), &["+tcp", name, "TXT"]), expected);

    dns.put_cname("alias.other.test", name);
    assert_eq!(ask(dns.address(), &["alias.other.test", "CNAME"]), [format!("{name}.")]);
    dns.put("other.test", "A", "127.0.0.1");
    assert_eq!(ask(dns.address(), &["other.test", "A"]), ["127.0.0.1"]);

    dns.remove(name);
    assert!(ask(dns.address(), &[name, "TXT"]).is_empty());
}

#[test]
fn the_server_ends_with_its_handle() {
    let dns = Dns::start(&["example.test"]);
    let address = dns.address();
    TcpStream::connect(address).unwrap();
    drop(dns);
    TcpStream::connect(address).unwrap_err();
}

#[test]
fn a_silent_server_takes_questions_and_gives_no_answer() {
    let dns = SilentDns::start();
    TcpStream::connect(dns.address()).unwrap();
    assert!(ask(dns.address(), &["example.test", "TXT"]).is_empty());
}
