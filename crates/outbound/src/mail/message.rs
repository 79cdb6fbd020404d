//! A mail, and the bytes that are sent of it.

use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart};
use lettre::{Address, Message};

use super::error::MailError;

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

pub(super) fn build(mail: &Mail, from: &Mailbox) -> Result<Message, MailError> {
    let to = Mailbox::new(mail.to_name.as_deref().map(one_line), address("recipient", &mail.to)?);
    let mut builder = Message::builder()
        .from(from.clone())
        .to(to)
        .subject(one_line(&mail.subject))
        .message_id(Some(message_id(&mail.id, from)?))
        .date_now()
        // Keeps out-of-office replies away (RFC 3834).
        .raw_header(HeaderValue::new(
            HeaderName::new_from_ascii_str("Auto-Submitted"),
            "auto-generated".to_owned(),
        ));
    if let Some(reply_to) = &mail.reply_to {
        builder = builder.reply_to(Mailbox::new(None, address("reply address", reply_to)?));
    }
    let body = MultiPart::alternative_plain_html(plain_line_ends(&mail.text), plain_line_ends(&mail.html));
    builder
        .multipart(body)
        .map_err(|_| MailError::Malformed { field: "headers" })
}

/// Names and subjects hold what people typed: a line break in them must not end the header.
fn one_line(text: &str) -> String {
    let spaced: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    spaced.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A bare CR or LF is read as a line end by some servers and not by others, so none is left.
fn plain_line_ends(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

fn address(field: &'static str, text: &str) -> Result<Address, MailError> {
    let malformed = MailError::Malformed { field };
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(malformed);
    }
    text.parse().map_err(|_| malformed)
}

fn message_id(id: &str, from: &Mailbox) -> Result<String, MailError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if id.is_empty() || id.len() > 100 || !id.bytes().all(is_plain) {
        return Err(MailError::Malformed { field: "id" });
    }
    Ok(format!("<{id}@{}>", from.email.domain()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mail() -> Mail {
        Mail {
            to: "ada@example.com".into(),
            to_name: Some("Ada".into()),
            reply_to: Some("owner@example.org".into()),
            subject: "Join Hedgerow".into(),
            text: "Hello".into(),
            html: "<p>Hello</p>".into(),
            id: "invite-1".into(),
        }
    }

    fn built(mail: &Mail) -> Result<String, MailError> {
        let from: Mailbox = "Hedgerow <no-reply@hedgerow.example>".parse().unwrap();
        build(mail, &from).map(|message| String::from_utf8(message.formatted()).unwrap())
    }

    /// The header names of a message, folded lines aside.
    fn headers(message: &str) -> Vec<&str> {
        let (head, _) = message.split_once("\r\n\r\n").unwrap();
        let starts = head.split("\r\n").filter(|line| !line.starts_with([' ', '\t']));
        starts.map(|line| line.split_once(':').unwrap().0).collect()
    }

    const ALL: [&str; 9] = [
        "From",
        "To",
        "Subject",
        "Message-ID",
        "Date",
        "Auto-Submitted",
        "Reply-To",
        "MIME-Version",
        "Content-Type",
    ];

    #[test]
    fn a_mail_has_its_headers_and_both_forms() {
        let message = built(&mail()).unwrap();
        assert_eq!(headers(&message), ALL);
        for line in [
            "From: Hedgerow <no-reply@hedgerow.example>",
            "To: Ada <ada@example.com>",
            "Reply-To: owner@example.org",
            "Message-ID: <invite-1@hedgerow.example>",
            "Auto-Submitted: auto-generated",
            "Content-Type: multipart/alternative;",
            "Content-Type: text/plain; charset=utf-8",
            "Content-Type: text/html; charset=utf-8",
        ] {
            assert!(message.contains(line), "{line} is missing in\n{message}");
        }
    }

    #[test]
    fn no_field_can_add_a_header() {
        for evil in [
            "x\r\nBcc: eve@example.net",
            "x\nBcc: eve@example.net",
            "x\rBcc: eve@example.net",
            "x\0\u{85}Bcc: e",
        ] {
            let message = built(&Mail {
                subject: evil.into(),
                to_name: Some(evil.into()),
                text: evil.into(),
                html: evil.into(),
                ..mail()
            });
            assert_eq!(headers(&message.unwrap()), ALL);
            for mail in [
                Mail {
                    to: format!("{evil}@example.com"),
                    ..mail()
                },
                Mail {
                    to: format!("ada@example.com{evil}"),
                    ..mail()
                },
                Mail {
                    reply_to: Some(format!("ada@example.com{evil}")),
                    ..mail()
                },
                Mail {
                    id: evil.into(),
                    ..mail()
                },
            ] {
                let refused = built(&mail).unwrap_err();
                assert!(refused.is_permanent(), "{mail:?}");
            }
        }
    }

    #[test]
    fn no_line_of_a_mail_ends_in_half_a_line_break() {
        let text = "one\r.\r\ntwo\n.\nthree\r\n.\r\nMAIL FROM:<eve@example.net>\r";
        let message = built(&Mail {
            text: text.into(),
            html: text.into(),
            ..mail()
        })
        .unwrap();
        let without_line_ends = message.replace("\r\n", "");
        assert!(!without_line_ends.contains(['\r', '\n']));
    }

    #[test]
    fn other_scripts_are_encoded() {
        let subject = "Einladung zu Bäckerei Müller – ようこそ";
        let message = built(&Mail {
            subject: subject.into(),
            to_name: Some("Zoë".into()),
            text: "ü".repeat(500),
            ..mail()
        });
        let message = message.unwrap();
        assert!(message.is_ascii());
        assert!(message.lines().all(|line| line.len() < 998));
    }
}
