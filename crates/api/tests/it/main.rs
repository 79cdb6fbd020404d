//! The API from outside, in process: every test on SQLite and on PostgreSQL.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod access;
mod account;
mod activity;
mod address_policy;
mod addresses;
mod answers;
mod batch_exports;
mod bodies;
mod capture;
mod concurrency;
mod configs;
mod domains;
mod export_limits;
mod export_secrets;
mod guessing;
mod invites;
mod keys;
mod late_bodies;
mod late_changes;
mod limits;
mod lock_order;
mod mail_queue;
mod members;
mod messages;
mod openapi_spec;
mod operators;
mod organizations;
mod outages;
mod pipeline;
mod pipeline_limits;
mod pipeline_pins;
mod pipeline_reading;
mod pipeline_secrets;
mod pipeline_source;
mod pipeline_targets;
mod pipeline_totals;
mod proof;
mod public_answers;
mod read_only_fields;
mod reauthentication;
mod requests;
mod second_factor;
mod sign_in;
mod signup;
mod sso_owners;
mod takeover;
mod teams;

use serde_json::{Value, json};
use service::access::Actor;
use service::domains::DnsLookup;
use testkit::{Kit, Reply};

/// The fields of a page's results, in order.
fn column<'a>(reply: &'a Reply, field: &str) -> Vec<&'a Value> {
    reply.body["results"]
        .as_array()
        .expect("a page")
        .iter()
        .map(|item| &item[field])
        .collect()
}

/// An identity provider's certificate, valid when tests happen.
const CERTIFICATE: &str = include_str!("../../../auth/tests/fixtures/saml/rsa.crt");

/// A domain with these settings.
async fn domain(kit: &Kit, settings: Value) -> Reply {
    let made = kit.post(&kit.owner.key, &kit.at("domains/"), settings).await;
    assert_eq!(made.status, 201, "{made:?}");
    made
}

/// Lets a domain be seen with the record that proves it.
async fn prove(kit: &Kit, domain: &Reply) -> service::domains::Domain {
    let seen = DnsLookup::Texts(vec![domain.text("/verification_challenge").to_owned()]);
    let id = domain.text("/id").parse().unwrap();
    kit.service
        .settle_domain(&Actor::system(), kit.organization, id, &seen)
        .await
        .unwrap()
}

/// Everything that SAML needs.
fn saml() -> Value {
    json!({
        "saml_entity_id": "https://idp.example.com/", "saml_acs_url": "https://idp.example.com/sso",
        "saml_x509_cert": CERTIFICATE,
    })
}

/// From now on addresses on `acme.example` sign in with SAML. The owner's is elsewhere, and has a password.
async fn enforce_saml(kit: &Kit) -> Reply {
    kit.give_password(&kit.owner).await;
    let mut settings = saml();
    settings["domain"] = json!("acme.example");
    let made = domain(kit, settings).await;
    prove(kit, &made).await;
    let at = kit.at(&format!("domains/{}/", made.text("/id")));
    let enforced = kit
        .patch(&kit.owner.key, &at, json!({ "sso_enforcement": "saml" }))
        .await;
    assert_eq!(
        (enforced.status, enforced.text("/sso_enforcement")),
        (200, "saml"),
        "{enforced:?}"
    );
    enforced
}

/// What was done to one kind of thing, in the order of the alphabet: entries of one moment have no other.
async fn activities(kit: &Kit, of: &str) -> Vec<String> {
    let page = kit.get(&kit.owner.key, &kit.at(&format!("activity/?scope={of}"))).await;
    let names = column(&page, "activity").into_iter();
    let mut names: Vec<String> = names.map(|name| name.as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}
