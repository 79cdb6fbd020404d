//! How the SMTP server is reached, from a URL.

use std::fmt;

use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, TlsParameters};
use percent_encoding::percent_decode_str;
use url::{Host, Url};

use crate::policy::is_loopback;
use crate::tls::Roots;

/// What is wrong with the settings for mail. Never quotes the URL: it may hold the password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadMailSettings {
    #[error("HEDGEROW_SMTP_URL must look like smtps://user:password@host or smtp://host:port.")]
    Url,
    #[error("HEDGEROW_SMTP_URL may end in ?starttls=required or ?starttls=never, and nothing else.")]
    Option,
    #[error("HEDGEROW_SMTP_URL would send the password unencrypted. Use smtps:// or remove ?starttls=never.")]
    PasswordInClear,
    #[error("The user name or password in HEDGEROW_SMTP_URL is invalid. Percent-encode special characters.")]
    Credentials,
    #[error("The host in HEDGEROW_SMTP_URL, or an added certificate, cannot be used for TLS.")]
    Tls,
    #[error("HEDGEROW_MAIL_FROM must look like hedgerow@example.com or Hedgerow <hedgerow@example.com>.")]
    Sender,
}

/// Where mail is handed over, and as whom.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) security: Security,
    pub(super) credentials: Option<Credentials>,
}

/// Never "encrypted if the other side offers it": whoever sits in between removes the offer.
#[derive(Clone)]
pub(super) enum Security {
    Tls(TlsParameters),
    StartTls(TlsParameters),
    Plain,
}

impl Server {
    pub(super) fn parse(url: &str, roots: &Roots) -> Result<Self, BadMailSettings> {
        let url = Url::parse(url).map_err(|_| BadMailSettings::Url)?;
        if !matches!(url.path(), "" | "/") || url.fragment().is_some() {
            return Err(BadMailSettings::Url);
        }
        let host = Host::parse(url.host_str().unwrap_or_default()).map_err(|_| BadMailSettings::Url)?;
        let credentials = credentials(&url)?;
        let security = security(&url, &host, roots)?;
        if matches!(security, Security::Plain) && credentials.is_some() && !is_loopback(&host) {
            return Err(BadMailSettings::PasswordInClear);
        }
        let usual_port = if url.scheme() == "smtps" { 465 } else { 25 };
        Ok(Self {
            host: without_brackets(&host),
            port: url.port().unwrap_or(usual_port),
            security,
            credentials,
        })
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let security = match self.security {
            Security::Tls(_) => "tls",
            Security::StartTls(_) => "starttls",
            Security::Plain => "plain",
        };
        f.debug_struct("Server")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("security", &security)
            .field("has_credentials", &self.credentials.is_some())
            .finish()
    }
}

fn security(url: &Url, host: &Host, roots: &Roots) -> Result<Security, BadMailSettings> {
    match (url.scheme(), url.query()) {
        ("smtps", None) => Ok(Security::Tls(tls(host, roots)?)),
        ("smtp", None) if is_loopback(host) => Ok(Security::Plain),
        ("smtp", None | Some("starttls=required")) => Ok(Security::StartTls(tls(host, roots)?)),
        ("smtp", Some("starttls=never")) => Ok(Security::Plain),
        ("smtp" | "smtps", Some(_)) => Err(BadMailSettings::Option),
        _ => Err(BadMailSettings::Url),
    }
}

fn tls(host: &Host, roots: &Roots) -> Result<TlsParameters, BadMailSettings> {
    let mut builder = TlsParameters::builder(without_brackets(host)).certificate_store(CertificateStore::WebpkiRoots);
    for certificate in roots.added() {
        let certificate = Certificate::from_der(certificate.to_vec()).map_err(|_| BadMailSettings::Tls)?;
        builder = builder.add_root_certificate(certificate);
    }
    builder.build_rustls().map_err(|_| BadMailSettings::Tls)
}

