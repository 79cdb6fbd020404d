use std::sync::Mutex;

use http::{Request, Response, header};
use openidconnect::core::{CoreHmacKey, CoreRsaPrivateSigningKey};
use openidconnect::{JsonWebKeyId, PrivateSigningKey};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use url::Url;
use url::form_urlencoded;

use super::*;

const ISSUER: &str = "https://id.example.com/realm";
const NOW: i64 = 1_800_000_000;

/// Made for these tests; they guard nothing.
const PROVIDER_KEY: &str = include_str!("testdata/provider.pem");
const STRANGER_KEY: &str = include_str!("testdata/stranger.pem");

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(NOW, 0).unwrap()
}

fn client() -> Client {
    Client {
        issuer: ISSUER.into(),
        client_id: "hedgerow".into(),
        client_secret: Some("client:secret".into()),
        redirect_url: "https://hedgerow.example/login/oidc/".into(),
    }
}

fn key(pem: &str) -> CoreRsaPrivateSigningKey {
    CoreRsaPrivateSigningKey::from_pem(pem, Some(JsonWebKeyId::new("key-1".into()))).unwrap()
}

/// A token of any header, signed in any way.
fn token(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let encode = |part: &Value| BASE64_URL_SAFE_NO_PAD.encode(part.to_string());
    let message = format!("{}.{}", encode(header), encode(claims));
    let signature = BASE64_URL_SAFE_NO_PAD.encode(sign(message.as_bytes()));
    format!("{message}.{signature}")
}

fn rs256(claims: &Value, pem: &str) -> String {
    let algorithm = CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256;
    let key = key(pem);
    token(&json!({ "alg": "RS256", "kid": "key-1" }), claims, |message| {
        key.sign(&algorithm, message).unwrap()
    })
}

/// An identity provider in memory: what it publishes, what it signs, and what it was asked.
struct Provider {
    discovery: Value,
    keys: Value,
    id_token: Option<String>,
    access_token: String,
    user_info: Value,
    asked: Mutex<Vec<Request<Vec<u8>>>>,
}

fn claims() -> Value {
    json!({
        "iss": ISSUER, "aud": "hedgerow", "sub": "subject-1", "nonce": "the-nonce",
        "iat": NOW - 5, "exp": NOW + 300,
        "email": "ada@example.com", "email_verified": true, "given_name": "Ada", "family_name": "Lovelace",
    })
}

/// The usual claims, with some of them replaced or, by null, removed.
fn claims_but(changes: &Value) -> Value {
    let mut claims = claims();
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    claims
}

impl Provider {
    fn new(id_token: String) -> Self {
        Self {
            discovery: json!({
                "issuer": ISSUER,
                "authorization_endpoint": "https://id.example.com/authorize",
                "token_endpoint": "https://id.example.com/token",
                "userinfo_endpoint": "https://id.example.com/userinfo",
                "jwks_uri": "https://id.example.com/keys",
                "response_types_supported": ["code"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
            }),
            keys: json!({ "keys": [key(PROVIDER_KEY).as_verification_key()] }),
            id_token: Some(id_token),
            access_token: "access-1".into(),
            user_info: json!({}),
            asked: Mutex::default(),
        }
    }

    /// One that signs these claims as it should.
    fn signing(changes: &Value) -> Self {
        Self::new(rs256(&claims_but(changes), PROVIDER_KEY))
    }

    fn answer(&self, request: Request<Vec<u8>>) -> Response<Vec<u8>> {
        let answer = match request.uri().path() {
            "/realm/.well-known/openid-configuration" => self.discovery.clone(),
            "/keys" => self.keys.clone(),
            "/token" => {
                let mut tokens = json!({ "access_token": self.access_token, "token_type": "Bearer" });
                if let Some(id_token) = &self.id_token {
                    tokens["id_token"] = id_token.clone().into();
                }
                tokens
            }
            "/userinfo" => self.user_info.clone(),
            other => panic!("asked for {other}"),
        };
        self.asked.lock().unwrap().push(request);
        let response = Response::builder().header(header::CONTENT_TYPE, "application/json");
        response.body(answer.to_string().into_bytes()).unwrap()
    }

    async fn start(&self) -> Result<Start, Refusal> {
        start(
            &client(),
            &async |request| Ok(self.answer(request)),
            [[1; 32], [2; 32], [3; 32]],
        )
        .await
    }

    async fn finish(&self) -> Result<Identity, Refusal> {
        let stored = Stored {
            nonce: "the-nonce".into(),
            pkce_verifier: "the-verifier".into(),
        };
        finish(
            &client(),
            &async |request| Ok(self.answer(request)),
            "the-code",
            &stored,
            now(),
        )
        .await
    }

    async fn refusal(&self) -> &'static str {
        self.finish().await.unwrap_err().rule
    }
}

