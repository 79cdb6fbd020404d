//! Credentials: bytes in, verified or refused. No database, no server.

pub mod encryption;
pub mod key;
pub mod oidc;
pub mod password;
pub mod saml;
pub mod totp;
