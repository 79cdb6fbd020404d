//! A SAML identity provider.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::certificates::{self, Pair};
use super::process::{Folder, Process};
use super::{Page, Person, Visitor};

/// Which element the provider signs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Signed {
    #[default]
    Assertion,
    Response,
    Both,
}

impl Signed {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Assertion => "assertion",
            Self::Response => "response",
            Self::Both => "both",
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct SamlOptions {
    /// The provider's own name; by default the address of its metadata.
    pub issuer: Option<String>,
    /// By default the issuer of the request. Without a request it must be given.
    pub audience: Option<String>,
    /// Where answers go if the request does not say, or if there is none.
    pub acs: Option<String>,
    /// Signs in immediately, without a form.
    pub user: Option<Person>,
    pub signed: Signed,
    /// How long an assertion holds; an hour by default.
    pub lifetime: Option<Duration>,
}

/// What the provider has the browser post.
#[derive(Debug, Clone)]
pub struct SamlAnswer {
    pub acs: String,
    /// In base 64, as it is sent.
    pub response: String,
    pub relay_state: Option<String>,
}

impl SamlAnswer {
    /// Reads a page with a form that sends itself.
    pub(super) fn read(page: &Page) -> Self {
        assert_eq!(page.status, 200, "{}", page.body);
        let mut fields = page.fields();
        Self {
            acs: page.action().expect("a form that goes somewhere"),
            response: fields.remove("SAMLResponse").expect("an answer in the form"),
            relay_state: fields.remove("RelayState"),
        }
    }
}

/// A running provider. It signs with RSA and SHA-256, with keys made when it starts.
#[derive(Debug)]
pub struct SamlIdp {
    // Before the folder: the server ends first.
    _process: Process,
    folder: Folder,
    base: String,
    issuer: Option<String>,
    first: Pair,
    second: Pair,
}

impl SamlIdp {
    pub fn start(options: SamlOptions) -> Self {
        let folder = Folder::new();
        let first = certificates::self_signed(folder.path(), "first");
        let second = certificates::self_signed(folder.path(), "second");
        let files = |pair: &Pair| json!({ "certificate": pair.certificate, "key": pair.key });
        let settings = json!({
            "issuer": options.issuer,
            "audience": options.audience,
            "acs": options.acs,
            "user": options.user.as_ref().map(Person::json),
            "signed": options.signed.name(),
            "lifetime_seconds": options.lifetime.map(|lifetime| lifetime.as_secs()),
            "first": files(&first),
            "second": files(&second),
            "rolled_over": folder.join("rolled_over"),
        });
        let (process, base) = start_node("saml_idp.mjs", &settings, &folder);
        Self {
            _process: process,
            folder,
            base,
            issuer: options.issuer,
            first,
            second,
        }
    }

    pub fn entity_id(&self) -> String {
        self.issuer.clone().unwrap_or_else(|| self.metadata_url())
    }

    /// Takes requests by redirect. Called without one, it starts a sign-in on its own.
    pub fn sso_url(&self) -> String {
        format!("{}/sso", self.base)
    }

    /// Shows the certificate that is in use.
    pub fn metadata_url(&self) -> String {
        format!("{}/metadata", self.base)
    }

    pub fn certificate_pem(&self) -> String {
        self.first.pem()
    }

    /// The one used after [`Self::roll_over`].
    pub fn second_certificate_pem(&self) -> String {
        self.second.pem()
    }

    /// From now on signs with the second key.
    pub fn roll_over(&self) {
        fs::write(self.folder.join("rolled_over"), "").expect("the provider is told");
    }

    /// Fills in the form at `url`, which is [`Self::sso_url`] with or without a request, as a browser would.
    pub fn answer(&self, url: &str, person: &Person) -> SamlAnswer {
        let mut visitor = Visitor::default();
        let form = visitor.get(url);
        assert_eq!(form.status, 200, "{}", form.body);
        let hidden = form.fields();
        let typed = person.fields();
        let kept = hidden
            .iter()
            .filter(|field| typed.iter().all(|(name, _)| name != field.0));
        let mut fields: Vec<(&str, &str)> = kept.map(|(name, value)| (name.as_str(), value.as_str())).collect();
        fields.extend(typed);
        SamlAnswer::read(&visitor.post(&self.sso_url(), &fields))
    }
}

/// Starts one of our servers on node and returns its base address.
pub(super) fn start_node(script: &str, options: &Value, folder: &Folder) -> (Process, String) {
    let mut command = Command::new("node");
    command
        .env("TESTKIT_COMPONENTS", super::folder())
        .env("NODE_NO_WARNINGS", "1")
        .arg(super::script(script))
        .arg(options.to_string());
    let mut process = Process::start(&mut command, &folder.join("node.log"));
    let base = process.ready()["base"].as_str().map(str::to_owned);
    (process, base.expect("the server says where it is"))
}
