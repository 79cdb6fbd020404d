//! Signing in with a key pair.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::TimeDelta;
use secrecy::ExposeSecret;
use serde_json::json;
use service::Time;
use service::batch_exports::destination::Snowflake as Config;
use sha2::{Digest, Sha256};

use crate::Error;
use crate::destinations::staging::private_key;

/// The server refuses tokens that are valid for longer than an hour.
const VALID_FOR: TimeDelta = TimeDelta::minutes(5);

/// Whether there is a key that can be used.
pub(super) fn check(config: &Config) -> Result<(), Error> {
    let missing = || Error::plain("key pair authentication requires the private key").in_key("private_key");
    let pem = config.private_key.as_ref().ok_or_else(missing)?;
    private_key(pem, config.private_key_passphrase.as_ref()).map(drop)
}

/// A token that stands for the password.
pub(super) fn token(config: &Config, now: Time) -> Result<String, Error> {
    let missing = || Error::plain("key pair authentication requires the private key");
    let pem = config.private_key.as_ref().ok_or_else(missing)?;
    let signer = private_key(pem, config.private_key_passphrase.as_ref())?;
    let user = config.user.expose_secret().to_uppercase();
    let subject = format!("{}.{user}", account_name(&config.account));
    let fingerprint = STANDARD.encode(Sha256::digest(signer.public_key_info()));
    let claims = json!({
        "iss": format!("{subject}.SHA256:{fingerprint}"),
        "sub": subject,
        "iat": now.timestamp(),
        "exp": (now + VALID_FOR).timestamp(),
    });
    signer.sign(json!({}), &claims)
}

/// The account without region and cloud, as the server knows it.
pub(super) fn account_name(account: &str) -> String {
    let name = account.split('.').next().unwrap_or_default();
    name.to_uppercase()
}
