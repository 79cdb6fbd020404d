//! Resolves a name once and dials only addresses that were checked.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use url::Host;

use crate::names::{Resolve, SystemNames};
use crate::policy::{Policy, Refusal, Rule};

/// How long connecting may take, all addresses of the host together.
pub const CONNECT_TIME: Duration = Duration::from_secs(10);

/// Dials hosts that the policy allows.
#[derive(Clone)]
pub struct Dialer {
    policy: Policy,
    names: Arc<dyn Resolve>,
}

/// Why there is no connection. What it displays names no address; its sources are for the log.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error("{0}")]
    Refused(Refusal),
    #[error("The host name could not be resolved. Check its spelling and its DNS records.")]
    Unknown(#[source] io::Error),
    #[error("The connection failed. Check the host and port, and that the server accepts connections from here.")]
    Unreachable(#[source] io::Error),
    #[error("The connection timed out after {} seconds. Check the host, the port and firewalls.", CONNECT_TIME.as_secs())]
    TooSlow,
}

impl Dialer {
    /// Dials by the system's look-up of names.
    pub fn new(policy: Policy) -> Self {
        Self::with_names(policy, Arc::new(SystemNames::new()))
    }

    /// Dials by another look-up of names; what it answers is checked all the same.
    pub fn with_names(policy: Policy, names: Arc<dyn Resolve>) -> Self {
        Self { policy, names }
    }

    /// The same for one caller: whatever it looks up, others can look up names, too.
    #[must_use]
    pub fn of(&self, caller: u128) -> Self {
        Self {
            policy: self.policy.clone(),
            names: self.names.of(caller).unwrap_or_else(|| self.names.clone()),
        }
    }

    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The addresses of a host that may be dialed, at least one. Dial these: asking again may answer something else.
    pub async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, DialError> {
        // The URL parser's reading, so that `0x7f.1` is the same here as in a URL.
        let parsed = Host::parse(host)
            .map_err(|_| DialError::Refused(Refusal::new(Rule::NoHost, format!("not a host name: {host:?}"))))?;
        self.policy.check_host(&parsed).map_err(DialError::Refused)?;
        match parsed {
            Host::Ipv4(address) => Ok(vec![address.into()]),
            Host::Ipv6(address) => Ok(vec![address.into()]),
            Host::Domain(name) => self.checked(&name).await,
        }
    }

    async fn checked(&self, name: &str) -> Result<Vec<IpAddr>, DialError> {
        let found = self.names.resolve(name).await.map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => DialError::TooSlow,
            _ => DialError::Unknown(error),
        })?;
        let (open, refused): (Vec<_>, Vec<_>) = found
            .into_iter()
            .partition(|address| self.policy.check_address(*address).is_ok());
        if !open.is_empty() {
            return Ok(open);
        }
        if refused.is_empty() {
            return Err(DialError::Unknown(io::Error::other("the name has no address")));
        }
        let detail = format!("{name} resolves to {refused:?}");
        Err(DialError::Refused(Refusal::new(Rule::ResolvedAddress, detail)))
    }

    /// Connects to the first address of the host that answers.
    pub async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, DialError> {
        self.connect_by(host, port, TcpStream::connect).await
    }

    /// As [`Dialer::connect`], with another way to reach an address.
    async fn connect_by<T, F>(&self, host: &str, port: u16, dial: impl Fn(SocketAddr) -> F) -> Result<T, DialError>
    where
        F: Future<Output = io::Result<T>>,
    {
        let deadline = Instant::now() + CONNECT_TIME;
        let too_slow = |_| DialError::TooSlow;
        let addresses = timeout_at(deadline, self.addresses(host)).await.map_err(too_slow)??;
        let mut failure = io::Error::other("no address was tried");
        for address in addresses {
            match timeout_at(deadline, dial((address, port).into()))
                .await
                .map_err(too_slow)?
            {
                Ok(connection) => return Ok(connection),
                Err(error) => failure = error,
            }
        }
        Err(DialError::Unreachable(failure))
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer")
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Answers look-ups in the given order and then runs dry: each answer is given once.
    struct Script(Mutex<Vec<Vec<&'static str>>>);

    #[async_trait::async_trait]
    impl Resolve for Script {
        async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
            let answer = self.0.lock().unwrap().remove(0);
            Ok(answer.iter().map(|address| address.parse().unwrap()).collect())
        }
    }

    fn dialer(answers: &[&[&'static str]]) -> Dialer {
        let answers = answers.iter().map(|answer| answer.to_vec()).collect();
        Dialer::with_names(Policy::default(), Arc::new(Script(Mutex::new(answers))))
    }

    /// Notes what would be dialed, and reaches nothing.
    async fn dialed(dialer: &Dialer, host: &str) -> (Vec<String>, DialError) {
        let seen = Mutex::new(vec![]);
        let dial = |address: SocketAddr| {
            seen.lock().unwrap().push(address.to_string());
            async { Err::<(), _>(io::Error::other("not dialed in tests")) }
        };
        let error = dialer.connect_by(host, 443, dial).await.unwrap_err();
        (seen.into_inner().unwrap(), error)
    }

    /// N2: the first answer is dialed without a second look-up; the next connection sees the new answer and is refused.
    #[tokio::test]
    async fn a_name_that_changes_its_mind_is_dialled_where_it_was_checked() {
        let dialer = dialer(&[&["93.184.215.14"], &["10.0.0.1"]]);
        let (seen, error) = dialed(&dialer, "rebind.example").await;
        assert_eq!(seen, ["93.184.215.14:443"]);
        assert!(matches!(error, DialError::Unreachable(_)));
        let (seen, error) = dialed(&dialer, "rebind.example").await;
        assert!(seen.is_empty());
        assert!(matches!(
            error,
            DialError::Refused(Refusal {
                rule: Rule::ResolvedAddress,
                ..
            })
        ));
    }

    #[tokio::test]
    async fn only_the_public_ones_of_several_addresses_are_dialled() {
        let answer: &[&str] = &[
            "127.0.0.1",
            "93.184.215.14",
            "::ffff:10.0.0.1",
            "fe80::1",
            "2606:2800::1",
        ];
        let (seen, _) = dialed(&dialer(&[answer]), "mixed.example").await;
        assert_eq!(seen, ["93.184.215.14:443", "[2606:2800::1]:443"]);
    }

    #[tokio::test]
    async fn hosts_that_are_addresses_are_checked_without_a_look_up() {
        for host in [
            "127.0.0.1",
            "2130706433",
            "0x7f.1",
            "0177.1",
            "[::1]",
            "localhost.",
            "/var/run/socket",
            "",
        ] {
            let (seen, error) = dialed(&dialer(&[]), host).await;
            assert!(seen.is_empty() && matches!(error, DialError::Refused(_)), "{host}");
        }
        assert_eq!(dialed(&dialer(&[]), "8.8.8.8").await.0, ["8.8.8.8:443"]);
    }

    /// N7: who chose the name learns that it is refused, and no more.
    #[tokio::test]
    async fn a_refused_name_does_not_tell_where_it_leads() {
        let (_, error) = dialed(&dialer(&[&["192.168.7.9"]]), "inside.example").await;
        assert!(!error.to_string().contains("192.168"));
        let DialError::Refused(refusal) = error else {
            panic!("not refused")
        };
        assert!(refusal.detail().contains("192.168.7.9"));
    }

    #[tokio::test]
    async fn localhost_is_known_without_dns() {
        let policy = Policy::new(vec!["127.0.0.0/8".parse().unwrap()]);
        let addresses = Dialer::new(policy).addresses("localhost").await.unwrap();
        assert!(addresses.iter().all(IpAddr::is_loopback));
    }
}
