//! Asks the server on this machine whether it is ready: for containers and scripts that have no HTTP client.

use std::io::{Read, Write, stdout};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::settings::Settings;

const TIMEOUT: Duration = Duration::from_secs(5);
const MAX_REPLY: u64 = 64 * 1024;

/// Fails unless `/readyz` answers with 200.
pub(crate) fn run(settings: &Settings) -> anyhow::Result<()> {
    let address = reachable(settings.health_listen.unwrap_or(settings.listen));
    let reply = ask(address).with_context(|| format!("no answer from {address}"))?;
    let (head, body) = reply.split_once("\r\n\r\n").unwrap_or((&reply, ""));
    write!(stdout(), "{body}")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    ensure!(status == "200", "not ready: {address} answered with status {status}");
    Ok(())
}

fn ask(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut reply = String::new();
    stream.take(MAX_REPLY).read_to_string(&mut reply)?;
    Ok(reply)
}

/// A server that listens at all addresses is reached at the loopback one.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_addresses_are_reached_at_loopback() {
        let reached = |listen: &str| reachable(listen.parse().expect("an address")).to_string();
        assert_eq!(reached("0.0.0.0:8000"), "127.0.0.1:8000");
        assert_eq!(reached("[::]:8000"), "[::1]:8000");
        assert_eq!(reached("10.0.0.7:9"), "10.0.0.7:9");
    }
}
