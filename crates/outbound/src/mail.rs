//! Mail, handed to the operator's SMTP server.

use std::time::Duration;

use lettre::Message;
use lettre::address::Envelope;
use lettre::message::Mailbox;
use lettre::transport::smtp::authentication::{DEFAULT_MECHANISMS, Mechanism};
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::commands::{Data, Mail as MailFrom, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension, MailParameter};
use tokio::time::{Instant, timeout, timeout_at};

mod error;
mod message;
mod settings;

pub use error::{MailError, SEND_TIME, Step};
pub use message::Mail;
pub use settings::BadMailSettings;

use crate::tls::Roots;
use settings::{Security, Server};

const FAREWELL_TIME: Duration = Duration::from_secs(2);

/// Sends mail through one server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Mailer {
    server: Server,
    from: Mailbox,
}

impl Mailer {
    /// `smtps://user:password@host` (port 465), or `smtp://host` (port 25), which insists on STARTTLS unless the host
    /// is this machine; `?starttls=required` and `?starttls=never` say it explicitly.
    pub fn new(smtp_url: &str, from: &str, roots: &Roots) -> Result<Self, BadMailSettings> {
        let from = from.parse().map_err(|_| BadMailSettings::Sender)?;
        let server = Server::parse(smtp_url, roots)?;
        Ok(Self { server, from })
    }

    /// Hands a mail to the server.
    pub async fn send(&self, mail: &Mail) -> Result<(), MailError> {
        let message = message::build(mail, &self.from)?;
        let deadline = Instant::now() + SEND_TIME;
        let too_slow = |_| MailError::TooSlow;
        let mut connection = timeout_at(deadline, self.connect()).await.map_err(too_slow)??;
        let outcome = timeout_at(deadline, deliver(&mut connection, &message))
            .await
            .map_err(too_slow);
        // It is decided by now. A server that hangs at the farewell must not have the mail sent again.
        let _ = timeout(FAREWELL_TIME, connection.abort()).await;
        outcome?
    }

    async fn connect(&self) -> Result<AsyncSmtpConnection, MailError> {
        let Server {
            host,
            port,
            security,
            credentials,
        } = &self.server;
        let hello = ClientId::default();
        let from_the_start = match security {
            Security::Tls(parameters) => Some(parameters.clone()),
            Security::StartTls(_) | Security::Plain => None,
        };
        let address = (host.as_str(), *port);
        let mut connection =
            AsyncSmtpConnection::connect_tokio1(address, Some(SEND_TIME), &hello, from_the_start, None)
                .await
                .map_err(MailError::Unreachable)?;
        if let Security::StartTls(parameters) = security {
            let upgrade = connection.starttls(parameters.clone(), &hello).await;
            upgrade.map_err(MailError::at(Step::Encryption))?;
        }
        if let Some(credentials) = credentials {
            let mechanisms: &[Mechanism] = DEFAULT_MECHANISMS;
            let signed_in = connection.auth(mechanisms, credentials).await;
            signed_in.map_err(MailError::at(Step::SignIn))?;
        }
        Ok(connection)
    }
}

async fn deliver(connection: &mut AsyncSmtpConnection, message: &Message) -> Result<(), MailError> {
    let envelope: &Envelope = message.envelope();
    let mut parameters = vec![];
    if envelope
        .to()
        .iter()
        .any(|address| !AsRef::<str>::as_ref(address).is_ascii())
    {
        if !connection.server_info().supports_feature(Extension::SmtpUtfEight) {
            return Err(MailError::Malformed {
                field: "recipient (the mail server accepts ASCII addresses only)",
            });
        }
        parameters.push(MailParameter::SmtpUtfEight);
    }
    let sender = MailFrom::new(envelope.from().cloned(), parameters);
    connection.command(sender).await.map_err(MailError::at(Step::Sender))?;
    for recipient in envelope.to() {
        let recipient = Rcpt::new(recipient.clone(), vec![]);
        connection
            .command(recipient)
            .await
            .map_err(MailError::at(Step::Recipient))?;
    }
    connection.command(Data).await.map_err(MailError::at(Step::Content))?;
    connection
        .message(&message.formatted())
        .await
        .map_err(MailError::at(Step::Content))?;
    Ok(())
}
