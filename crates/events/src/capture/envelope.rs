//! What a request says about its body.

use std::net::IpAddr;

use serde_json::Value;

use super::refusal::Refusal;
use super::{time, unpack};
use crate::Time;

/// What the request says about its body.
#[derive(Debug, Clone, Copy)]
pub struct Envelope<'a> {
    /// The part of the address after `?`.
    pub parameters: &'a Parameters,
    /// Where the request came from.
    pub address: Option<IpAddr>,
    /// What events without a name are called. Without it they are refused.
    pub unnamed: Option<&'static str>,
    pub now: Time,
}

/// What the address may carry beside the body.
#[derive(Debug, Default)]
pub struct Parameters {
    data: String,
    pub(super) token: String,
    pub(super) sent_at: Option<Time>,
}

impl Parameters {
    /// From the part of the address after `?` and the header `Content-Encoding`. The bytes alone tell how they are
    /// packed, because senders and proxies often say it wrong; but a name must be one of those that are recognized.
    pub fn read(query: &str, encoding: &str) -> Result<Self, Refusal> {
        let mut parameters = Self::default();
        let mut is_known = unpack::is_known(encoding);
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "data" => parameters.data = value.into_owned(),
                "compression" => is_known &= unpack::is_known(&value),
                "token" | "api_key" => parameters.token = value.into_owned(),
                "sent_at" | "_" => parameters.sent_at = time::read(&Value::String(value.into_owned())),
                _ => {}
            }
        }
        if is_known {
            Ok(parameters)
        } else {
            Err(Refusal::UnknownPacking)
        }
    }

    /// The token in the address. One in the body wins over it.
    pub fn token(&self) -> Option<&str> {
        Some(self.token.trim()).filter(|token| !token.is_empty())
    }

    /// What stands in the address in place of a body.
    pub fn take_data(&mut self) -> Option<Vec<u8>> {
        let data = std::mem::take(&mut self.data);
        (!data.is_empty()).then(|| data.into_bytes())
    }
}