fn ada() -> Identity {
    Identity {
        subject: "subject-1".into(),
        email: "ada@example.com".into(),
        email_verified: Some(true),
        first_name: "Ada".into(),
        last_name: "Lovelace".into(),
    }
}

#[tokio::test]
async fn the_browser_is_sent_with_all_that_binds_the_answer_to_it() {
    let start = Provider::signing(&json!({})).start().await.unwrap();
    let url = Url::parse(&start.url).unwrap();
    assert!(start.url.starts_with("https://id.example.com/authorize?"));
    let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&start.pkce_verifier));
    for (name, value) in [
        ("response_type", "code"),
        ("client_id", "hedgerow"),
        ("redirect_uri", "https://hedgerow.example/login/oidc/"),
        ("scope", "openid email profile"),
        ("state", &start.state),
        ("nonce", &start.nonce),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ] {
        let values: Vec<_> = url.query_pairs().filter(|(key, _)| key == name).collect();
        assert_eq!(values, [(name.into(), value.into())]);
    }
    let secrets = [&start.state, &start.nonce, &start.pkce_verifier];
    assert!(secrets.iter().all(|secret| secret.len() == 43));
    assert!(start.state != start.nonce && start.nonce != start.pkce_verifier);
    assert!(!start.url.contains(&start.pkce_verifier));
}

#[tokio::test]
async fn a_good_token_tells_who_it_is() {
    let provider = Provider::signing(&json!({}));
    assert_eq!(provider.finish().await.unwrap(), ada());

    let asked = provider.asked.into_inner().unwrap();
    let request = asked.iter().find(|request| request.uri().path() == "/token").unwrap();
    let form: Vec<_> = form_urlencoded::parse(request.body()).collect();
    for (name, value) in [
        ("grant_type", "authorization_code"),
        ("code", "the-code"),
        ("code_verifier", "the-verifier"),
        ("redirect_uri", "https://hedgerow.example/login/oidc/"),
    ] {
        assert!(form.contains(&(name.into(), value.into())), "{name}");
    }
    let basic = base64::prelude::BASE64_STANDARD.encode("hedgerow:client%3Asecret");
    assert_eq!(request.headers()[header::AUTHORIZATION], format!("Basic {basic}"));
}

#[tokio::test]
async fn a_provider_that_wants_the_secret_in_the_form_gets_it_there() {
    let mut provider = Provider::signing(&json!({}));
    provider.discovery["token_endpoint_auth_methods_supported"] = json!(["client_secret_post"]);
    provider.finish().await.unwrap();
    let asked = provider.asked.into_inner().unwrap();
    let request = asked.iter().find(|request| request.uri().path() == "/token").unwrap();
    let form: Vec<_> = form_urlencoded::parse(request.body()).collect();
    assert!(form.contains(&("client_secret".into(), "client:secret".into())));
    assert!(!request.headers().contains_key(header::AUTHORIZATION));
}

