//! Sign-in by OIDC: authorization code with PKCE, against any provider that publishes a discovery document
//! (Google: `https://accounts.google.com`, GitLab: `https://gitlab.com` or one's own). GitHub is not one: see [`github`].
//!
//! [`start`] says where to send the browser; what it returns is kept on our side, bound to that browser and provider.
//! When the browser comes back, the caller compares the state and calls [`finish`] once.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use openidconnect::core::{
    CoreAuthenticationFlow, CoreClient, CoreClientAuthMethod, CoreGenderClaim, CoreIdToken, CoreIdTokenVerifier,
    CoreJwsSigningAlgorithm, CoreProviderMetadata, CoreTokenResponse, CoreUserInfoClaims,
};
use openidconnect::{
    AccessToken, AccessTokenHash, AuthType, AuthorizationCode, ClientId, ClientSecret, CsrfToken,
    EmptyAdditionalClaims, EndpointMaybeSet, EndpointNotSet, EndpointSet, IdTokenClaims, IdTokenVerifier, IssuerUrl,
    Nonce, OAuth2TokenResponse, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, Scope, TokenResponse,
};
use secrecy::{ExposeSecret, SecretString};

mod fetch;
pub mod github;
mod identity;
mod refusal;

pub use fetch::{Fetch, FetchError, MAX_RESPONSE_BYTES};
pub use identity::Identity;
pub use refusal::Refusal;

use fetch::Checked;
use identity::plain;

/// How far the provider's clock may be from ours.
const SKEW: TimeDelta = TimeDelta::seconds(60);

/// An ID token is made when the code is exchanged, so an old one is somebody's leftover.
const OLDEST: TimeDelta = TimeDelta::minutes(10);

/// Asymmetric ones only: with `none` anyone could sign, with `HS…` anyone who knows the client secret.
const ALGORITHMS: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// Ourselves, as registered at a provider.
#[derive(Debug, Clone)]
pub struct Client {
    /// Exactly as the provider writes it, final slash or not.
    pub issuer: String,
    pub client_id: String,
    pub client_secret: Option<SecretString>,
    pub redirect_url: String,
}

/// A sign-in that has begun.
#[derive(Clone)]
pub struct Start {
    /// Where the browser goes.
    pub url: String,
    /// Comes back with the browser; whoever brings another one did not begin here.
    pub state: String,
    pub nonce: String,
    pub pkce_verifier: String,
}

/// What was kept of a [`Start`] until the browser came back.
#[derive(Clone)]
pub struct Stored {
    pub nonce: String,
    pub pkce_verifier: String,
}

/// The client once discovery has told it where to go.
type Discovered =
    CoreClient<EndpointSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointMaybeSet, EndpointMaybeSet>;

/// Begins a sign-in. The random bytes become state, nonce and PKCE verifier.
pub async fn start<H: Fetch>(client: &Client, http: &H, random: [[u8; 32]; 3]) -> Result<Start, Refusal> {
    let metadata = discover(client, http).await?;
    let provider = configured(client, &metadata)?;
    let [state, nonce, pkce_verifier] = random.map(|bytes| BASE64_URL_SAFE_NO_PAD.encode(bytes));
    let challenge = PkceCodeChallenge::from_code_verifier_sha256(&PkceCodeVerifier::new(pkce_verifier.clone()));
    let (url, state, nonce) = provider
        .authorize_url(
            CoreAuthenticationFlow::AuthorizationCode,
            || CsrfToken::new(state),
            || Nonce::new(nonce),
        )
        .add_scope(Scope::new("email".to_owned()))
        .add_scope(Scope::new("profile".to_owned()))
        .set_pkce_challenge(challenge)
        .url();
    Ok(Start {
        url: url.into(),
        state: state.into_secret(),
        nonce: nonce.secret().clone(),
        pkce_verifier,
    })
}

