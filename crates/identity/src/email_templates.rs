//! What mail says and how it looks: as plain text and as HTML, from the same words.

use askama::Template;
use chrono::{DateTime, Utc};
use service::mail::EmailMessage;

pub(crate) struct Rendered {
    pub(crate) subject: String,
    pub(crate) text: String,
    pub(crate) html: String,
}

/// The parts that every email is put together from.
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
            subject: format!("{inviter} invited you to {organization}"),
            greeting: hello(first_name),
            paragraphs: vec![format!("{inviter} invited you to join {organization} on Hedgerow.")],
            quote: message.clone(),
            button: button("Accept invite", link),
            closing: format!(
                "This link expires on {}. If you weren't expecting this invite, you can ignore this email.",
                day(*expires_at)
            ),
        },
        EmailMessage::Joined {
            organization,
            new_member,
        } => Parts {
            subject: format!("{new_member} joined {organization}"),
            greeting: hello(""),
            paragraphs: vec![format!("{new_member} is now a member of {organization}.")],
            closing: "An administrator of the organization can turn these emails off.".to_owned(),
            ..Parts::default()
        },
        EmailMessage::PasswordReset { link, expires_at } => Parts {
            subject: "Reset your password".to_owned(),
            greeting: hello(""),
            paragraphs: vec![
                "We received a request to reset your password. Use this link to choose a new one.".to_owned(),
            ],
            button: button("Reset password", link),
            closing: format!(
                "This link works once and expires on {}. If you didn't request it, you can ignore this email.",
                moment(*expires_at)
            ),
            ..Parts::default()
        },
        EmailMessage::PasswordChanged { address } => Parts {
            subject: "Your password was changed".to_owned(),
            greeting: hello(""),
            paragraphs: vec![format!("The password for your account was changed{}.", from(address))],
            closing: "If this wasn't you, reset your password immediately and tell an administrator.".to_owned(),
            ..Parts::default()
        },
        EmailMessage::RecoveryCodeUsed {
            organization,
            owner,
            address,
            at,
        } => recovery_code_used(organization, owner, address, *at),
        EmailMessage::DomainLost {
            organization,
            domain,
            record,
            value,
            until,
        } => Parts {
            subject: format!("The DNS record for {domain} is missing"),
            greeting: hello(""),
            paragraphs: vec![
                format!("The DNS record that verifies {domain} for {organization} was not found."),
                format!(
                    "Add the TXT record {record} with the value {value} again before {}.",
                    day(*until)
                ),
            ],
            closing: "After that, the domain is no longer verified: SSO, automatic provisioning and SSO enforcement \
                      stop working for it."
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

fn recovery_code_used(organization: &str, owner: &str, address: &str, at: DateTime<Utc>) -> Parts {
    Parts {
        subject: format!("A recovery code for {organization} was used"),
        greeting: hello(""),
        paragraphs: vec![
            format!(
                "{owner} signed in to {organization} with a recovery code{}, on {}.",
                from(address),
                moment(at)
            ),
            "Recovery codes let an owner sign in when SSO isn't working. All owners are notified of each use."
                .to_owned(),
        ],
        closing: "If you don't recognize this, remove that owner and create new recovery codes.".to_owned(),
        ..Parts::default()
    }
}

fn app_disabled(organization: &str, app: &str, error: &str) -> Parts {
    Parts {
        subject: format!("{app} was disabled after repeated failures"),
        greeting: hello(""),
        paragraphs: vec![
            format!("The app {app} in {organization} failed repeatedly and no longer runs."),
            format!("Last error: {error}"),
        ],
        closing: "Fix the issue and enable its configuration again. It then receives events from that point on."
            .to_owned(),
        ..Parts::default()
    }
}

fn domain_unverified(organization: &str, domain: &str) -> Parts {
    Parts {
        subject: format!("{domain} is no longer verified"),
        greeting: hello(""),
        paragraphs: vec![format!(
            "{domain} is no longer verified for {organization}. SSO, automatic provisioning and SSO enforcement \
                 have stopped working for it."
        )],
        closing: "To restore it, add the DNS record again and verify the domain.".to_owned(),
        ..Parts::default()
    }
}

fn export_paused(organization: &str, export: &str, error: &str, failures: i64) -> Parts {
    Parts {
        subject: format!("The export {export} was paused after repeated failures"),
        greeting: hello(""),
        paragraphs: vec![
            format!("{failures} runs of the batch export {export} in {organization} failed in a row."),
            format!("Last error: {error}"),
        ],
        closing: "Fix the issue and resume the export. Resume with a backfill to deliver what was missed, too."
            .to_owned(),
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
        assert_eq!(subject, "Olga Owner invited you to Acme <b>");
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