#[tokio::test]
async fn tokens_that_are_not_for_this_sign_in_are_refused() {
    for (changes, rule) in [
        (json!({ "nonce": "another" }), "wrong_nonce"),
        (json!({ "nonce": null }), "wrong_nonce"),
        (json!({ "aud": "another" }), "wrong_audience"),
        (json!({ "aud": [] }), "wrong_audience"),
        (
            json!({ "aud": ["hedgerow", "another"], "azp": "hedgerow" }),
            "wrong_audience",
        ),
        (json!({ "azp": "another" }), "wrong_authorized_party"),
        (json!({ "iss": "https://evil.example.com" }), "wrong_issuer"),
        (json!({ "iss": format!("{ISSUER}/") }), "wrong_issuer"),
        (json!({ "exp": NOW - 61 }), "token_expired"),
        (json!({ "iat": NOW + 61 }), "token_expired"),
        (json!({ "iat": NOW - 601 }), "token_expired"),
        (json!({ "at_hash": "AAAAAAAAAAAAAAAAAAAAAA" }), "wrong_access_token"),
        (json!({ "sub": "" }), "no_subject"),
        // Not even a token: these must be there.
        (json!({ "exp": null }), "token_response_malformed"),
        (json!({ "iat": null }), "token_response_malformed"),
        (json!({ "sub": null }), "token_response_malformed"),
    ] {
        assert_eq!(Provider::signing(&changes).refusal().await, rule, "{changes}");
    }
}

#[tokio::test]
async fn what_is_within_the_rules_is_accepted() {
    let hash = BASE64_URL_SAFE_NO_PAD.encode(&Sha256::digest("access-1")[..16]);
    for changes in [
        json!({ "aud": ["hedgerow"], "azp": "hedgerow" }),
        json!({ "exp": NOW - 59 }),
        json!({ "iat": NOW + 59 }),
        json!({ "at_hash": hash }),
        json!({ "email_verified": "true" }),
        json!({ "given_name": null, "family_name": null, "name": "Ada Lovelace" }),
    ] {
        assert_eq!(Provider::signing(&changes).finish().await, Ok(ada()), "{changes}");
    }
    let unverified = Provider::signing(&json!({ "email_verified": null }))
        .finish()
        .await
        .unwrap();
    assert_eq!(unverified.email_verified, None);
}

#[tokio::test]
async fn signatures_that_prove_nothing_are_refused() {
    let public = key(PROVIDER_KEY).as_verification_key();
    let public = serde_json::to_value(public).unwrap();
    let modulus = BASE64_URL_SAFE_NO_PAD.decode(public["n"].as_str().unwrap()).unwrap();
    let hmac = |secret: &[u8]| {
        let key = CoreHmacKey::new(secret.to_vec());
        let algorithm = CoreJwsSigningAlgorithm::HmacSha256;
        token(&json!({ "alg": "HS256", "kid": "key-1" }), &claims(), |message| {
            key.sign(&algorithm, message).unwrap()
        })
    };
    let good = rs256(&claims(), PROVIDER_KEY);
    let (message, _) = good.rsplit_once('.').unwrap();
    let tampered = rs256(&claims_but(&json!({ "email": "eve@example.com" })), PROVIDER_KEY);
    let (_, foreign_signature) = tampered.rsplit_once('.').unwrap();
    let no_signature = |_: &[u8]| vec![];
    for (id_token, rule) in [
        (
            token(&json!({ "alg": "none" }), &claims(), no_signature),
            "algorithm_not_allowed",
        ),
        (
            token(&json!({ "alg": "none", "kid": "key-1" }), &claims(), no_signature),
            "algorithm_not_allowed",
        ),
        (hmac(b"client:secret"), "algorithm_not_allowed"),
        (hmac(&modulus), "algorithm_not_allowed"),
        (hmac(public.to_string().as_bytes()), "algorithm_not_allowed"),
        (rs256(&claims(), STRANGER_KEY), "bad_signature"),
        (format!("{message}."), "bad_signature"),
        (format!("{message}.{foreign_signature}"), "bad_signature"),
        (
            token(&json!({ "alg": "RS256", "kid": "key-2" }), &claims(), no_signature),
            "unknown_key",
        ),
        (
            token(&json!({ "alg": "ES256", "kid": "key-1" }), &claims(), no_signature),
            "unknown_key",
        ),
        (
            token(&json!({ "alg": "NONE" }), &claims(), no_signature),
            "token_response_malformed",
        ),
        (
            token(
                &json!({ "alg": "RS256", "kid": "key-1", "crit": ["exp"] }),
                &claims(),
                no_signature,
            ),
            "token_not_supported",
        ),
        ("not a token".into(), "token_response_malformed"),
    ] {
        assert_eq!(Provider::new(id_token.clone()).refusal().await, rule, "{id_token}");
    }
}

