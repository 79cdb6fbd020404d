//! What mail says and how it looks: as plain text and as HTML, from the same words.

use askama::Template;
use chrono::{DateTime, Utc};
use service::mail::EmailMessage;

pub(crate) struct Rendered {
    pub(crate) subject: String,
    pub(crate) text: String,
    pub(crate) html: String,
}

/// The parts that every letter is put together from.
#[derive(Debug, Default)]
struct Parts {
    subject: String,
    greeting: String,
    paragraphs: Vec<String>,
    /// Words of a person, shown as theirs.
    quote: String,
    button: Option<Button>,
    closing: String,
}

#[derive(Debug)]
struct Button {
    label: &'static str,
    link: String,
}

#[derive(Template)]
#[template(path = "email.txt")]
struct Text<'a> {
    email: &'a Parts,
}

#[derive(Template)]
#[template(path = "email.html")]
struct Html<'a> {
    email: &'a Parts,
}

pub(crate) fn render(email: &EmailMessage) -> Rendered {
    let parts = parts(email);
    let text = Text { email: &parts }.render().expect("text has room");
    let html = Html { email: &parts }.render().expect("text has room");
    Rendered {
        subject: parts.subject,
        text,
        html,
    }
}

fn parts(email: &EmailMessage) -> Parts {
    match email {
        EmailMessage::Invite {
            organization,
            inviter,
            first_name,
            message,
            link,
            expires_at,
        } => Parts {
            subject: format!("{inviter} invites you to {organization}"),
            greeting: hello(first_name),
            paragraphs: vec![format!("{inviter} invites you to join {organization} on Hedgerow.")],
            quote: message.clone(),
            button: button("Accept the invite", link),
            closing: format!(
                "The link is good until {}. If you expected no invite, leave it be.",
                day(*expires_at)
            ),
        },
        EmailMessage::Joined { organization, newcomer } => Parts {
            subject: format!("{newcomer} joined {organization}"),
            greeting: hello(""),
            paragraphs: vec![format!("{newcomer} is a member of {organization} now.")],
            closing: "An administrator of the organization can switch these mails off.".to_owned(),
            ..Parts::default()
        },
        EmailMessage::PasswordReset { link, expires_at } => Parts {
            subject: "Set a new password".to_owned(),
            greeting: hello(""),
            paragraphs: vec![
                "Somebody asked for a new password for your account. If it was you, choose one here.".to_owned(),
            ],
            button: button("Choose a new password", link),
            closing: format!(
                "The link is good once, until {}. If it was not you, do nothing: your password stays as it is.",
                moment(*expires_at)
            ),
            ..Parts::default()
        },
        EmailMessage::PasswordChanged { address } => Parts {
            subject: "Your password was changed".to_owned(),
            greeting: hello(""),
            paragraphs: vec![format!("The password of your account was changed{}.", from(address))],
            closing: "If it was not you, ask for a new password at once, and tell an administrator.".to_owned(),
            ..Parts::default()
        },
        EmailMessage::RecoveryCodeUsed {
            organization,
            owner,
            address,
            at,
        } => Parts {
            subject: format!("A recovery code of {organization} was used"),
            greeting: hello(""),
            paragraphs: vec![
                format!(
                    "{owner} signed in to {organization} with a recovery code{}, on {}.",
                    from(address),
                    moment(*at)
                ),
                "Recovery codes get an owner in when single sign-on does not work. Owners are told of each use."
                    .to_owned(),
            ],
            closing: "If this should not have happened, remove that owner and make new recovery codes.".to_owned(),
            ..Parts::default()
        },
        EmailMessage::DomainLost {
            organization,
            domain,
            record,
            value,
            until,
        } => Parts {
            subject: format!("The DNS record of {domain} is missing"),
            greeting: hello(""),
            paragraphs: vec![
                format!("The record that proves that {domain} belongs to {organization} is not there any more."),
                format!(
                    "Put the TXT record {record} back, with the value {value}, before {}.",
                    day(*until)
                ),
            ],
            closing: "After that day the domain counts as unproven: single sign-on, automatic joining and enforcement \
                      stop for it."
                .to_owned(),
            ..Parts::default()
        },
        EmailMessage::ExportPaused {
            organization,
            export,
            error,
            failures,
        } => export_paused(organization, export, error, *failures),
        EmailMessage::AppDisabled {
            organization,
            app,
            error,
        } => app_disabled(organization, app, error),
        EmailMessage::DomainUnverified { organization, domain } => domain_unverified(organization, domain),
    }
}

