//! People who get in, in a real browser, with a real mail server, name server and identity providers.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use testkit::databases::Backend;
use testkit::external::{Dns, OidcProvider, SamlIdp, SamlOptions, Smtp, SmtpOptions, browser};
use tokio::runtime::Runtime;

use crate::client::Request;
use crate::home::{Home, KEY, OWNER, Server};

const DOMAIN: &str = "acme.test";
const PASSWORD: &str = "the password of the owner";

/// A server with everything around it that people meet on their way in.
struct Journey {
    server: Server,
    smtp: Smtp,
    dns: Dns,
    runtime: Runtime,
    _home: Home,
}

impl Journey {
    fn new(backend: Backend) -> Self {
        let home = Home::new(backend);
        let (smtp, dns) = (Smtp::start(SmtpOptions::default()), Dns::start(&[DOMAIN]));
        let mut command: Command = home.keyed();
        command
            .env("HEDGEROW_BOOTSTRAP_PASSWORD", PASSWORD)
            .env("HEDGEROW_SMTP_URL", smtp.url())
            .env("HEDGEROW_DNS", dns.address().to_string())
            .env("HEDGEROW_ALLOW_PRIVATE_NETWORKS", "127.0.0.0/8");
        let server = home.spawn(&mut command).ready();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Self {
            server,
            smtp,
            dns,
            runtime: runtime.expect("a runtime"),
            _home: home,
        }
    }

    fn site(&self) -> String {
        format!("http://{}", self.server.address)
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let reply = self.server.post(KEY, &at(path), body);
        assert!(reply.status < 300, "{path}: {reply:?}");
        reply.body
    }

    fn patch(&self, path: &str, body: &Value) -> Value {
        let reply = self.server.patch(KEY, &at(path), body);
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        reply.body
    }

    /// Lets a visitor go through a script.
    fn visit(&self, script: &str, variables: &[(&str, &str)]) {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/journeys");
        let site = self.site();
        let variables: Vec<(&str, &str)> = [("SITE", site.as_str())]
            .into_iter()
            .chain(variables.iter().copied())
            .collect();
        self.runtime.block_on(browser::run(&folder.join(script), &variables));
    }

    /// A domain that is proven by a record that is put while the server runs.
    fn proven_domain(&self) -> Value {
        let added = self.post("domains/", &json!({ "domain": DOMAIN }));
        let verify = format!("domains/{}/verify/", text(&added, "id"));
        let unproven = self.post(&verify, &json!({}));
        assert_eq!(
            (&unproven["is_verified"], &unproven["verification_error"]["code"]),
            (&json!(false), &json!("dns_no_record"))
        );
        self.dns.put_txt(
            text(&added, "verification_record"),
            &[text(&added, "verification_challenge")],
        );
        let proven = self.post(&verify, &json!({}));
        assert_eq!(proven["is_verified"], true, "{proven}");
        proven
    }

    fn member(&self, email: &str) -> Value {
        let found = self.server.get(KEY, &at(&format!("members/?email={email}")));
        assert_eq!(found.body["count"], 1, "{email}: {found:?}");
        found.body["results"][0].clone()
    }

    /// Enforces a way in, and makes sure that a password is no longer one.
    fn enforce(&self, domain: &Value, sso: &str, email: &str) {
        let path = format!("domains/{}/", text(domain, "id"));
        self.patch(&path, &json!({ "sso_enforcement": sso }));
        let refused = self.server.sign_in(email, "correct horse battery");
        assert_eq!(refused.code(), (400, "sso_enforced"));
        let reset = Request::new("POST", "/api/reset/").json(&json!({ "email": email }));
        assert_eq!(self.server.send(reset).code(), (400, "sso_enforced"));
        // The owner is elsewhere and gets in as before.
        assert_eq!(self.server.sign_in(OWNER, PASSWORD).status, 200);
    }
}

