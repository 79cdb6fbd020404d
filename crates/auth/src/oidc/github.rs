//! Sign-in by GitHub, which speaks OAuth but not OIDC: who someone is, its API says.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::{Request, Response, StatusCode, header};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use url::Url;
use url::form_urlencoded::Serializer;

use super::fetch::{Fetch, check_endpoint};
use super::{Identity, Refusal, Start};

/// Ourselves, as registered at GitHub or a GitHub Enterprise Server.
#[derive(Debug, Clone)]
pub struct Client {
    /// `https://github.com`, or that of one's own server.
    pub web_url: String,
    /// `https://api.github.com`, or `https://…/api/v3` of one's own server.
    pub api_url: String,
    pub client_id: String,
    pub client_secret: SecretString,
    pub redirect_url: String,
}

/// Begins a sign-in. The random bytes become state and PKCE verifier; there is no nonce.
pub fn start(client: &Client, random: [[u8; 32]; 2]) -> Result<Start, Refusal> {
    let [state, pkce_verifier] = random.map(|bytes| BASE64_URL_SAFE_NO_PAD.encode(bytes));
    let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&pkce_verifier));
    let mut url = endpoint(&client.web_url, "login/oauth/authorize")?;
    url.query_pairs_mut()
        .append_pair("client_id", &client.client_id)
        .append_pair("redirect_uri", &client.redirect_url)
        .append_pair("response_type", "code")
        .append_pair("scope", "user:email")
        .append_pair("state", &state)
        .append_pair("code_challenge", &challenge)
        .append_pair("code_challenge_method", "S256");
    let nonce = String::new();
    Ok(Start {
        url: url.into(),
        state,
        nonce,
        pkce_verifier,
    })
}

/// Ends a sign-in: exchanges the code, and asks for the account and its primary, verified address.
pub async fn finish<H: Fetch>(client: &Client, http: &H, code: &str, pkce_verifier: &str) -> Result<Identity, Refusal> {
    let token = exchange(client, http, code, pkce_verifier).await?;
    let account: Account = ask(client, http, "user", &token).await?;
    let addresses: Vec<Address> = ask(client, http, "user/emails", &token).await?;
    let address = addresses
        .into_iter()
        .find(|address| address.primary && address.verified);
    let Some(address) = address else {
        let detail = "the GitHub account has no primary, verified email address".to_owned();
        return Err(Refusal::new("no_email", detail));
    };
    Ok(Identity {
        // The login name can be given up and taken by somebody else; the number cannot.
        subject: account.id.to_string(),
        email: address.email,
        email_verified: Some(true),
        ..Identity::named(None, None, account.name.as_deref())
    })
}

/// GitHub answers 200 to a wrong code too, so what matters is which of the two is there.
#[derive(Deserialize)]
struct Exchanged {
    access_token: Option<String>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Account {
    id: u64,
    name: Option<String>,
}

#[derive(Deserialize)]
struct Address {
    email: String,
    primary: bool,
    verified: bool,
}

async fn exchange<H: Fetch>(client: &Client, http: &H, code: &str, pkce_verifier: &str) -> Result<String, Refusal> {
    let form = Serializer::new(String::new())
        .append_pair("client_id", &client.client_id)
        .append_pair("client_secret", client.client_secret.expose_secret())
        .append_pair("code", code)
        .append_pair("redirect_uri", &client.redirect_url)
        .append_pair("code_verifier", pkce_verifier)
        .finish();
    let request = Request::post(endpoint(&client.web_url, "login/oauth/access_token")?.as_str())
        .header(header::ACCEPT, "application/json")
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(form.into_bytes())
        .map_err(|_| unusable())?;
    let exchanged: Exchanged = read(&fetch(http, request).await?)?;
    match (exchanged.access_token, exchanged.error.as_deref()) {
        (Some(token), None) => Ok(token),
        (_, Some("incorrect_client_credentials")) => Err(Refusal::new(
            "invalid_client",
            "GitHub does not accept the client; check the client ID and secret".to_owned(),
        )),
        _ => Err(Refusal::new(
            "invalid_grant",
            "GitHub refused the code; sign in again".to_owned(),
        )),
    }
}

async fn ask<T: DeserializeOwned, H: Fetch>(client: &Client, http: &H, path: &str, token: &str) -> Result<T, Refusal> {
    let request = Request::get(endpoint(&client.api_url, path)?.as_str())
        .header(header::ACCEPT, "application/vnd.github+json")
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .body(vec![])
        // Only the token can be at fault, and GitHub chose it.
        .map_err(|_| unusable())?;
    read(&fetch(http, request).await?)
}

async fn fetch<H: Fetch>(http: &H, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, Refusal> {
    http.fetch(request).await.map_err(|error| Refusal::from_fetch(&error))
}

fn read<T: DeserializeOwned>(response: &Response<Vec<u8>>) -> Result<T, Refusal> {
    if response.status() != StatusCode::OK {
        let detail = format!(
            "GitHub returned {}; check its URLs and the client's permissions",
            response.status()
        );
        return Err(Refusal::new("provider_failed", detail));
    }
    serde_json::from_slice(response.body()).map_err(|_| unusable())
}

fn unusable() -> Refusal {
    Refusal::new(
        "provider_failed",
        "GitHub's response cannot be read; check its URLs".to_owned(),
    )
}

fn endpoint(base: &str, path: &str) -> Result<Url, Refusal> {
    let url = Url::parse(&format!("{}/{path}", base.trim_end_matches('/')))
        .map_err(|_| Refusal::new("issuer_malformed", "GitHub's URL is not a URL".to_owned()))?;
    check_endpoint(&url).map_err(|error| Refusal::from_fetch(&error))?;
    Ok(url)
}

#[cfg(test)]
mod tests;