/// A key inside the token is the token's own word for itself.
#[tokio::test]
async fn a_key_that_the_token_brings_along_is_ignored() {
    let stranger = key(STRANGER_KEY);
    let header = json!({ "alg": "RS256", "kid": "key-1", "jwk": stranger.as_verification_key() });
    let algorithm = CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256;
    let id_token = token(&header, &claims(), |message| {
        stranger.sign(&algorithm, message).unwrap()
    });
    assert_eq!(Provider::new(id_token).refusal().await, "bad_signature");
}

#[tokio::test]
async fn without_an_id_token_nobody_is_signed_in() {
    let provider = Provider {
        id_token: None,
        ..Provider::signing(&json!({}))
    };
    assert_eq!(provider.refusal().await, "no_id_token");
}

#[tokio::test]
async fn an_address_that_is_missing_is_asked_for() {
    let silent = json!({ "email": null, "email_verified": null, "given_name": null, "family_name": null });
    let told = json!({
        "sub": "subject-1", "email": "ada@example.com", "email_verified": true,
        "given_name": "Ada", "family_name": "Lovelace",
    });
    let provider = Provider {
        user_info: told.clone(),
        ..Provider::signing(&silent)
    };
    assert_eq!(provider.finish().await.unwrap(), ada());
    let asked = provider.asked.into_inner().unwrap();
    let request = asked
        .iter()
        .find(|request| request.uri().path() == "/userinfo")
        .unwrap();
    assert_eq!(request.headers()[header::AUTHORIZATION], "Bearer access-1");

    let mut other = told.clone();
    other["sub"] = json!("subject-2");
    for (user_info, rule) in [
        (other, "wrong_subject"),
        (json!({ "sub": "subject-1" }), "no_email"),
        (json!({ "sub": "subject-1", "email": "" }), "no_email"),
        (json!({ "email": "ada@example.com" }), "user_info_malformed"),
    ] {
        let provider = Provider {
            user_info,
            ..Provider::signing(&silent)
        };
        assert_eq!(provider.refusal().await, rule);
    }
    let mut provider = Provider {
        user_info: told,
        ..Provider::signing(&silent)
    };
    provider.access_token = "line\nbreak".into();
    assert_eq!(provider.refusal().await, "token_malformed");
}

#[tokio::test]
async fn discovery_must_be_of_the_issuer_and_lead_to_safe_places() {
    for (field, value, rule) in [
        ("issuer", "https://evil.example.com", "wrong_issuer"),
        ("issuer", "https://id.example.com/realm/", "wrong_issuer"),
        (
            "authorization_endpoint",
            "http://id.example.com/authorize",
            "endpoint_not_allowed",
        ),
        ("authorization_endpoint", "javascript:alert(1)", "endpoint_not_allowed"),
        (
            "authorization_endpoint",
            "https://id.example.com@evil.example/",
            "endpoint_not_allowed",
        ),
        ("jwks_uri", "http://id.example.com/keys", "endpoint_not_allowed"),
        ("jwks_uri", "ftp://id.example.com/keys", "endpoint_not_allowed"),
        ("jwks_uri", "file:///etc/passwd", "discovery_malformed"),
        ("jwks_uri", "not a url", "discovery_malformed"),
    ] {
        let mut provider = Provider::signing(&json!({}));
        provider.discovery[field] = json!(value);
        assert_eq!(provider.start().await.err().unwrap().rule, rule, "{field} {value}");
        assert_eq!(provider.refusal().await, rule, "{field} {value}");
    }
    for endpoint in ["token_endpoint", "userinfo_endpoint"] {
        let mut provider = Provider::signing(&json!({ "email": null }));
        provider.discovery[endpoint] = json!("http://id.example.com/somewhere");
        assert_eq!(provider.refusal().await, "endpoint_not_allowed", "{endpoint}");
    }
}