/// Ends a sign-in: exchanges the code and verifies what comes back.
pub async fn finish<H: Fetch>(
    client: &Client,
    http: &H,
    code: &str,
    stored: &Stored,
    now: DateTime<Utc>,
) -> Result<Identity, Refusal> {
    let metadata = discover(client, http).await?;
    let provider = configured(client, &metadata)?;
    let tokens = exchange(&provider, http, code, stored).await?;
    let verifier = verifier(client, &metadata, now)?;
    let id_token = tokens.id_token().ok_or_else(Refusal::no_id_token)?;
    let nonce = Nonce::new(stored.nonce.clone());
    let claims = id_token.claims(&verifier, &nonce).map_err(Refusal::from_claims)?;
    check_authorized_party(client, claims)?;
    check_access_token(id_token, &verifier, claims, tokens.access_token())?;
    if claims.subject().is_empty() {
        return Err(Refusal::new("no_subject", "the ID token has no subject".to_owned()));
    }
    match claims.email() {
        Some(email) if !email.is_empty() => Ok(identity(claims, email)),
        _ => ask_user_info(&provider, http, &tokens, claims).await,
    }
}

fn identity(claims: &Claims, email: &str) -> Identity {
    let names = Identity::named(
        plain(claims.given_name()),
        plain(claims.family_name()),
        plain(claims.name()),
    );
    Identity {
        subject: claims.subject().to_string(),
        email: email.to_owned(),
        email_verified: claims.email_verified(),
        ..names
    }
}

async fn discover<H: Fetch>(client: &Client, http: &H) -> Result<CoreProviderMetadata, Refusal> {
    let issuer = issuer(client)?;
    let metadata = CoreProviderMetadata::discover_async(issuer, &Checked(http)).await;
    let metadata = metadata.map_err(|error| Refusal::from_discovery(&error))?;
    // The browser goes there, not our HTTP client, which checks the others.
    fetch::check_endpoint(metadata.authorization_endpoint().url()).map_err(|error| Refusal::from_fetch(&error))?;
    Ok(metadata)
}

fn issuer(client: &Client) -> Result<IssuerUrl, Refusal> {
    IssuerUrl::new(client.issuer.clone())
        .map_err(|_| Refusal::new("issuer_malformed", "the issuer is not a URL".to_owned()))
}

fn configured(client: &Client, metadata: &CoreProviderMetadata) -> Result<Discovered, Refusal> {
    let redirect = RedirectUrl::new(client.redirect_url.clone())
        .map_err(|_| Refusal::new("redirect_malformed", "the redirect URL is not a URL".to_owned()))?;
    let secret = client
        .client_secret
        .as_ref()
        .map(|secret| ClientSecret::new(secret.expose_secret().to_owned()));
    let id = ClientId::new(client.client_id.clone());
    Ok(CoreClient::from_provider_metadata(metadata.clone(), id, secret)
        .set_redirect_uri(redirect)
        .set_auth_type(auth_type(metadata)))
}

/// Basic authentication, which every provider must offer, unless it says it offers only the other.
fn auth_type(metadata: &CoreProviderMetadata) -> AuthType {
    match metadata.token_endpoint_auth_methods_supported() {
        Some(methods)
            if methods.contains(&CoreClientAuthMethod::ClientSecretPost)
                && !methods.contains(&CoreClientAuthMethod::ClientSecretBasic) =>
        {
            AuthType::RequestBody
        }
        _ => AuthType::BasicAuth,
    }
}

async fn exchange<H: Fetch>(
    provider: &Discovered,
    http: &H,
    code: &str,
    stored: &Stored,
) -> Result<CoreTokenResponse, Refusal> {
    let request = provider
        .exchange_code(AuthorizationCode::new(code.to_owned()))
        .map_err(|_| {
            Refusal::new(
                "no_token_endpoint",
                "the provider publishes no token endpoint".to_owned(),
            )
        })?
        .set_pkce_verifier(PkceCodeVerifier::new(stored.pkce_verifier.clone()));
    request
        .request_async(&Checked(http))
        .await
        .map_err(|error| Refusal::from_exchange(&error))
}

