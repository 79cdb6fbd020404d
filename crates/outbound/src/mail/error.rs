//! Why a mail was not handed over, and whether that lasts.

use std::fmt;
use std::time::Duration;

use lettre::transport::smtp::Error as SmtpError;

/// How long handing over a mail may take.
pub const SEND_TIME: Duration = Duration::from_secs(30);

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

    pub(super) fn at(step: Step) -> impl FnOnce(SmtpError) -> Self {
        move |source| match source.status() {
            Some(code) if is_about_recipient(step, code.into(), &answer(&source)) => Self::Recipient(source),
            _ => Self::Refused { step, source },
        }
    }
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
