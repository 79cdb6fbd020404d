//! SAML as an identity provider, an administrator and an attacker see it.

mod certificates;
mod claims;
mod fixtures;
mod fuzz;
mod genuine;
mod hostile_xml;
mod judge;
mod metadata;
mod mutation;
mod signatures;
mod signer;
mod wrapping;

use auth::saml::{Assertion, Refusal, Rule, verify};
use fixtures::{PLAIN, expected, fixture, idp, sp};

/// What becomes of a response from the provider whose certificate is configured.
fn outcome(xml: &str) -> Result<Assertion, Refusal> {
    outcome_of(&signer::encode(xml))
}

fn outcome_of(saml_response: &str) -> Result<Assertion, Refusal> {
    let (sp, idp) = (sp(), idp(PLAIN, fixture!("rsa.crt")));
    verify(saml_response, &expected(&sp, &idp))
}

/// The rule that a response breaks.
#[track_caller]
fn rule(xml: &str) -> Rule {
    match outcome(xml) {
        Ok(assertion) => panic!("accepted as {assertion:?}:\n{xml}"),
        Err(refusal) => refusal.rule,
    }
}

#[test]
fn changed_responses_give_nothing_but_their_own_identity() {
    let summary = fuzz::run(3_000, 1, |_| {});
    assert_eq!(summary.failures, Vec::<String>::new());
    assert_eq!(summary.sessions, 0);
    // A fuzzer whose changes all end at the same rule, or whose corpus is never accepted, tests nothing.
    assert!(summary.refused.len() > 15 && summary.accepted > 0, "{summary:?}");
    // What is accepted in spite of a change, another implementation accepts, too.
    let judge = judge::Judge::new();
    let disputed: Vec<&String> = summary.doubtful.iter().filter(|xml| !judge.agrees(xml)).collect();
    assert_eq!(disputed, Vec::<&String>::new());
    assert!(summary.doubtful.len() > 20, "{} documents", summary.doubtful.len());
    let forged = fixture!("assertion-signed.xml").replacen("corp.test", "evil.test", 1);
    assert!(judge.agrees(fixture!("both-signed.xml")) && !judge.agrees(&forged));
}
