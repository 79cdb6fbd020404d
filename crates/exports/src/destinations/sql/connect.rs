//! A connection to a database: dialed by us, encrypted, and bounded in time and size.

use std::net::IpAddr;
use std::time::Duration;

use arrow_schema::Schema;
use futures_util::SinkExt;
use secrecy::{ExposeSecret, SecretString};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::{SslMode, SslNegotiation};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Connection, CopyInSink, NoTls, Row};
use tokio_postgres_rustls::MakeRustlsConnect;
use url::Host;

use super::error::{failure, tls_failure};
use super::messages::{Checked, CheckedTls};
use super::metered::Metered;
use crate::{Error, ExportsDeps};

/// How a client asks whether the server speaks TLS: the length, and a number that is no version.
const TLS_PLEASE: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// Who is where.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    host: Host,
    port: u16,
    user: SecretString,
    password: SecretString,
    database: String,
    is_verified: bool,
}

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// TLS and signing in.
    pub(crate) sign_in: Duration,
    /// One statement, or one piece of a COPY. The server is told the same, and gives up a little earlier.
    pub(crate) answer: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sign_in: Duration::from_secs(20),
            answer: Duration::from_mins(15),
        }
    }
}

/// What opening a connection has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Connect,
    Encrypt,
    SignIn,
    Done,
}

/// A connection, whose owner is signed in. Dropped, it closes immediately, and the server takes back what was not committed.
pub(crate) struct Session {
    client: Client,
    connection: Ending,
    limits: Limits,
    /// Those that errors may name.
    columns: Vec<String>,
}

/// The parameters of a statement, with their types, so that no statement has to be prepared under a name.
pub(crate) type Parameters<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

impl Endpoint {
    pub(crate) fn new(
        host: &str,
        port: u16,
        database: &str,
        (user, password): (&SecretString, &SecretString),
    ) -> Result<Self, Error> {
        Ok(Self {
            host: read_host(host).map_err(|error| error.in_key("host"))?,
            port,
            user: user.clone(),
            password: password.clone(),
            database: database.to_owned(),
            is_verified: true,
        })
    }

    /// Believes whatever certificate the server has.
    pub(crate) fn unverified(mut self) -> Self {
        self.is_verified = false;
        self
    }

    fn tls(&self, deps: &ExportsDeps) -> Result<MakeRustlsConnect, Error> {
        let config = if self.is_verified {
            deps.roots.client_config()
        } else {
            outbound::tls::encrypted_but_unverified()
        };
        let config = config.map_err(|cause| Error::retryable("TLS cannot be set up on this server", cause))?;
        Ok(MakeRustlsConnect::new(config))
    }

    fn tls_name(&self) -> String {
        match &self.host {
            Host::Domain(name) => name.clone(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        }
    }

    /// Only what is said here: no files, no environment, no `options`.
    fn config(&self) -> tokio_postgres::Config {
        let mut config = tokio_postgres::Config::new();
        config
            .user(self.user.expose_secret())
            .password(self.password.expose_secret())
            .dbname(&self.database)
            .application_name("hedgerow");
        config
    }
}

/// A name or an address, and nothing that a driver could take for a socket's path or for settings.
fn read_host(host: &str) -> Result<Host, Error> {
    let refused = || Error::plain("the host must be a hostname or an IP address only");
    if host.contains(|sign: char| sign.is_whitespace() || "/\\=,?#@%'\"".contains(sign)) {
        return Err(refused());
    }
    if let Ok(IpAddr::V6(address)) = host.parse() {
        return Ok(Host::Ipv6(address));
    }
    Host::parse(host).map_err(|_| refused())
}

impl Session {
    pub(crate) async fn open(place: &Endpoint, deps: &ExportsDeps, limits: Limits) -> Result<Self, Error> {
        Self::open_by_stages(place, deps, limits)
            .await
            .map_err(|(_, error)| error)
    }

    /// As [`Session::open`]; a failure says how far it came.
    pub(crate) async fn open_by_stages(
        place: &Endpoint,
        deps: &ExportsDeps,
        limits: Limits,
    ) -> Result<Self, (Stage, Error)> {
        let at = |stage: Stage| move |error: Error| (stage, error);
        let tls = place.tls(deps).map_err(at(Stage::Encrypt))?;
        let dialed = deps.dialer.connect(&place.host.to_string(), place.port).await;
        let mut stream = dialed.map_err(|cause| (Stage::Connect, cause.into()))?;
        let too_slow = |cause| {
            let sentence = format!(
                "the server did not accept the sign-in within {} seconds; check that it is a database and not overloaded",
                limits.sign_in.as_secs()
            );
            (Stage::SignIn, Error::retryable(sentence, cause))
        };
        let opening = async {
            let is_encrypted = agree_on_tls(&mut stream).await.map_err(at(Stage::Encrypt))?;
            sign_in(place, tls, stream, is_encrypted).await
        };
        let (client, connection) = timeout(limits.sign_in, opening).await.map_err(too_slow)??;
        Ok(Self {
            client,
            connection,
            limits,
            columns: Vec::new(),
        })
    }

