//! A fuzzer for the verifier: genuine responses, changed at random, must give nothing but their own identities.
//!
//! The same seed gives the same run. `examples/fuzz_saml.rs` runs it for as long as one likes.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use auth::saml::{Assertion, IdentityProvider, ServiceProvider, unverified, verify};

use super::fixtures::{PLAIN, expected, fixture, idp, sp};
use super::mutation::{Dice, changed};
use super::signer::{Signed, Template, attributes, confirmation_data, encode, subject};

/// What came of a number of runs.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub runs: u64,
    /// Accepted, with exactly the assertion of a genuine response.
    pub accepted: u64,
    /// Accepted, and unknown to the table of used assertions: these would have signed somebody in.
    pub sessions: u64,
    /// How many broke which rule.
    pub refused: BTreeMap<&'static str, u64>,
    /// What must not happen, with the response that did it.
    pub failures: Vec<String>,
    /// The first changed documents that were accepted, for a second verifier to look at.
    pub doubtful: BTreeSet<String>,
}

/// A second verifier takes milliseconds for each.
const MAX_DOUBTFUL: usize = 2_000;

struct Genuine {
    xml: String,
    provider: usize,
}

/// Everything that is genuine, and what may come out of it.
struct Corpus {
    sp: ServiceProvider,
    providers: Vec<IdentityProvider>,
    responses: Vec<Genuine>,
    identities: Vec<Assertion>,
    /// The replay table: every genuine assertion was used before the attacker got hold of it.
    used: HashSet<String>,
}

pub(crate) fn run(runs: u64, seed: u64, mut progress: impl FnMut(&Summary)) -> Summary {
    let corpus = Corpus::new();
    let texts: Vec<&str> = corpus.responses.iter().map(|it| it.xml.as_str()).collect();
    let mut dice = Dice::new(seed);
    let mut summary = Summary::default();
    for _ in 0..runs {
        let genuine = dice.pick(&corpus.responses);
        let xml = changed(&mut dice, &genuine.xml, &texts);
        corpus.try_out(&xml, genuine.provider, &mut summary);
        summary.runs += 1;
        progress(&summary);
    }
    summary
}

impl Corpus {
    fn new() -> Self {
        let keys = [fixture!("rsa.crt"), fixture!("p256.crt"), fixture!("p384.crt")].concat();
        let provider = |entity_id: &str| idp(entity_id, &keys);
        let mut corpus = Self {
            sp: sp(),
            providers: [
                PLAIN,
                "http://www.okta.com/exk1fixture",
                "https://sts.windows.net/00000000-0000-0000-0000-000000000001/",
                "https://accounts.google.com/o/saml2?idpid=C0fixture",
                "https://keycloak.test/realms/corp",
            ]
            .map(provider)
            .into(),
            responses: Vec::new(),
            identities: Vec::new(),
            used: HashSet::new(),
        };
        for (provider, xml) in fixtures() {
            corpus.add(provider, xml.to_owned());
        }
        for (number, name) in ["bert", "carla", "owner"].into_iter().enumerate() {
            for signed in [Signed::Assertion, Signed::Response, Signed::Both] {
                corpus.add(0, somebody(name, number, signed).xml());
            }
        }
        corpus
    }

    fn add(&mut self, provider: usize, xml: String) {
        let expected = expected(&self.sp, &self.providers[provider]);
        let assertion = verify(&encode(&xml), &expected).expect("the corpus is genuine");
        self.used.insert(assertion.id.clone());
        self.identities.push(assertion);
        self.responses.push(Genuine { xml, provider });
    }

    fn try_out(&self, xml: &str, provider: usize, summary: &mut Summary) {
        let encoded = encode(xml);
        let expected = expected(&self.sp, &self.providers[provider]);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let _ = unverified(&encoded);
            verify(&encoded, &expected)
        }));
        match outcome {
            Err(_) => summary.failures.push(format!("panicked: {encoded}")),
            Ok(Err(refusal)) => *summary.refused.entry(refusal.rule.code()).or_default() += 1,
            Ok(Ok(assertion)) => {
                summary.sessions += u64::from(!self.used.contains(&assertion.id));
                if summary.doubtful.len() < MAX_DOUBTFUL && self.responses.iter().all(|genuine| genuine.xml != xml) {
                    summary.doubtful.insert(xml.to_owned());
                }
                if self.identities.contains(&assertion) {
                    summary.accepted += 1;
                } else {
                    summary.failures.push(format!("accepted as {assertion:?}: {encoded}"));
                }
            }
        }
    }
}

fn fixtures() -> Vec<(usize, &'static str)> {
    vec![
        (0, fixture!("assertion-signed.xml")),
        (0, fixture!("response-signed.xml")),
        (0, fixture!("both-signed.xml")),
        (0, fixture!("rsa-sha512.xml")),
        (0, fixture!("ecdsa-p256.xml")),
        (0, fixture!("ecdsa-p384.xml")),
        (1, fixture!("okta.xml")),
        (2, fixture!("entra.xml")),
        (3, fixture!("google.xml")),
        (4, fixture!("keycloak.xml")),
    ]
}

/// Another person at the same provider, so that a mixture of two responses would show.
fn somebody(name: &str, number: usize, signed: Signed) -> Template {
    let email = format!("{name}@corp.test");
    let mut template = Template {
        signed,
        response_id: format!("_response_{name}_{signed:?}"),
        assertion_id: format!("_assertion_{name}_{signed:?}_{number}"),
        subject: subject(&email, &confirmation_data()),
        ..Template::default()
    };
    let attributes = attributes(&[("email", &email), ("firstName", name), ("lastName", "&amp; &lt;Co&gt;")]);
    template.statements = format!("<saml:AuthnStatement></saml:AuthnStatement>{attributes}");
    template
}