fn at(rest: &str) -> String {
    format!("/api/organizations/@current/{rest}")
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}"))
}

#[test]
fn an_invited_person_accepts_and_signs_in_with_an_authenticator() {
    let place = Journey::new(Backend::Sqlite);
    let email = "ann@elsewhere.test";
    let invited = place.post(
        "invites/",
        &json!({ "target_email": email, "first_name": "Ann", "message": "Come in!" }),
    );
    let mail = place.runtime.block_on(place.smtp.wait_for(|mail| mail.to == [email]));
    let words = mail.text.as_deref().unwrap_or_default();
    assert!(words.contains("Come in!") && mail.html.is_some(), "{mail:?}");
    assert_eq!(mail.reply_to.as_deref(), Some(OWNER));
    let link = words.lines().find(|line| line.contains("/signup/")).expect("a link");
    assert!(link.starts_with(&format!("{}/signup/", place.site())), "{link}");
    assert_ne!(link, text(&invited, "invite_link"), "only the mail has this one");
    place.visit("accept_invite.mjs", &[("LINK", link), ("EMAIL", email)]);
    let member = place.member(email);
    assert_eq!((&member["level"], &member["is_2fa_enabled"]), (&json!(1), &json!(true)));
}

#[test]
fn a_company_signs_in_with_saml() {
    let place = Journey::new(Backend::Sqlite);
    let domain = place.proven_domain();
    let idp = SamlIdp::start(SamlOptions {
        audience: Some(text(&domain, "saml_sp_entity_id").to_owned()),
        acs: Some(text(&domain, "saml_sp_acs_url").to_owned()),
        ..SamlOptions::default()
    });
    let path = format!("domains/{}/", text(&domain, "id"));
    let connected = place.post(
        &format!("{path}import_metadata/"),
        &json!({ "url": idp.metadata_url() }),
    );
    assert_eq!(connected["has_saml"], true, "{connected}");
    place.patch(&path, &json!({ "jit_provisioning_enabled": true }));
    let zoe = "zoe@acme.test";
    place.visit(
        "single_sign_on.mjs",
        &[("EMAIL", zoe), ("WAY", "SAML"), ("IS_ENFORCED", "no")],
    );
    let member = place.member(zoe);
    assert_eq!(
        (&member["level"], &member["has_social_auth"]),
        (&json!(1), &json!(true))
    );
    place.enforce(&domain, "saml", zoe);
    place.visit(
        "single_sign_on.mjs",
        &[("EMAIL", zoe), ("WAY", "SAML"), ("IS_ENFORCED", "yes")],
    );
    let healthy = place.post(&format!("{path}test/"), &json!({}));
    assert_eq!(healthy["is_ok"], true, "{healthy}");
}

#[test]
fn a_company_signs_in_with_openid_connect() {
    let place = Journey::new(Backend::Postgres);
    let domain = place.proven_domain();
    let provider = OidcProvider::start(text(&domain, "oidc_redirect_url"));
    let path = format!("domains/{}/", text(&domain, "id"));
    let settings = json!({
        "oidc_issuer": provider.issuer(), "oidc_client_id": provider.client_id(),
        "oidc_client_secret": provider.client_secret(), "jit_provisioning_enabled": true
    });
    let connected = place.patch(&path, &settings);
    assert_eq!(
        (&connected["has_oidc"], connected.get("oidc_client_secret")),
        (&json!(true), None)
    );
    let zoe = "zoe@acme.test";
    let way = "OpenID Connect";
    place.visit(
        "single_sign_on.mjs",
        &[("EMAIL", zoe), ("WAY", way), ("IS_ENFORCED", "no")],
    );
    assert_eq!(place.member(zoe)["level"], 1);
    place.enforce(&domain, "oidc", zoe);
    place.visit(
        "single_sign_on.mjs",
        &[("EMAIL", zoe), ("WAY", way), ("IS_ENFORCED", "yes")],
    );
}