fn app_disabled(organization: &str, app: &str, error: &str) -> Parts {
    Parts {
        subject: format!("{app} failed too often and was switched off"),
        greeting: hello(""),
        paragraphs: vec![
            format!("The app {app} of {organization} failed again and again, and is no longer run."),
            format!("What went wrong last: {error}"),
        ],
        closing:
            "When the cause is mended, switch its configuration on again. It then gets what comes in from that moment."
                .to_owned(),
        ..Parts::default()
    }
}

fn domain_unverified(organization: &str, domain: &str) -> Parts {
    Parts {
        subject: format!("{domain} is no longer verified"),
        greeting: hello(""),
        paragraphs: vec![format!(
            "{domain} is no longer proven to belong to {organization}. Single sign-on, automatic joining and \
                 enforcement have stopped for it."
        )],
        closing: "To bring it back, add the DNS record again and verify the domain.".to_owned(),
        ..Parts::default()
    }
}

fn export_paused(organization: &str, export: &str, error: &str, failures: i64) -> Parts {
    Parts {
        subject: format!("The export {export} has paused itself"),
        greeting: hello(""),
        paragraphs: vec![
            format!("{failures} runs of the batch export {export} of {organization} failed, one after the other."),
            format!("The last one said: {error}"),
        ],
        closing: "Mend what is wrong and unpause it; with a backfill, what was missed is delivered, too.".to_owned(),
        ..Parts::default()
    }
}

fn hello(name: &str) -> String {
    match name {
        "" => "Hello,".to_owned(),
        name => format!("Hello {name},"),
    }
}

fn from(address: &str) -> String {
    match address {
        "" => String::new(),
        address => format!(" from {address}"),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "it fills an optional part")]
fn button(label: &'static str, link: &str) -> Option<Button> {
    Some(Button {
        label,
        link: link.to_owned(),
    })
}

fn day(time: DateTime<Utc>) -> String {
    time.format("%-d %B %Y").to_string()
}

fn moment(time: DateTime<Utc>) -> String {
    time.format("%-d %B %Y, %H:%M UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invite(message: &str) -> EmailMessage {
        EmailMessage::Invite {
            organization: "Acme <b>".to_owned(),
            inviter: "Olga Owner".to_owned(),
            first_name: "Ann".to_owned(),
            message: message.to_owned(),
            link: "https://hedgerow.example/signup/hgi_x/".to_owned(),
            expires_at: "2026-11-18T09:30:00Z".parse().expect("a time"),
        }
    }

    #[test]
    fn an_invite_says_who_where_and_until_when() {
        let Rendered { subject, text, html } = render(&invite("See you <soon>!"));
        assert_eq!(subject, "Olga Owner invites you to Acme <b>");
        for wanted in [
            "Hello Ann,",
            "See you <soon>!",
            "https://hedgerow.example/signup/hgi_x/",
            "18 November 2026",
        ] {
            assert!(text.contains(wanted), "{wanted} in {text}");
        }
        assert!(html.contains("See you &#60;soon&#62;!"), "{html}");
        assert!(!html.contains("<b>"), "{html}");
        assert!(
            html.contains("href=\"https://hedgerow.example/signup/hgi_x/\""),
            "{html}"
        );
    }
}
