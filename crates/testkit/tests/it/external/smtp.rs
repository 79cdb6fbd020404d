//! Mails sent by Python's own client.

use testkit::external::{Smtp, SmtpOptions, Tls};

use super::python;

const SEND: &str = r#"
import smtplib, ssl, sys
from email.message import EmailMessage
from urllib.parse import unquote, urlsplit
url, starttls, authority, to, subject = sys.argv[1:]
server = urlsplit(url)
context = ssl.create_default_context(cadata=authority) if authority else None
if server.scheme == "smtps":
    client = smtplib.SMTP_SSL(server.hostname, server.port, context=context, timeout=10)
else:
    client = smtplib.SMTP(server.hostname, server.port, timeout=10)
if starttls:
    client.starttls(context=context)
if server.username:
    client.login(unquote(server.username), unquote(server.password))
mail = EmailMessage()
mail["From"], mail["To"], mail["Subject"] = "Hedgerow <hedgerow@example.test>", to, subject
mail["Reply-To"] = "team@example.test"
mail.set_content("Grüße\n")
mail.add_alternative("<p>Grüße</p>\n", subtype="html")
client.send_message(mail)
client.quit()
"#;

/// Sends a mail; if it is not taken, returns why.
fn send(smtp: &Smtp, url: &str, starttls: bool, authority: &str, to: &str) -> Result<(), String> {
    assert!(url.ends_with(&smtp.port().to_string()));
    let starttls = if starttls { "yes" } else { "" };
    let output = python(SEND, &[url, starttls, authority, to, "Willkommen, Zoë"]);
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

fn send_plainly(smtp: &Smtp, to: &str) -> Result<(), String> {
    send(smtp, &smtp.url(), false, "", to)
}

fn with(tls: Option<Tls>) -> SmtpOptions {
    let auth = Some(("us@er".to_owned(), "pass/word?".to_owned()));
    SmtpOptions { tls, auth, port: None }
}

#[tokio::test]
async fn a_mail_arrives_as_it_was_sent() {
    let smtp = Smtp::start(SmtpOptions::default());
    send_plainly(&smtp, "zoe@example.test").unwrap();
    let mail = smtp.wait_for(|mail| mail.to == ["zoe@example.test"]).await;
    assert_eq!(mail.from, "hedgerow@example.test");
    assert_eq!(mail.subject, "Willkommen, Zoë");
    assert_eq!(mail.reply_to.as_deref(), Some("team@example.test"));
    assert_eq!(mail.text.as_deref(), Some("Grüße\n"));
    assert_eq!(mail.html.as_deref(), Some("<p>Grüße</p>\n"));
    assert_eq!(mail.header("from"), Some("Hedgerow <hedgerow@example.test>"));
    assert!(!mail.is_encrypted && mail.login.is_none(), "{mail:?}");
    assert_eq!(smtp.mails().await.len(), 1);
}

#[tokio::test]
async fn encryption_and_password_are_asked_for() {
    for tls in [Tls::StartTls, Tls::Implicit] {
        let smtp = Smtp::start(with(Some(tls)));
        let (url, authority) = (smtp.url(), smtp.ca_pem());
        let starttls = tls == Tls::StartTls;
        send(&smtp, &url, starttls, &authority, "zoe@example.test").unwrap();
        let mail = smtp.wait_for(|_| true).await;
        assert!(mail.is_encrypted, "{mail:?}");
        assert_eq!(mail.login.as_deref(), Some("us@er"));

        let stranger = Smtp::start(with(Some(tls))).ca_pem();
        let refused = send(&smtp, &url, starttls, &stranger, "zoe@example.test").unwrap_err();
        assert!(refused.contains("CERTIFICATE_VERIFY_FAILED"), "{refused}");
        let refused = send(
            &smtp,
            &url.replace("pass", "wrong"),
            starttls,
            &authority,
            "zoe@example.test",
        )
        .unwrap_err();
        assert!(refused.contains("535"), "{refused}");
        assert_eq!(smtp.mails().await.len(), 1);
    }
}

#[tokio::test]
async fn nothing_is_taken_in_the_clear_where_starttls_is_asked_for() {
    let smtp = Smtp::start(SmtpOptions {
        tls: Some(Tls::StartTls),
        ..SmtpOptions::default()
    });
    let refused = send_plainly(&smtp, "zoe@example.test").unwrap_err();
    assert!(refused.contains("530"), "{refused}");
}

#[tokio::test]
async fn a_password_is_asked_for_without_encryption_too() {
    let smtp = Smtp::start(with(None));
    send_plainly(&smtp, "zoe@example.test").unwrap();
    let address = format!("smtp://127.0.0.1:{}", smtp.port());
    let refused = send(&smtp, &address, false, "", "zoe@example.test").unwrap_err();
    assert!(refused.contains("530"), "{refused}");
}

#[tokio::test]
async fn recipients_are_refused_and_mails_put_off_when_told_so() {
    let smtp = Smtp::start(SmtpOptions::default());
    smtp.refuse("nobody@example.test");
    smtp.put_off(2);
    for _ in 0..2 {
        let busy = send_plainly(&smtp, "zoe@example.test").unwrap_err();
        assert!(busy.contains("451"), "{busy}");
    }
    let refused = send_plainly(&smtp, "nobody@example.test").unwrap_err();
    assert!(refused.contains("550"), "{refused}");
    send_plainly(&smtp, "zoe@example.test").unwrap();
    assert_eq!(smtp.mails().await.len(), 1);
}

#[tokio::test]
async fn a_mail_server_comes_back_where_it_was() {
    let mut smtp = Smtp::start(SmtpOptions::default());
    let url = smtp.url();
    send_plainly(&smtp, "first@example.test").unwrap();
    smtp.stop();
    let refused = send_plainly(&smtp, "second@example.test").unwrap_err();
    assert!(refused.contains("ConnectionRefusedError"), "{refused}");
    smtp.start_again();
    assert_eq!(smtp.url(), url);
    send_plainly(&smtp, "third@example.test").unwrap();
    let to: Vec<_> = smtp.mails().await.into_iter().flat_map(|mail| mail.to).collect();
    assert_eq!(to, ["first@example.test", "third@example.test"]);
}