    /// From now on errors name the columns of the delivery that they are about.
    pub(crate) fn naming_columns(mut self, schema: &Schema) -> Self {
        self.columns = schema.fields().iter().map(|field| field.name().clone()).collect();
        self
    }

    /// Runs statements that take nothing and give nothing.
    pub(crate) async fn run(&self, doing: &str, sql: &str) -> Result<(), Error> {
        self.within(doing, self.client.batch_execute(sql)).await
    }

    /// Runs a statement and returns its rows.
    pub(crate) async fn ask(&self, doing: &str, sql: &str, parameters: Parameters<'_>) -> Result<Vec<Row>, Error> {
        self.within(doing, self.client.query_typed(sql, parameters)).await
    }

    /// Runs a statement and returns how many rows it changed.
    pub(crate) async fn change(&self, doing: &str, sql: &str, parameters: Parameters<'_>) -> Result<u64, Error> {
        self.within(doing, self.client.execute_typed(sql, parameters)).await
    }

    /// Runs a statement that holds secrets: the driver does not log it, and nothing that the server says of it is kept.
    pub(crate) async fn run_secretly(&self, doing: &str, sql: &SecretString) -> Result<(), Error> {
        let done = self.change(doing, sql.expose_secret(), &[]).await;
        let cause = "the server's words may hold secrets";
        done.map(drop).map_err(|error| {
            if error.is_permanent {
                Error::permanent(error.sentence, cause)
            } else {
                Error::retryable(error.sentence, cause)
            }
        })
    }

    /// Begins a COPY.
    pub(crate) async fn copy(&self, sql: &str) -> Result<Copy, Error> {
        let sink = self.within("load rows", self.client.copy_in(sql)).await?;
        Ok(Box::pin(sink))
    }

    /// Sends a piece of a COPY.
    pub(crate) async fn send(&self, copy: &mut Copy, piece: bytes::Bytes) -> Result<(), Error> {
        self.within("load rows", copy.as_mut().send(piece)).await
    }

    /// Ends a COPY. Only now does the server say what it thinks of the rows.
    pub(crate) async fn finish(&self, copy: &mut Copy) -> Result<u64, Error> {
        self.within("load rows", copy.as_mut().finish()).await
    }

    /// Says goodbye, so that the server's log holds no complaint.
    pub(crate) async fn close(self) {
        let Self {
            client, mut connection, ..
        } = self;
        drop(client);
        // Whoever does not answer to a goodbye is left without one.
        let _ = timeout(Duration::from_secs(1), &mut connection.0).await;
    }

