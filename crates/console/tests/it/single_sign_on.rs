use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use identity::cookies;
use service::Level;
use service::access::Request;
use service::sso::{Sso, VerifiedIdentity};
use uuid::Uuid;

use crate::kit::{Kit, PASSWORD};

#[tokio::test]
async fn an_enforced_domain_hands_over_by_a_page_and_takes_no_password() {
    let kit = Kit::new().await;
    let domain = kit.domain("sso.example.net", "saml").await;
    let way = format!("/saml/{domain}/login/?next=%2Faccount%2F");
    for form in [
        vec![("email", "ann@sso.example.net"), ("next", "/account/")],
        vec![
            ("email", "ann@sso.example.net"),
            ("next", "/account/"),
            ("password", PASSWORD),
        ],
    ] {
        let shown = kit.browser().post("/login/", &form).await;
        assert_eq!((shown.status, shown.h1()), (200, "Continue with SAML"));
        assert!(shown.says(&format!("content=\"0; url={way}\"")) && shown.says(&format!("href=\"{way}\"")));
    }
    let mut browser = kit.browser();
    let away = browser.get(&way).await;
    assert_eq!(away.status, 303);
    assert!(
        away.header("location")
            .starts_with("https://idp.example.net/sso?SAMLRequest=")
    );
    assert!(away.header("set-cookie").contains("SameSite=None"));
    let name = browser.cookies[cookies::BROWSER].clone();
    browser.get(&way).await;
    assert_eq!(browser.cookies[cookies::BROWSER], name);
}

/// Or a provider of another organization could sign people in behind their back, and have them work in an account that is not theirs.
#[tokio::test]
async fn a_response_that_nobody_asked_for_is_agreed_to_first() {
    const RESPONSE: &str =
        r#"<samlp:Response xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" ID="_1" Version="2.0"/>"#;
    let kit = Kit::new().await;
    let domain = kit.domain("sso.example.net", "").await;
    let allow = "UPDATE domain SET saml_idp_initiated = TRUE";
    let path = format!("/saml/{domain}/acs/");
    let response = STANDARD.encode(RESPONSE);
    let form = [("SAMLResponse", response.as_str())];
    let mut browser = kit.browser();
    browser.site = "cross-site";
    assert_eq!(
        browser.post(&path, &form).await.status,
        403,
        "none is taken by this domain"
    );
    kit.database.run(allow).await;
    let asked = browser.post(&path, &form).await;
    assert_eq!((asked.status, asked.h1()), (200, "Sign in?"));
    assert!(asked.says(&format!("action=\"{path}\"")) && asked.says("sso.example.net") && asked.says(&response));
    browser.site = "same-origin";
    assert_eq!(
        browser.post(&path, &form).await.status,
        403,
        "it is read, and has no assertion"
    );
}

/// Whoever connects an account to a provider is not known by the word of a provider.
#[tokio::test]
async fn who_sets_out_is_known_by_their_own_proof_alone() {
    let kit = Kit::new().await;
    let domain = kit.domain("sso.example.net", "").await;
    let vera = kit.member("vera@sso.example.net", Level::Member).await;
    let mut by_password = kit.signed_in("vera@sso.example.net").await;
    let session = kit
        .service
        .signed_in(&by_password.cookies[cookies::SESSION], Request::default());
    let proof = session
        .await
        .expect("she is signed in")
        .own_proof()
        .expect("by her password");
    let identity = VerifiedIdentity {
        sso: Sso::Saml,
        domain: Some(domain),
        subject: "vera".to_owned(),
        email: "vera@sso.example.net".to_owned(),
        first_name: String::new(),
        last_name: String::new(),
        signed_in_as: Some(proof),
        session_until: None,
        assertion: None,
    };
    let (_, session) = kit
        .service
        .enter(&identity, &Request::default())
        .await
        .expect("she gets in");
    let mut by_provider = kit.browser();
    by_provider.cookies.insert(cookies::SESSION.to_owned(), session);
    for (browser, known) in [(&mut by_provider, None), (&mut by_password, Some(vera.id))] {
        assert_eq!(browser.get(&format!("/saml/{domain}/login/")).await.status, 303);
        let sent = kit.database.column::<String>("SELECT id FROM sso_request").await;
        let login = kit
            .service
            .complete_login(&sent[0], &browser.cookies[cookies::BROWSER])
            .await;
        let login = login.expect("it is looked for").expect("it was sent away");
        assert_eq!(login.signed_in_as.map(|proof| proof.user), known);
    }
}

