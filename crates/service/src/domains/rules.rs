//! What settings are accepted, and which of them may take effect.

use auth::saml::Certificates;
use url::{Host, Url};

use super::{Domain, DomainPatch};
use crate::Instance;
use crate::clock::Time;
use crate::error::{Error, Result};
use crate::sso::Sso;
use crate::text::at_most;
use crate::transaction::WriteTx;

/// As the interface says, for whoever comes another way.
const MAX_LINE: usize = 512;
const MAX_CERTIFICATES: usize = 32_768;
const MAX_SECRET: usize = 2048;

impl Domain {
    /// Applies what was sent. Whether it may take effect is for [`Domain::may_take_effect`] to say.
    pub(super) fn change(&mut self, patch: &DomainPatch, db: &WriteTx, instance: &Instance) -> Result<()> {
        let had_secret = self.oidc_client_secret.is_some();
        let issuer_before = self.oidc_issuer.clone();
        self.jit_provisioning_enabled = patch.jit_provisioning_enabled.unwrap_or(self.jit_provisioning_enabled);
        self.saml_idp_initiated = patch.saml_idp_initiated.unwrap_or(self.saml_idp_initiated);
        take(&mut self.sso_enforcement, patch.sso_enforcement.as_deref(), choice)?;
        take(&mut self.saml_entity_id, patch.saml_entity_id.as_deref(), |text| {
            one_line("saml_entity_id", text)
        })?;
        take(&mut self.saml_acs_url, patch.saml_acs_url.as_deref(), |text| {
            address("saml_acs_url", text)
        })?;
        take(&mut self.saml_x509_cert, patch.saml_x509_cert.as_deref(), certificates)?;
        take(&mut self.oidc_issuer, patch.oidc_issuer.as_deref(), |text| {
            address("oidc_issuer", text)
        })?;
        take(&mut self.oidc_client_id, patch.oidc_client_id.as_deref(), |text| {
            one_line("oidc_client_id", text)
        })?;
        match patch.oidc_client_secret.as_deref() {
            Some("") => self.oidc_client_secret = None,
            Some(secret) => {
                at_most("oidc_client_secret", Some(secret), MAX_SECRET)?;
                let encrypted = db.encrypt(&instance.encryptor, &self.secret_place(), secret.as_bytes());
                self.oidc_client_secret = Some(encrypted);
            }
            // Whoever may change where the secret is sent could otherwise read it there.
            None if had_secret && self.oidc_issuer != issuer_before => {
                let detail = "Enter the client secret again. The issuer has changed.";
                return Err(Error::invalid("oidc_client_secret", "required", detail));
            }
            None => {}
        }
        Ok(())
    }

    /// Whether the way in that is enforced is open.
    pub(super) fn may_take_effect(&self, instance: &Instance, now: Time) -> Result<()> {
        let Some(sso) = self.enforced() else { return Ok(()) };
        self.is_ready(sso, instance, now)
            .map_err(|reason| Error::invalid("sso_enforcement", "sso_not_ready", reason))
    }

    /// What is missing before people can sign in this way, as a sentence.
    pub fn is_ready(&self, sso: Sso, instance: &Instance, now: Time) -> Result<(), String> {
        match sso {
            Sso::Saml if !self.has_saml() => {
                Err("SAML requires saml_entity_id, saml_acs_url and saml_x509_cert.".to_owned())
            }
            Sso::Saml => match self.identity_provider() {
                Some(idp) if idp.certificates.any_valid_at(now) => Ok(()),
                Some(_) => Err(
                    "No certificate in saml_x509_cert is currently valid. Get the current one from the identity \
                                provider"
                        .to_owned(),
                ),
                None => Err("Invalid certificate in saml_x509_cert.".to_owned()),
            },
            Sso::Oidc if !self.has_oidc() => {
                Err("OIDC requires oidc_issuer, oidc_client_id and oidc_client_secret.".to_owned())
            }
            Sso::Oidc => Ok(()),
            social if instance.providers.contains(&social) => Ok(()),
            social => Err(format!(
                "Sign-in with {social} is not configured on this server. The operator has to set its client ID and secret."
            )),
        }
    }
}

fn take(field: &mut String, given: Option<&str>, rule: impl FnOnce(&str) -> Result<String>) -> Result<()> {
    if let Some(text) = given {
        *field = match text.trim() {
            "" => String::new(),
            text => rule(text)?,
        };
    }
    Ok(())
}

fn choice(text: &str) -> Result<String> {
    text.parse::<Sso>().map(|sso| sso.to_string()).map_err(|()| {
        let detail = "Must be saml, oidc, google-oauth2, github, gitlab or empty.";
        Error::invalid("sso_enforcement", "invalid_choice", detail)
    })
}

fn one_line(field: &'static str, text: &str) -> Result<String> {
    at_most(field, Some(text), MAX_LINE)?;
    if text.chars().any(char::is_control) {
        return Err(Error::invalid(
            field,
            "invalid_input",
            "Must be a single line without control characters.",
        ));
    }
    Ok(text.to_owned())
}

/// Secrets and sign-ins travel encrypted; on one machine they do not travel.
fn address(field: &'static str, text: &str) -> Result<String> {
    let refuse = |detail: &str| Err(Error::invalid(field, "invalid_input", detail));
    // Parsing would overlook line breaks, and the text is kept as it is.
    one_line(field, text)?;
    let Ok(url) = Url::parse(text) else {
        return refuse("Enter a valid URL, such as https://login.example.com/sso.");
    };
    if !url.username().is_empty() || url.password().is_some() {
        return refuse("The URL can't contain a username or password.");
    }
    let is_loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    match url.scheme() {
        "https" => Ok(text.to_owned()),
        "http" if is_loopback => Ok(text.to_owned()),
        _ => refuse("Use https (http is allowed only for localhost)."),
    }
}

fn certificates(text: &str) -> Result<String> {
    at_most("saml_x509_cert", Some(text), MAX_CERTIFICATES)?;
    match Certificates::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(Error::invalid("saml_x509_cert", "invalid_input", error.to_string())),
    }
}
