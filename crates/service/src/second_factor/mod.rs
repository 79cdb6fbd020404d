//! The second factor: an authenticator's codes, and backup codes for when it is lost.

mod cases;
mod sql;

pub(crate) use cases::accept;
pub(crate) use sql::{is_set_up, remove};

/// What it takes to set an authenticator up: shown until the first code proves that it works.
#[derive(Debug, Clone)]
pub struct SetUp {
    /// To be typed by those who cannot scan.
    pub secret: String,
    pub uri: String,
    /// A picture of the URI, to be scanned.
    pub qr_svg: String,
}

/// The second factor is in place. Backup codes are shown once.
#[derive(Debug, Clone)]
pub struct Confirmed {
    pub backup_codes: Vec<String>,
    /// The session goes on under another secret, as it means more now.
    pub session: Option<String>,
}
