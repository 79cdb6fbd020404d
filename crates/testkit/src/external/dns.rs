//! A name server with zones that a test changes while it runs, and one that never answers.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::process::Command;

use super::process::{Folder, Process, run, watched};

/// Nobody may keep an answer, so that a change is seen immediately.
const TTL: &str = "0";

/// A running name server that knows its own zones and refuses all others.
#[derive(Debug)]
pub struct Dns {
    // Before the folder: the server ends first.
    _process: Process,
    folder: Folder,
    address: SocketAddr,
    zones: Vec<String>,
}

impl Dns {
    /// Starts with these zones, such as `example.test`; nothing is in them yet.
    pub fn start(zones: &[&str]) -> Self {
        let started = (0..5).find_map(|_| Self::start_on(free_port(), zones));
        started.expect("a port that stays free for a moment")
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds one TXT record of one or more strings. A name may hold several.
    pub fn put_txt(&self, name: &str, strings: &[&str]) {
        let quoted = strings
            .iter()
            .map(|string| format!("\"{}\"", string.replace('\\', "\\\\").replace('"', "\\\"")));
        self.put(name, "TXT", &quoted.collect::<Vec<_>>().join(" "));
    }

    pub fn put_cname(&self, name: &str, target: &str) {
        self.put(name, "CNAME", &format!("{}.", target.trim_end_matches('.')));
    }

    /// Adds a record of any type, its data written as in a zone file.
    pub fn put(&self, name: &str, kind: &str, data: &str) {
        self.change(name, &["zone-set"], &[TTL, kind, data]);
    }

    /// Removes all records of a name, which must have some.
    pub fn remove(&self, name: &str) {
        self.change(name, &["zone-unset"], &[]);
    }

    fn change(&self, name: &str, what: &[&str], record: &[&str]) {
        let name = name.trim_end_matches('.');
        let is_in = |zone: &&String| name == *zone || name.ends_with(&format!(".{zone}"));
        let longest = self.zones.iter().filter(is_in).max_by_key(|zone| zone.len());
        let zone = longest.unwrap_or_else(|| panic!("{name} is in none of {:?}", self.zones));
        let owner = format!("{name}.");
        self.control(&["zone-begin", zone]);
        self.control(&[what, &[zone, &owner], record].concat());
        self.control(&["zone-commit", zone]);
    }

    fn control(&self, arguments: &[&str]) {
        let mut knotc = Command::new("/usr/sbin/knotc");
        run(knotc.arg("-s").arg(self.folder.join("knot.sock")).args(arguments));
    }

    /// Nothing if somebody else took the port in the meantime.
    fn start_on(port: u16, zones: &[&str]) -> Option<Self> {
        let folder = Folder::new();
        for zone in zones {
            let text = format!("{zone}. 0 SOA {zone}. admin.{zone}. 1 3600 600 86400 0\n{zone}. 0 NS {zone}.\n");
            fs::write(folder.join(&format!("{zone}.zone")), text).expect("a zone");
        }
        let configuration = folder.join("knot.conf");
        fs::write(&configuration, self::configuration(&folder, port, zones)).expect("a configuration");
        let mut command = watched("/usr/sbin/knotd");
        let mut process = Process::start(command.arg("-c").arg(configuration), &folder.join("knot.log"));
        let is_ours = process.until("the name server is ready", |log| {
            if log.contains("cannot bind") {
                return Some(false);
            }
            assert!(!log.contains("critical:"), "the name server cannot start");
            log.contains("server started").then_some(true)
        });
        is_ours.then(|| Self {
            _process: process,
            folder,
            address: (Ipv4Addr::LOCALHOST, port).into(),
            zones: zones.iter().map(|&zone| zone.to_owned()).collect(),
        })
    }
}

fn configuration(folder: &Folder, port: u16, zones: &[&str]) -> String {
    let folder = folder.path().display();
    let zones = zones.join("\n  - domain: ");
    format!(
        "server:
  rundir: {folder}
  listen: 127.0.0.1@{port}
  udp-workers: 1
  tcp-workers: 1
  background-workers: 1
log:
  - target: stderr
    any: info
control:
  listen: {folder}/knot.sock
database:
  storage: {folder}
template:
  - id: default
    storage: {folder}
    file: \"%s.zone\"
    zonefile-sync: -1
    journal-content: none
zone:
  - domain: {zones}
"
    )
}

/// A port that is free for both protocols now.
fn free_port() -> u16 {
    silent_pair().0.local_addr().expect("a bound socket").port()
}

fn silent_pair() -> (UdpSocket, TcpListener) {
    loop {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = udp.local_addr().expect("a bound socket");
        if let Ok(tcp) = TcpListener::bind(address) {
            return (udp, tcp);
        }
    }
}

/// A name server that takes every question and never answers.
#[derive(Debug)]
pub struct SilentDns {
    udp: UdpSocket,
    _tcp: TcpListener,
}

impl SilentDns {
    pub fn start() -> Self {
        let (udp, tcp) = silent_pair();
        Self { udp, _tcp: tcp }
    }

    pub fn address(&self) -> SocketAddr {
        self.udp.local_addr().expect("a bound socket")
    }
}
