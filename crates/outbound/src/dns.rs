//! Looks up TXT records, each time afresh.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError as Answer, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData};
use hickory_resolver::{ResolverBuilder, TokioResolver};

/// How long a look-up may take, whatever the servers do.
pub const LOOKUP_TIME: Duration = Duration::from_secs(5);

/// Short enough for a second server, or a second try, within [`LOOKUP_TIME`].
const TRY_TIME: Duration = Duration::from_secs(2);

/// Asks name servers that the operator chose.
#[derive(Clone)]
pub struct Dns {
    resolver: TokioResolver,
}

/// Why a look-up gave nothing: what was seen, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum DnsError {
    #[error("{0:?} is not a valid DNS name.")]
    BadName(String),
    #[error("No TXT record found at {0}. Add it, and allow time for DNS propagation.")]
    NoRecord(String),
    #[error("The name {0} does not exist in DNS. Check the domain's spelling and add the record.")]
    NoSuchName(String),
    #[error("The DNS lookup of {0} timed out after 5 seconds. Try again later.")]
    Timeout(String),
    #[error("The DNS server refused the lookup of {0}. Check HEDGEROW_DNS, or ask the server's operator.")]
    Refused(String),
    #[error("The DNS lookup of {name} failed. Check the domain's name servers and DNSSEC, or try again later.")]
    ServerFailure { name: String, source: NetError },
    #[error("The DNS resolver cannot be set up. Check HEDGEROW_DNS, or /etc/resolv.conf if it is not set.")]
    BadSettings(#[source] NetError),
}

impl DnsError {
    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadName(_) => "dns_bad_name",
            Self::NoRecord(_) => "dns_no_record",
            Self::NoSuchName(_) => "dns_no_such_name",
            Self::Timeout(_) => "dns_timeout",
            Self::Refused(_) => "dns_refused",
            Self::ServerFailure { .. } | Self::BadSettings(_) => "dns_failure",
        }
    }
}

impl Dns {
    /// The system's name servers, as in `/etc/resolv.conf`.
    pub fn system() -> Result<Self, DnsError> {
        let builder = TokioResolver::builder_tokio().map_err(DnsError::BadSettings)?;
        Self::build(builder)
    }

    /// These name servers, over UDP and, for long answers, TCP.
    pub fn new(servers: &[SocketAddr]) -> Result<Self, DnsError> {
        let config = ResolverConfig::from_name_servers(servers.iter().map(name_server).collect());
        Self::build(TokioResolver::builder_with_config(
            config,
            TokioRuntimeProvider::default(),
        ))
    }

    fn build(builder: ResolverBuilder<TokioRuntimeProvider>) -> Result<Self, DnsError> {
        let resolver = builder.with_options(options()).build().map_err(DnsError::BadSettings)?;
        Ok(Self { resolver })
    }

    /// The TXT records at a name, the strings of each joined.
    pub async fn txt(&self, name: &str) -> Result<Vec<String>, DnsError> {
        let mut full = Name::from_utf8(name).map_err(|_| DnsError::BadName(name.to_owned()))?;
        if full.is_root() {
            return Err(DnsError::BadName(name.to_owned()));
        }
        // Without the search domains of this machine: the record counts at exactly this name.
        full.set_fqdn(true);
        let lookup = tokio::time::timeout(LOOKUP_TIME, self.resolver.txt_lookup(full))
            .await
            .map_err(|_| DnsError::Timeout(name.to_owned()))?
            .map_err(|error| unanswered(name, error))?;
        // The answers also hold the CNAME records on the way.
        let texts: Vec<_> = lookup
            .answers()
            .iter()
            .filter_map(|record| text(&record.data))
            .collect();
        if texts.is_empty() {
            return Err(DnsError::NoRecord(name.to_owned()));
        }
        Ok(texts)
    }
}

impl fmt::Debug for Dns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dns").finish_non_exhaustive()
    }
}

fn options() -> ResolverOpts {
    let mut options = ResolverOpts::default();
    // A record that was just added must be seen at the next look.
    options.cache_size = 0;
    options.timeout = TRY_TIME;
    options.attempts = 1;
    options.use_hosts_file = ResolveHosts::Never;
    options
}

fn name_server(address: &SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = address.port();
        connection
    });
    NameServerConfig::new(address.ip(), true, connections.into())
}

fn text(data: &RData) -> Option<String> {
    let RData::TXT(txt) = data else { return None };
    Some(String::from_utf8_lossy(&txt.txt_data.concat()).into_owned())
}

fn unanswered(name: &str, error: NetError) -> DnsError {
    let name = name.to_owned();
    match error {
        error if error.is_nx_domain() => DnsError::NoSuchName(name),
        error if error.is_no_records_found() => DnsError::NoRecord(name),
        NetError::Dns(Answer::ResponseCode(ResponseCode::Refused)) => DnsError::Refused(name),
        NetError::Timeout => DnsError::Timeout(name),
        source => DnsError::ServerFailure { name, source },
    }
}
