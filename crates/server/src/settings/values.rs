//! Values that have a form of their own.

use std::net::{IpAddr, SocketAddr};

use sandbox::Strictness;
use url::Url;

/// The address of a name server; the port defaults to 53.
pub(super) fn name_server(text: &str) -> Result<SocketAddr, String> {
    let with_port = text.parse::<SocketAddr>();
    let bare = text.parse::<IpAddr>().map(|address| SocketAddr::new(address, 53));
    with_port
        .or(bare)
        .map_err(|_| "use the address of a DNS server, such as 9.9.9.9 or 127.0.0.1:5353".to_owned())
}

/// An origin as browsers send it: scheme and host, no path.
pub(super) fn origin(text: &str) -> Result<String, String> {
    match Url::parse(text) {
        Ok(url) if url.origin().ascii_serialization() == text => Ok(text.to_owned()),
        _ => Err("an origin looks like https://app.example.com".to_owned()),
    }
}

/// A URL with a host.
pub(super) fn web_url(text: &str) -> Result<Url, String> {
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(url),
        _ => Err("use a URL such as https://apps.example.net".to_owned()),
    }
}

/// What happens to apps on a system that lacks layers of the sandbox.
pub(super) fn strictness(text: &str) -> Result<Strictness, String> {
    match text {
        "best-effort" => Ok(Strictness::BestEffort),
        "strict" => Ok(Strictness::Strict),
        _ => Err("use best-effort or strict".to_owned()),
    }
}