    async fn within<T>(
        &self,
        doing: &str,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Error> {
        let done = timeout(self.limits.answer, work).await.map_err(|cause| {
            let seconds = self.limits.answer.as_secs();
            let sentence = format!("the database took longer than {seconds} seconds to {doing}; it will be retried");
            Error::retryable(sentence, cause)
        })?;
        done.map_err(|cause| failure(doing, &self.columns, cause))
    }
}

/// A COPY in progress.
pub(crate) type Copy = std::pin::Pin<Box<CopyInSink<bytes::Bytes>>>;

/// The task that moves bytes; it ends with its owner.
struct Ending(JoinHandle<()>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Moves bytes until one side has had enough. What went wrong is said to whoever waits for an answer.
async fn drive<S, T>(connection: Connection<S, T>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    if let Err(cause) = connection.await {
        tracing::debug!(
            error = &cause as &dyn std::error::Error,
            "a connection to a database ended"
        );
    }
}

/// Asks for TLS. Without it only this machine itself is spoken to.
async fn agree_on_tls(stream: &mut TcpStream) -> Result<bool, Error> {
    let broken = |cause: std::io::Error| {
        let sentence = "the server closed the connection immediately; check that it is a database";
        Error::retryable(sentence, cause)
    };
    stream.write_all(&TLS_PLEASE).await.map_err(broken)?;
    let answer = stream.read_u8().await.map_err(broken)?;
    let is_loopback = stream.peer_addr().map_err(broken)?.ip().to_canonical().is_loopback();
    match answer {
        b'S' => Ok(true),
        b'N' if is_loopback => Ok(false),
        b'N' => Err(Error::plain(
            "the server does not support TLS; enable TLS on it, as unencrypted connections are not allowed",
        )),
        _ => Err(Error::plain("this is not a PostgreSQL server; check the host and port")),
    }
}

async fn sign_in(
    place: &Endpoint,
    mut tls: MakeRustlsConnect,
    stream: TcpStream,
    is_encrypted: bool,
) -> Result<(Client, Ending), (Stage, Error)> {
    let mut config = place.config();
    let refused = |cause: tokio_postgres::Error| {
        let stage = if tls_failure(&cause).is_some() {
            Stage::Encrypt
        } else {
            Stage::SignIn
        };
        (stage, failure("accept the sign-in", &[], cause))
    };
    let stream = Metered::new(stream);
    if is_encrypted {
        // TLS has been agreed on already: asking again would be answered by nobody.
        config
            .ssl_mode(SslMode::Require)
            .ssl_negotiation(SslNegotiation::Direct);
        let connect =
            MakeTlsConnect::<Metered>::make_tls_connect(&mut tls, &place.tls_name()).expect("it only takes the name");
        let (client, connection) = config.connect_raw(stream, CheckedTls(connect)).await.map_err(refused)?;
        Ok((client, Ending(tokio::spawn(drive(connection)))))
    } else {
        config.ssl_mode(SslMode::Disable);
        let (client, connection) = config.connect_raw(Checked::new(stream), NoTls).await.map_err(refused)?;
        Ok((client, Ending(tokio::spawn(drive(connection)))))
    }
}

#[cfg(test)]
mod tests {
    use outbound::{Dialer, Http, Policy, Roots};
    use tokio::net::TcpListener;

    use super::*;

    fn deps() -> ExportsDeps {
        let dialer = Dialer::new(Policy::new(vec!["127.0.0.0/8".parse().unwrap()]));
        ExportsDeps {
            http: Http::new(dialer.clone(), &Roots::public()).unwrap(),
            dialer,
            roots: Roots::public(),
            export_root: None,
        }
    }

    fn place(host: &str, port: u16) -> Result<Endpoint, Error> {
        let secret = SecretString::from("secret");
        Endpoint::new(host, port, "postgres", (&secret, &secret))
    }

    const QUICK: Limits = Limits {
        sign_in: Duration::from_millis(300),
        answer: Duration::from_millis(300),
    };

    /// A server that answers the question for TLS, then what it is given, and then does as it is told.
    async fn peer(first: u8, then: &'static [u8], is_endless: bool) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 8]).await;
            let _ = stream.write_all(&[first]).await;
            let _ = stream.write_all(then).await;
            while is_endless && stream.write_all(&[b'x'; 8192]).await.is_ok() {}
            // Silent, but there.
            let _ = stream.read_to_end(&mut Vec::new()).await;
        });
        port
    }

    /// Signed in, ready.
    const READY: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";

    /// N6
    #[test]
    fn a_host_is_a_name_or_an_address() {
        for refused in [
            "",
            "/var/run/postgresql",
            "a,b",
            "service=x",
            "db options=-csearch_path",
            "db?sslmode=disable",
            "user@db",
            "a%2Fb",
            "@abstract",
        ] {
            assert!(read_host(refused).is_err(), "{refused}");
        }
        for fine in ["db.example.com", "10.0.0.1", "::1", "[::1]", "localhost"] {
            assert!(read_host(fine).is_ok(), "{fine}");
        }
    }

    /// N1, N5
    #[tokio::test]
    async fn private_addresses_are_not_dialled() {
        for host in ["10.0.0.1", "169.254.169.254", "::1", "0x0a.1", "::ffff:10.0.0.1"] {
            let place = place(host, 5432).unwrap();
            let (stage, error) = Session::open_by_stages(&place, &deps(), QUICK).await.err().unwrap();
            assert_eq!(stage, Stage::Connect);
            assert!(error.is_permanent, "{host}");
        }
    }

    /// N8
    #[tokio::test]
    async fn whoever_is_silent_or_endless_costs_little() {
        let endless_message = b"R\x7f\xff\xff\xff";
        for (first, then, is_endless) in [
            (b'N', &b""[..], false),
            (b'S', b"", false),
            (b'N', endless_message, true),
            (b'S', b"", true),
        ] {
            let port = peer(first, then, is_endless).await;
            let opened = Session::open(&place("127.0.0.1", port).unwrap(), &deps(), QUICK).await;
            let error = opened.err().unwrap();
            assert!(!error.is_permanent, "{error}");
        }
        let port = peer(b'H', b"TTP/1.1 400", false).await;
        let opened = Session::open(&place("127.0.0.1", port).unwrap(), &deps(), QUICK).await;
        assert!(opened.err().unwrap().is_permanent);
    }

    #[tokio::test]
    async fn a_server_that_falls_silent_after_signing_in_is_given_up() {
        let port = peer(b'N', READY, false).await;
        let session = Session::open(&place("127.0.0.1", port).unwrap(), &deps(), QUICK)
            .await
            .unwrap();
        let error = session.run("load rows", "SELECT 1").await.unwrap_err();
        assert!(!error.is_permanent && error.sentence.contains("took longer"), "{error}");
    }
}
