//! Codes that people type: those of authenticator apps, backup codes and recovery codes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::http::reply::View;

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "token": "123456" }]))]
pub(crate) struct Code {
    /// A six-digit code from an authenticator app, or a backup code.
    #[schemars(length(min = 6, max = 40))]
    pub(crate) token: String,
}

/// Recovery codes to store securely; shown once.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RecoveryCodes")]
pub(crate) struct CodesView {
    pub(crate) codes: Vec<String>,
}

impl View for CodesView {
    type Doc = Self;
}
