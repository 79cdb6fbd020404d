//! What browsers keep for us. Both the API and the pages read and write these.

use http::{HeaderMap, header};

/// Somebody is signed in.
pub const SESSION: &str = "__Host-hedgerow_session";
/// A password was right, and a code is asked for.
pub const CHALLENGE: &str = "__Host-hedgerow_challenge";
/// Which browser was sent to an identity provider.
pub const BROWSER: &str = "__Host-hedgerow_browser";

/// The value of a cookie that the browser sent.
pub fn find<'a>(headers: &'a HeaderMap, wanted: &str) -> Option<&'a str> {
    let lines = headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let mut pairs = lines
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == wanted).map(|(_, value)| value)
}

/// Kept until the browser is closed; only sent to us, and along with links but not with forms of other sites.
pub fn set(name: &str, value: &str) -> String {
    format!("{name}={value}; Path=/; Secure; HttpOnly; SameSite=Lax")
}

/// The same, sent along with forms of other sites, too: an identity provider's answer is one.
pub fn set_for_answers(name: &str, value: &str) -> String {
    format!("{name}={value}; Path=/; Secure; HttpOnly; SameSite=None")
}

pub fn end(name: &str) -> String {
    format!("{name}=; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=0")
}