#[tokio::test]
async fn a_domain_that_offers_it_has_a_button_beside_the_password() {
    let kit = Kit::new().await;
    let domain = kit.domain("sso.example.net", "").await;
    let shown = kit.browser().post("/login/", &[("email", "ann@sso.example.net")]).await;
    assert!(shown.says("name=\"password\""));
    assert!(shown.says(&format!("href=\"/saml/{domain}/login/\">Continue with SAML")));
}

#[tokio::test]
async fn a_refused_answer_says_no_more_than_that() {
    let kit = Kit::new().await;
    let domain = kit.domain("sso.example.net", "").await;
    let path = format!("/saml/{domain}/acs/");
    let refused = kit.browser().post(&path, &[("SAMLResponse", "PHg+PC94Pg==")]).await;
    assert_eq!((refused.status, refused.h1()), (403, "Sign-in failed"));
    assert!(refused.says("An administrator can see the reason under the domain&#39;s recent sign-ins."));
    assert!(refused.says(refused.header("x-request-id")));
    for (size, status) in [(400_000, 403), (460_000, 400)] {
        let huge = "x".repeat(size);
        let answer = kit.browser().post(&path, &[("SAMLResponse", &huge)]).await;
        assert_eq!(answer.status, status, "no verifier reads as much");
    }
    let strange = kit.browser().get("/sso/gitlab/callback/?state=unknown&code=x").await;
    assert_eq!((strange.status, strange.h1()), (403, "Sign-in failed"));
    assert_eq!(
        kit.browser()
            .get("/sso/gitlab/callback/?state=x&error=access_denied")
            .await
            .status,
        403
    );
}

#[tokio::test]
async fn answers_are_counted_by_network() {
    let kit = Kit::new().await;
    let domain = kit.domain("sso.example.net", "").await;
    let path = format!("/saml/{domain}/acs/");
    let mut answers = Vec::new();
    for _ in 0..100 {
        answers.push(kit.browser().post(&path, &[("SAMLResponse", "PHg+PC94Pg==")]).await);
    }
    let (refused, late): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 403);
    // One more is forgiven every second.
    assert!(refused.len() >= 60 && late.len() > 10, "{}", refused.len());
    assert!(
        late.iter()
            .all(|answer| answer.status == 429 && !answer.header("retry-after").is_empty())
    );
}

#[tokio::test]
async fn providers_and_domains_that_are_not_there_are_not_found() {
    let kit = Kit::new().await;
    for path in [
        format!("/saml/{}/login/", Uuid::nil()),
        format!("/saml/{}/metadata/", Uuid::nil()),
        format!("/oidc/{}/login/", Uuid::nil()),
        "/saml/no-id/login/".to_owned(),
        "/sso/saml/login/".to_owned(),
        "/sso/gitlab/login/".to_owned(),
    ] {
        let answer = kit.browser().get(&path).await;
        assert_eq!((answer.status, answer.h1()), (404, "Page not found"), "{path}");
    }
}

#[tokio::test]
async fn metadata_names_our_address_for_answers() {
    let kit = Kit::new().await;
    let domain = kit.domain("sso.example.net", "").await;
    let answer = kit.browser().get(&format!("/saml/{domain}/metadata/")).await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, "application/samlmetadata+xml")
    );
    assert!(answer.says(&format!("Location=\"http://127.0.0.1:8000/saml/{domain}/acs/\"")));
}
