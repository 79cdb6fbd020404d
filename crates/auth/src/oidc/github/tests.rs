use std::sync::Mutex;

use serde_json::{Value, json};
use url::form_urlencoded;

use super::*;

fn client() -> Client {
    Client {
        web_url: "https://github.com".into(),
        api_url: "https://api.github.com".into(),
        client_id: "hedgerow".into(),
        client_secret: "client-secret".into(),
        redirect_url: "https://hedgerow.example/login/github/".into(),
    }
}

/// GitHub in memory: its answers, and what it was asked.
struct GitHub {
    token: Value,
    user: Value,
    emails: Value,
    asked: Mutex<Vec<Request<Vec<u8>>>>,
}

fn github() -> GitHub {
    GitHub {
        token: json!({ "access_token": "gho_1", "token_type": "bearer", "scope": "user:email" }),
        user: json!({ "id": 583_231, "login": "ada", "name": "Ada King Lovelace", "email": "public@example.com" }),
        emails: json!([
            { "email": "old@example.com", "primary": false, "verified": true, "visibility": null },
            { "email": "ada@example.com", "primary": true, "verified": true, "visibility": "private" },
        ]),
        asked: Mutex::default(),
    }
}

impl GitHub {
    async fn finish(&self) -> Result<Identity, Refusal> {
        let http = async |request: Request<Vec<u8>>| {
            let answer = match request.uri().to_string().as_str() {
                "https://github.com/login/oauth/access_token" => &self.token,
                "https://api.github.com/user" => &self.user,
                "https://api.github.com/user/emails" => &self.emails,
                other => panic!("asked for {other}"),
            };
            self.asked.lock().unwrap().push(request);
            Ok(Response::new(answer.to_string().into_bytes()))
        };
        finish(&client(), &http, "the-code", "the-verifier").await
    }
}

#[test]
fn the_browser_is_sent_with_state_and_challenge() {
    let start = start(&client(), [[1; 32], [2; 32]]).unwrap();
    let url = Url::parse(&start.url).unwrap();
    assert!(start.url.starts_with("https://github.com/login/oauth/authorize?"));
    let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&start.pkce_verifier));
    let pairs: Vec<_> = url.query_pairs().collect();
    for (name, value) in [("state", &start.state), ("code_challenge", &challenge)] {
        assert!(pairs.contains(&(name.into(), value.into())), "{name}");
    }
    assert!(!start.url.contains(&start.pkce_verifier) && start.nonce.is_empty());
}

#[tokio::test]
async fn an_account_is_known_by_its_number_and_primary_address() {
    let github = github();
    let expected = Identity {
        subject: "583231".into(),
        email: "ada@example.com".into(),
        email_verified: Some(true),
        first_name: "Ada".into(),
        last_name: "King Lovelace".into(),
    };
    assert_eq!(github.finish().await.unwrap(), expected);
    let asked = github.asked.into_inner().unwrap();
    let form: Vec<_> = form_urlencoded::parse(asked[0].body()).collect();
    for (name, value) in [
        ("code", "the-code"),
        ("code_verifier", "the-verifier"),
        ("client_secret", "client-secret"),
    ] {
        assert!(form.contains(&(name.into(), value.into())), "{name}");
    }
    assert_eq!(asked[1].headers()[header::AUTHORIZATION], "Bearer gho_1");
}

#[tokio::test]
async fn only_a_primary_verified_address_counts() {
    for emails in [
        json!([]),
        json!([{ "email": "ada@example.com", "primary": true, "verified": false }]),
        json!([{ "email": "ada@example.com", "primary": false, "verified": true }]),
    ] {
        let refusal = GitHub { emails, ..github() }.finish().await.unwrap_err();
        assert_eq!(refusal.rule, "no_email");
    }
}

#[tokio::test]
async fn refusals_that_come_as_success_are_seen() {
    for (token, rule) in [
        (
            json!({ "error": "bad_verification_code", "error_description": "SECRET" }),
            "invalid_grant",
        ),
        (json!({ "error": "incorrect_client_credentials" }), "invalid_client"),
        (json!({ "error": "SECRET", "access_token": "gho_1" }), "invalid_grant"),
        (json!({}), "invalid_grant"),
        (json!({ "access_token": "line\nbreak" }), "provider_failed"),
        (json!("SECRET"), "provider_failed"),
    ] {
        let refusal = GitHub { token, ..github() }.finish().await.unwrap_err();
        assert_eq!(refusal.rule, rule);
        assert!(!refusal.detail.contains("SECRET"), "{refusal}");
    }
    let user = json!({ "login": "no number" });
    assert_eq!(
        GitHub { user, ..github() }.finish().await.unwrap_err().rule,
        "provider_failed"
    );
}

#[test]
fn ones_own_server_is_asked_where_it_is() {
    let own = |web_url: &str| Client {
        web_url: web_url.into(),
        ..client()
    };
    let start_at = |web_url: &str| start(&own(web_url), [[0; 32]; 2]);
    assert!(
        start_at("https://ghe.example/")
            .unwrap()
            .url
            .starts_with("https://ghe.example/login/oauth/authorize?")
    );
    assert_eq!(
        start_at("http://ghe.example").err().unwrap().rule,
        "endpoint_not_allowed"
    );
    assert_eq!(start_at("ghe.example").err().unwrap().rule, "issuer_malformed");
}
