//! Mail, handed to the operator's SMTP server.

use std::fmt;
use std::time::Duration;

use lettre::Message;
use lettre::address::Envelope;
use lettre::message::Mailbox;
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{DEFAULT_MECHANISMS, Mechanism};
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::commands::{Data, Mail as MailFrom, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension, MailParameter};
use tokio::time::{Instant, timeout, timeout_at};

mod message;
mod settings;

pub use settings::BadMailSettings;

use crate::tls::Roots;
use settings::{Security, Server};

/// How long handing over a mail may take.
pub const SEND_TIME: Duration = Duration::from_secs(30);

const FAREWELL_TIME: Duration = Duration::from_secs(2);

/// A mail to one person, as text and as HTML.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mail {
    pub to: String,
    pub to_name: Option<String>,
    pub reply_to: Option<String>,
    pub subject: String,
    pub text: String,
    pub html: String,
    /// Becomes the Message-ID, so that a mail sent twice after a crash is recognized as one. Letters, digits, `.`, `_`, `-`.
    pub id: String,
}

/// Why a mail was not handed over. What the server said is in the source.
#[derive(Debug, thiserror::Error)]
pub enum MailError {
    #[error("The email's {field} is invalid.")]
    Malformed { field: &'static str },
    #[error("The mail server does not accept email for this recipient.")]
    Recipient(#[source] SmtpError),
    #[error("The mail server rejected the {step}.")]
    Refused { step: Step, source: SmtpError },
    #[error("The mail server could not be reached. Check HEDGEROW_SMTP_URL.")]
    Unreachable(#[source] SmtpError),
    #[error("The mail server timed out after {} seconds.", SEND_TIME.as_secs())]
    TooSlow,
}

/// How far the conversation with the server had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Encryption,
    SignIn,
    Sender,
    Recipient,
    Content,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Encryption => "encryption (STARTTLS)",
            Self::SignIn => "user name and password",
            Self::Sender => "sender",
            Self::Recipient => "recipient",
            Self::Content => "content",
        })
    }
}

impl MailError {
    /// Whether sending the same mail again is pointless. All else may pass, even if only after the operator acts.
    pub fn is_permanent(&self) -> bool {
        matches!(self, Self::Recipient(_) | Self::Malformed { .. })
    }

    fn at(step: Step) -> impl FnOnce(SmtpError) -> Self {
        move |source| match source.status() {
            Some(code) if is_about_recipient(step, code.into(), &answer(&source)) => Self::Recipient(source),
            _ => Self::Refused { step, source },
        }
    }
}

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

fn answer(error: &SmtpError) -> String {
    std::error::Error::source(error)
        .map(ToString::to_string)
        .unwrap_or_default()
}

/// Whether an answer says that mail to this recipient will never be taken.
///
/// The enhanced code (RFC 3463) tells more than the plain one: 5.1 and 5.2 are about the address and its mailbox, 5.7 is
/// policy, often a relay that does not know us yet, which an operator can fix.
fn is_about_recipient(step: Step, code: u16, answer: &str) -> bool {
    if !(500..600).contains(&code) || !matches!(step, Step::Recipient | Step::Content) {
        return false;
    }
    match enhanced_code(answer) {
        // 5.1.7 and 5.1.8 are about the sender's address.
        Some([5, 1, 7 | 8]) => false,
        Some([5, 1 | 2, _]) => true,
        Some(_) => false,
        None => step == Step::Recipient && matches!(code, 550..=553),
    }
}

fn enhanced_code(answer: &str) -> Option<[u16; 3]> {
    let first = answer.split_whitespace().next()?;
    let mut parts = first.split('.').map(str::parse);
    let code = [parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?];
    parts.next().is_none().then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_about_the_recipient_last() {
        for (step, code, answer, lasts) in [
            (Step::Recipient, 550, "5.1.1 no such user", true),
            (Step::Recipient, 550, "no such user", true),
            (Step::Recipient, 552, "5.2.2 mailbox full", true),
            (Step::Recipient, 553, "mailbox name not allowed", true),
            (Step::Content, 554, "5.2.1 mailbox disabled", true),
            (Step::Recipient, 450, "4.2.1 try again later", false),
            (Step::Recipient, 550, "5.7.1 relaying denied", false),
            (Step::Recipient, 550, "5.1.8 sender's domain not found", false),
            (Step::Recipient, 530, "sign in first", false),
            (Step::Sender, 550, "5.1.1 no such user", false),
            (Step::SignIn, 535, "5.7.8 wrong password", false),
            (Step::Content, 554, "5.6.0 looks like spam", false),
            (Step::Content, 552, "too much mail data", false),
        ] {
            assert_eq!(
                is_about_recipient(step, code, answer),
                lasts,
                "{step:?} {code} {answer}"
            );
        }
    }
}
