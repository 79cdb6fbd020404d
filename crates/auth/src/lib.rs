//! Credentials: bytes in, verified or refused. No database, no server.

pub mod key;
pub mod password;
pub mod saml;
pub mod totp;