fn verifier(
    client: &Client,
    metadata: &CoreProviderMetadata,
    now: DateTime<Utc>,
) -> Result<CoreIdTokenVerifier<'static>, Refusal> {
    let id = ClientId::new(client.client_id.clone());
    // As a public client, so that no shared secret can ever be a signing key.
    let verifier = IdTokenVerifier::new_public_client(id, issuer(client)?, metadata.jwks().clone());
    Ok(verifier
        .set_allowed_algs(ALGORITHMS)
        .set_time_fn(move || now - SKEW)
        .set_issue_time_verifier_fn(move |issued| check_issue_time(issued, now)))
}

fn check_issue_time(issued: DateTime<Utc>, now: DateTime<Utc>) -> Result<(), String> {
    if issued > now + SKEW {
        return Err(format!(
            "the ID token was issued at {issued}, which is in the future; check the clocks"
        ));
    }
    if issued < now - OLDEST {
        return Err(format!(
            "the ID token was issued at {issued}, which is too long ago; check the clocks"
        ));
    }
    Ok(())
}

type Claims = IdTokenClaims<EmptyAdditionalClaims, CoreGenderClaim>;

/// Other audiences than us are refused altogether; this is about tokens made for us on another's request.
fn check_authorized_party(client: &Client, claims: &Claims) -> Result<(), Refusal> {
    match claims.authorized_party() {
        Some(party) if party.as_str() != client.client_id => {
            let detail = format!("the ID token was issued for {:?}, not for this client", party.as_str());
            Err(Refusal::new("wrong_authorized_party", detail))
        }
        _ => Ok(()),
    }
}

/// The access token must be the one that the ID token was issued with, if it says which.
fn check_access_token(
    id_token: &CoreIdToken,
    verifier: &CoreIdTokenVerifier<'_>,
    claims: &Claims,
    access_token: &AccessToken,
) -> Result<(), Refusal> {
    let Some(expected) = claims.access_token_hash() else {
        return Ok(());
    };
    let wrong = || {
        Refusal::new(
            "wrong_access_token",
            "the access token does not match the ID token (at_hash)".to_owned(),
        )
    };
    let algorithm = id_token.signing_alg().map_err(|_| wrong())?;
    let key = id_token.signing_key(verifier).map_err(|_| wrong())?;
    let actual = AccessTokenHash::from_token(access_token, algorithm, key).map_err(|_| wrong())?;
    if actual == *expected { Ok(()) } else { Err(wrong()) }
}

/// Some providers tell the address only when asked with the access token.
async fn ask_user_info<H: Fetch>(
    provider: &Discovered,
    http: &H,
    tokens: &CoreTokenResponse,
    claims: &Claims,
) -> Result<Identity, Refusal> {
    let token = tokens.access_token();
    // The library panics on a token that is no header value, and the provider chooses the token.
    if !token.secret().bytes().all(|byte| byte.is_ascii_graphic()) {
        let detail = "the provider's access token has characters that cannot be sent".to_owned();
        return Err(Refusal::new("token_malformed", detail));
    }
    let subject = claims.subject().clone();
    let request = provider
        .user_info(token.clone(), Some(subject))
        .map_err(|_| Refusal::no_email())?;
    let info: CoreUserInfoClaims = request
        .request_async(&Checked(http))
        .await
        .map_err(|error| Refusal::from_user_info(&error))?;
    let email = info
        .email()
        .filter(|email| !email.is_empty())
        .ok_or_else(Refusal::no_email)?;
    let names = Identity::named(plain(info.given_name()), plain(info.family_name()), plain(info.name()));
    Ok(Identity {
        subject: claims.subject().to_string(),
        email: email.to_string(),
        email_verified: info.email_verified(),
        ..names
    })
}

#[cfg(test)]
mod tests;
