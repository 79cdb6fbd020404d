//! Which addresses may be dialed.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;
use url::{Host, Url};

mod networks;

pub use networks::Network;

/// The addresses this instance may dial: public ones, and the ranges its operator allowed.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    allowed: Arc<[IpNet]>,
    is_open: bool,
}

/// What stands between a URL and a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Not a URL, or one without a host.
    NoHost,
    /// Neither https nor http.
    Scheme,
    /// http to anything but an allowed loopback address.
    PlainHttp,
    /// A name or password in the URL, which ends up in logs and confuses readers about the host.
    UserInfo,
    /// The address as written belongs to this network.
    Address(Network),
    /// The name resolves to refused addresses only. Which ones is for the log.
    ResolvedAddress,
    /// A redirect from https to http.
    Downgrade,
    /// More redirects than allowed.
    TooManyRedirects,
}

/// In bytes, with the dot that may be at its end.
const MAX_NAME: usize = 254;

/// A connection that is not made. What it displays may be shown to whoever chose the target;
/// [`Refusal::detail`] may name internal addresses and is for the log.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{rule}")]
pub struct Refusal {
    pub rule: Rule,
    detail: String,
}

impl Refusal {
    pub(crate) fn new(rule: Rule, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { rule, detail }
    }

    /// What was seen, for the log only.
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

impl Rule {
    /// A stable name for programs.
    pub fn code(self) -> &'static str {
        match self {
            Self::NoHost => "no_host",
            Self::Scheme => "scheme_not_allowed",
            Self::PlainHttp => "https_required",
            Self::UserInfo => "user_info_not_allowed",
            Self::Address(_) | Self::ResolvedAddress => "address_not_allowed",
            Self::Downgrade => "redirect_to_http",
            Self::TooManyRedirects => "too_many_redirects",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const REMEDY: &str = "The operator of this server can allow its range with HEDGEROW_ALLOW_PRIVATE_NETWORKS.";
        match self {
            Self::NoHost => f.write_str("Enter a valid URL with a host."),
            Self::Scheme => f.write_str("The URL must start with https://."),
            Self::PlainHttp => f.write_str(
                "The URL must start with https://. http:// is only for loopback addresses, if the operator of this \
                 server allows them with HEDGEROW_ALLOW_PRIVATE_NETWORKS.",
            ),
            Self::UserInfo => f.write_str("The URL must not contain a user name or password."),
            Self::Address(network) => write!(f, "The address is {network}. {REMEDY}"),
            Self::ResolvedAddress => write!(
                f,
                "The host has no address that this server is allowed to connect to. {REMEDY}"
            ),
            Self::Downgrade => f.write_str("The server redirects from https to http."),
            Self::TooManyRedirects => f.write_str("Too many redirects."),
        }
    }
}

impl Policy {
    /// Public addresses and those in `allowed`.
    pub fn new(allowed: Vec<IpNet>) -> Self {
        Self {
            allowed: allowed.into(),
            is_open: false,
        }
    }

    /// Every address, also in the clear: for a server that the operator chose, such as their own ClickHouse.
    pub fn for_the_operator() -> Self {
        Self {
            is_open: true,
            ..Self::default()
        }
    }

    /// Whether a URL may be asked for. A name still has to pass when it is resolved, by the [`Dialer`](crate::Dialer).
    pub fn check_url(&self, url: &Url) -> Result<(), Refusal> {
        if !matches!(url.scheme(), "https" | "http") {
            return Err(Refusal::new(Rule::Scheme, url.scheme()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refusal::new(Rule::UserInfo, "user-info in the URL"));
        }
        let Some(host) = url.host() else {
            return Err(Refusal::new(Rule::NoHost, "no host in the URL"));
        };
        if url.scheme() == "http" && !self.is_open && !is_loopback(&host) {
            return Err(Refusal::new(Rule::PlainHttp, format!("http to {host}")));
        }
        self.check_host(&host)
    }

    /// Whether a host may be dialed, as far as it can be told without resolving it.
    ///
    /// The parser has already turned decimal, octal and hexadecimal spellings into addresses.
    pub fn check_host<S: AsRef<str>>(&self, host: &Host<S>) -> Result<(), Refusal> {
        match host {
            Host::Ipv4(address) => self.check_address((*address).into()),
            Host::Ipv6(address) => self.check_address((*address).into()),
            Host::Domain(name) if is_localhost(name.as_ref()) => self
                .check_address(Ipv4Addr::LOCALHOST.into())
                .or_else(|refusal| self.check_address(Ipv6Addr::LOCALHOST.into()).map_err(|_| refusal)),
            // No name server knows a longer one, and whoever remembers hosts would remember all of it.
            Host::Domain(name) if name.as_ref().len() > MAX_NAME => {
                Err(Refusal::new(Rule::NoHost, "a host name that is too long"))
            }
            Host::Domain(_) => Ok(()),
        }
    }

    /// Whether an address may be dialed.
    pub fn check_address(&self, address: IpAddr) -> Result<(), Refusal> {
        let allowed = match address {
            IpAddr::V4(_) => self.allows(address),
            IpAddr::V6(v6) => self.allows_v6(v6),
        };
        match Network::of(address) {
            Some(network) if !allowed && !self.is_open => {
                Err(Refusal::new(Rule::Address(network), address.to_string()))
            }
            _ => Ok(()),
        }
    }

    fn allows(&self, address: IpAddr) -> bool {
        self.allowed.iter().any(|range| range.contains(&address))
    }

    /// An IPv6 range that leads into IPv4 allows only what is allowed there too, or NAT64 would open every private network.
    fn allows_v6(&self, address: Ipv6Addr) -> bool {
        // The system dials a mapped address as plain IPv4: allowing the one allows the other.
        if let Some(v4) = address.to_ipv4_mapped() {
            return self.allows(v4.into());
        }
        let reaches_only_what_it_may = || {
            networks::embedded(address)
                .into_iter()
                .all(|v4| self.check_address(v4.into()).is_ok())
        };
        self.allows(address.into()) && reaches_only_what_it_may()
    }
}

/// Whether a host is this machine by its spelling: a loopback address or `localhost`.
pub fn is_loopback<S: AsRef<str>>(host: &Host<S>) -> bool {
    match host {
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
        Host::Domain(name) => is_localhost(name.as_ref()),
    }
}

/// `localhost` and all names below it are loopback, whatever DNS says (RFC 6761).
fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests;
