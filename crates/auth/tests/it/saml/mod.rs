//! SAML as an identity provider, an administrator and an attacker see it.

mod certificates;
mod fixtures;
mod genuine;
mod signer;