fn credentials(url: &Url) -> Result<Option<Credentials>, BadMailSettings> {
    if url.username().is_empty() && url.password().is_none() {
        return Ok(None);
    }
    let user = decoded(url.username())?;
    let password = decoded(url.password().unwrap_or_default())?;
    if user.is_empty() || password.is_empty() {
        return Err(BadMailSettings::Credentials);
    }
    Ok(Some(Credentials::new(user, password)))
}

fn decoded(text: &str) -> Result<String, BadMailSettings> {
    let text = percent_decode_str(text)
        .decode_utf8()
        .map_err(|_| BadMailSettings::Credentials)?;
    // NUL separates the parts of AUTH PLAIN.
    if text.contains('\0') {
        return Err(BadMailSettings::Credentials);
    }
    Ok(text.into_owned())
}

fn without_brackets(host: &Host) -> String {
    match host {
        Host::Ipv6(address) => address.to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<String, BadMailSettings> {
        Server::parse(url, &Roots::public()).map(|server| format!("{server:?}"))
    }

    #[test]
    fn the_url_decides_how_the_connection_is_protected() {
        for (url, host, port, security) in [
            ("smtps://mail.example", "mail.example", 465, "tls"),
            ("smtps://mail.example:8465/", "mail.example", 8465, "tls"),
            ("smtp://mail.example", "mail.example", 25, "starttls"),
            (
                "smtp://mail.example:587?starttls=required",
                "mail.example",
                587,
                "starttls",
            ),
            ("smtp://mail.example?starttls=never", "mail.example", 25, "plain"),
            ("smtp://user:password@mail.example", "mail.example", 25, "starttls"),
            ("smtp://localhost:2525", "localhost", 2525, "plain"),
            ("smtp://127.0.0.1:2525", "127.0.0.1", 2525, "plain"),
            ("smtp://[::1]:2525", "::1", 2525, "plain"),
            ("smtp://user:password@localhost", "localhost", 25, "plain"),
            ("smtp://localhost?starttls=required", "localhost", 25, "starttls"),
        ] {
            let server = Server::parse(url, &Roots::public()).unwrap();
            assert_eq!((server.host.as_str(), server.port), (host, port), "{url}");
            assert!(
                format!("{server:?}").contains(&format!("security: {security:?}")),
                "{url}: {server:?}"
            );
        }
    }

    #[test]
    fn settings_that_cannot_be_meant_are_refused() {
        for (url, problem) in [
            ("", BadMailSettings::Url),
            ("mail.example", BadMailSettings::Url),
            ("http://mail.example", BadMailSettings::Url),
            ("smtp://", BadMailSettings::Url),
            ("smtp://mail.example/inbox", BadMailSettings::Url),
            ("smtp://mail.example?starttls=maybe", BadMailSettings::Option),
            ("smtps://mail.example?starttls=never", BadMailSettings::Option),
            (
                "smtp://user:password@mail.example?starttls=never",
                BadMailSettings::PasswordInClear,
            ),
            ("smtps://user@mail.example", BadMailSettings::Credentials),
            ("smtps://user:%00@mail.example", BadMailSettings::Credentials),
            ("smtps://user:%ff@mail.example", BadMailSettings::Credentials),
        ] {
            assert_eq!(parse(url), Err(problem), "{url}");
        }
    }

    #[test]
    fn special_characters_in_the_password_are_decoded_and_never_shown() {
        let server = Server::parse(
            "smtps://me%40example.com:p%40ss%2Fw%3Ard@mail.example",
            &Roots::public(),
        )
        .unwrap();
        let expected = Credentials::new("me@example.com".into(), "p@ss/w:rd".into());
        assert_eq!(server.credentials, Some(expected));
        let shown = format!("{server:?} {:?}", server.credentials);
        assert!(!shown.contains("ss/w") && !shown.contains("p%40"), "{shown}");
    }
}
