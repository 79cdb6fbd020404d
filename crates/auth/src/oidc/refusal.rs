//! Why a sign-in was refused, as a code for programs and a sentence for administrators.

use openidconnect::core::{CoreErrorResponseType, CoreRequestTokenError};
use openidconnect::{
    ClaimsVerificationError, DiscoveryError, RequestTokenError, SignatureVerificationError, UserInfoError,
};

use super::fetch::FetchError;

/// Why nobody is signed in. Quotes tokens and responses nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Refusal {
    /// Stable, in `snake_case`.
    pub rule: &'static str,
    /// For an administrator of the organization, not for whoever tries to sign in.
    pub detail: String,
}

impl Refusal {
    pub(super) fn new(rule: &'static str, detail: String) -> Self {
        Self { rule, detail }
    }

    pub(super) fn no_id_token() -> Self {
        let detail = "the provider sent no ID token; check that the client can use the scope openid";
        Self::new("no_id_token", detail.to_owned())
    }

    pub(super) fn no_email() -> Self {
        let detail = "the provider sent no email address; allow the client the scope email";
        Self::new("no_email", detail.to_owned())
    }

    pub(super) fn from_fetch(error: &FetchError) -> Self {
        match error {
            FetchError::Endpoint { .. } => Self::new("endpoint_not_allowed", error.to_string()),
            FetchError::Failed(_) => Self::new("provider_unreachable", error.to_string()),
        }
    }

    pub(super) fn from_discovery(error: &DiscoveryError<FetchError>) -> Self {
        match error {
            DiscoveryError::Request(error) => Self::from_fetch(error),
            DiscoveryError::Validation(_) => Self::new(
                "wrong_issuer",
                "the discovery document has a different issuer; enter the issuer exactly as the provider shows it"
                    .to_owned(),
            ),
            DiscoveryError::Response(status, ..) => Self::new(
                "discovery_failed",
                format!("the provider answered {status} where its discovery document or keys should be"),
            ),
            _ => Self::new(
                "discovery_malformed",
                "the provider's discovery document or keys cannot be read; check the issuer".to_owned(),
            ),
        }
    }

    pub(super) fn from_exchange(error: &CoreRequestTokenError<FetchError>) -> Self {
        match error {
            RequestTokenError::Request(error) => Self::from_fetch(error),
            RequestTokenError::ServerResponse(response) => Self::from_error_code(response.error()),
            _ => Self::new(
                "token_response_malformed",
                "the provider's token response cannot be read".to_owned(),
            ),
        }
    }

    fn from_error_code(code: &CoreErrorResponseType) -> Self {
        match code {
            CoreErrorResponseType::InvalidClient | CoreErrorResponseType::UnauthorizedClient => Self::new(
                "invalid_client",
                "the provider does not accept the client; check the client ID and secret".to_owned(),
            ),
            // Not quoted: a text of the provider's choice.
            CoreErrorResponseType::Extension(_) => {
                Self::new("invalid_grant", "the provider refused the code".to_owned())
            }
            known => Self::new(
                "invalid_grant",
                format!("the provider refused the code ({}); sign in again", known.as_ref()),
            ),
        }
    }

    pub(super) fn from_claims(error: ClaimsVerificationError) -> Self {
        let (rule, detail) = match error {
            ClaimsVerificationError::Expired(seen) => ("token_expired", seen),
            ClaimsVerificationError::InvalidAudience(seen) => {
                ("wrong_audience", format!("the ID token's audience {seen}"))
            }
            ClaimsVerificationError::InvalidIssuer(seen) => ("wrong_issuer", format!("the ID token's issuer: {seen}")),
            ClaimsVerificationError::InvalidNonce(_) => (
                "wrong_nonce",
                "the ID token belongs to another sign-in; sign in again".to_owned(),
            ),
            ClaimsVerificationError::InvalidSubject(_) => (
                "wrong_subject",
                "the user-info endpoint returned a different subject".to_owned(),
            ),
            ClaimsVerificationError::SignatureVerification(error) => return Self::from_signature(&error),
            _ => (
                "token_not_supported",
                "this kind of ID token is not supported".to_owned(),
            ),
        };
        Self::new(rule, detail)
    }

    fn from_signature(error: &SignatureVerificationError) -> Self {
        match error {
            SignatureVerificationError::DisallowedAlg(_)
            | SignatureVerificationError::UnsupportedAlg(_)
            | SignatureVerificationError::NoSignature => Self::new(
                "algorithm_not_allowed",
                "the ID token must be signed with RS, PS, ES or EdDSA; unsigned and HS tokens are refused".to_owned(),
            ),
            SignatureVerificationError::NoMatchingKey | SignatureVerificationError::AmbiguousKeyId(_) => Self::new(
                "unknown_key",
                "the ID token is signed with a key that the provider does not publish".to_owned(),
            ),
            _ => Self::new("bad_signature", "the ID token's signature is invalid".to_owned()),
        }
    }

    pub(super) fn from_user_info(error: &UserInfoError<FetchError>) -> Self {
        match error {
            UserInfoError::Request(error) => Self::from_fetch(error),
            UserInfoError::ClaimsVerification(error) => Self::from_claims(error.clone()),
            _ => Self::new(
                "user_info_malformed",
                "the response of the provider's user-info endpoint is invalid".to_owned(),
            ),
        }
    }
}
