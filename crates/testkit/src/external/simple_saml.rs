//! A second SAML identity provider, of another make: `SimpleSAMLphp`.

use std::fs;

use serde_json::json;

use super::certificates::{self, Pair};
use super::http::encode;
use super::process::{Folder, Process, watched};
use super::saml::{SamlAnswer, Signed};
use super::{Person, Visitor};

#[derive(Debug, Clone)]
pub struct SimpleSamlOptions {
    /// The one service it knows, and where it may be reached.
    pub audience: String,
    pub acs: String,
    /// Who everybody is here: there is no form.
    pub user: Person,
    pub signed: Signed,
    /// The service's certificate, if assertions are to be encrypted for it.
    pub encrypted_for: Option<String>,
}

/// A running provider. It answers services it knows, at addresses it knows, and nobody else.
#[derive(Debug)]
pub struct SimpleSamlIdp {
    // Before the folder: the server ends first.
    _process: Process,
    _folder: Folder,
    base: String,
    pair: Pair,
    audience: String,
}

impl SimpleSamlIdp {
    pub fn start(options: &SimpleSamlOptions) -> Self {
        let folder = Folder::new();
        let pair = certificates::self_signed(folder.path(), "first");
        if let Some(certificate) = &options.encrypted_for {
            fs::write(folder.join("service.pem"), certificate).expect("a certificate");
        }
        let settings = json!({
            "folder": folder.path(),
            "audience": options.audience,
            "acs": options.acs,
            "user": options.user.json(),
            "signed": options.signed.name(),
            "encryption_certificate": options.encrypted_for.as_ref().map(|_| "service.pem"),
        });
        let mut command = watched("php");
        command
            .env("SIMPLESAMLPHP_CONFIG_DIR", super::script("simplesamlphp"))
            .env("TESTKIT_OPTIONS", settings.to_string())
            .args(["-S", "127.0.0.1:0", "-t"])
            .arg(super::folder().join("simplesamlphp/usr/share/simplesamlphp/www"));
        let mut process = Process::start(&mut command, &folder.join("php.log"));
        let base = process.until("the provider is ready", |log| {
            let (_, rest) = log.split_once("Development Server (")?;
            Some(rest.split_once(") started")?.0.to_owned())
        });
        Self {
            _process: process,
            _folder: folder,
            base,
            pair,
            audience: options.audience.clone(),
        }
    }

    pub fn entity_id(&self) -> String {
        self.metadata_url()
    }

    /// Takes requests by redirect.
    pub fn sso_url(&self) -> String {
        format!("{}/saml2/idp/SSOService.php", self.base)
    }

    /// Starts a sign-in without a request.
    pub fn start_url(&self) -> String {
        format!("{}?spentityid={}", self.sso_url(), encode(&self.audience))
    }

    pub fn metadata_url(&self) -> String {
        format!("{}/saml2/idp/metadata.php", self.base)
    }

    pub fn certificate_pem(&self) -> String {
        self.pair.pem()
    }

    /// Follows [`Self::sso_url`] with a request, or [`Self::start_url`].
    pub fn answer(&self, url: &str) -> SamlAnswer {
        SamlAnswer::read(&Visitor::default().get(url))
    }
}
