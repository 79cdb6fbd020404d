//! Journeys with the real browser.

use std::path::{Path, PathBuf};

use testkit::external::{SamlIdp, SamlOptions, browser};

const ACS: &str = "http://127.0.0.1:9/complete/saml/";

fn journey(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/journeys").join(name)
}

#[tokio::test]
async fn a_form_is_filled_in_by_a_browser() {
    let idp = SamlIdp::start(SamlOptions {
        audience: Some("somebody".to_owned()),
        acs: Some(ACS.to_owned()),
        ..SamlOptions::default()
    });
    let env = [("SSO_URL", &*idp.sso_url()), ("ACS", ACS)];
    let xml = browser::run(&journey("sign_in.mjs"), &env).await;
    assert!(xml.contains(">zoe@example.test</saml:NameID>"), "{xml}");
}

#[tokio::test]
async fn what_a_visitor_would_not_see_makes_a_journey_fail() {
    let idp = SamlIdp::start(SamlOptions::default());
    let url = idp.sso_url();
    let journey = tokio::spawn(async move { browser::run(&journey("faults.mjs"), &[("SSO_URL", &url)]).await });
    let failure = journey.await.unwrap_err().into_panic();
    let failure = failure.downcast_ref::<String>().unwrap();
    for fault in [
        "thrown by a script",
        "said on the console",
        "refused by img-src",
        "left the machine: http://example.com/",
        "left the machine: http://192.0.2.1/",
        "ERR_NAME_NOT_RESOLVED",
        "image-alt",
        "seen in ",
    ] {
        assert!(failure.contains(fault), "{fault} is not in {failure}");
    }
    let screenshot = failure.lines().find_map(|line| line.split_once("seen in ")).unwrap().1;
    assert!(Path::new(screenshot).is_file(), "{screenshot}");
}