#[tokio::test]
async fn a_provider_on_this_machine_may_speak_http() {
    let mut provider = Provider::signing(&json!({}));
    for field in ["authorization_endpoint", "token_endpoint", "jwks_uri"] {
        let url = provider.discovery[field]
            .as_str()
            .unwrap()
            .replace("https://id.example.com", "http://127.0.0.1:9000");
        provider.discovery[field] = json!(url);
    }
    assert!(
        provider
            .start()
            .await
            .unwrap()
            .url
            .starts_with("http://127.0.0.1:9000/authorize?")
    );
    assert_eq!(provider.finish().await.unwrap(), ada());
}

#[tokio::test]
async fn failures_of_the_provider_are_told_without_its_words() {
    let respond = async |status: u16, body: &'static str| {
        let http = |_| async move { Ok(Response::builder().status(status).body(body.into()).unwrap()) };
        start(&client(), &http, [[0; 32]; 3]).await.err().unwrap()
    };
    for (status, body, rule) in [
        (500, "SECRET", "discovery_failed"),
        (302, "SECRET", "discovery_failed"),
        (200, "SECRET", "discovery_malformed"),
        (200, "{\"issuer\": \"SECRET\"}", "discovery_malformed"),
    ] {
        let refusal = respond(status, body).await;
        assert_eq!(refusal.rule, rule);
        assert!(!refusal.detail.contains("SECRET"), "{refusal}");
    }
    let broken = async |_| Err(FetchError::new(std::io::Error::other("no route")));
    let refusal = start(&client(), &broken, [[0; 32]; 3]).await.err().unwrap();
    assert_eq!(
        (refusal.rule, refusal.detail.as_str()),
        ("provider_unreachable", "no route")
    );
}

#[tokio::test]
async fn a_document_far_larger_than_any_is_not_read() {
    let mut provider = Provider::signing(&json!({}));
    provider.discovery["more"] = json!(vec![json!({ "": 0 }); 100_000]);
    assert_eq!(provider.start().await.err().unwrap().rule, "provider_unreachable");
}

#[tokio::test]
async fn a_refused_code_is_told_apart_from_a_refused_client() {
    let provider = Provider::signing(&json!({}));
    for (error, rule) in [
        ("invalid_grant", "invalid_grant"),
        ("invalid_client", "invalid_client"),
        ("SECRET", "invalid_grant"),
    ] {
        let http = async |request: Request<Vec<u8>>| {
            if request.uri().path() != "/token" {
                return Ok(provider.answer(request));
            }
            let body = json!({ "error": error, "error_description": "SECRET" }).to_string();
            Ok(Response::builder().status(400).body(body.into_bytes()).unwrap())
        };
        let stored = Stored {
            nonce: "the-nonce".into(),
            pkce_verifier: "the-verifier".into(),
        };
        let refusal = finish(&client(), &http, "the-code", &stored, now()).await.unwrap_err();
        assert_eq!(refusal.rule, rule);
        assert!(!refusal.detail.contains("SECRET"), "{refusal}");
    }
}

#[test]
fn a_client_does_not_show_its_secret() {
    assert!(!format!("{:?}", client()).contains("client:secret"));
}

/// Handlers of a web server must be able to wait for it on any thread.
#[test]
fn a_sign_in_may_move_between_threads() {
    fn is_send(_: impl Send) {}
    let http = async |_| Ok(Response::new(vec![]));
    let (client, stored) = (
        client(),
        Stored {
            nonce: String::new(),
            pkce_verifier: String::new(),
        },
    );
    is_send(start(&client, &http, [[0; 32]; 3]));
    is_send(finish(&client, &http, "", &stored, now()));
}
