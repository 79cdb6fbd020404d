//! Who signed in.

use std::ops::Deref;

use openidconnect::LocalizedClaim;

/// Whom the provider vouches for. People are told apart by provider and subject; addresses change hands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    pub subject: String,
    pub email: String,
    /// Whether the provider says that the address belongs to the subject.
    pub email_verified: Option<bool>,
    pub first_name: String,
    pub last_name: String,
}

impl Identity {
    /// The names alone; a whole name is cut at its first space if its parts are not given.
    pub(super) fn named(given: Option<&str>, family: Option<&str>, whole: Option<&str>) -> Self {
        let (first, last) = match (given, family) {
            (None, None) => whole
                .map(|name| name.split_once(' ').unwrap_or((name, "")))
                .unwrap_or_default(),
            (given, family) => (given.unwrap_or_default(), family.unwrap_or_default()),
        };
        Self {
            first_name: first.trim().to_owned(),
            last_name: last.trim().to_owned(),
            ..Self::default()
        }
    }
}

/// A claim in no particular language.
pub(super) fn plain<T: Deref<Target = String>>(claim: Option<&LocalizedClaim<T>>) -> Option<&str> {
    Some(claim?.get(None)?.as_str())
}
