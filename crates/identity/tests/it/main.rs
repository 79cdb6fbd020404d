//! Identity with external services: name server, mail server, identity providers. Everything stays on this machine.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod diagnostics;
mod dns;
mod key_rotation;
mod mail;
mod mail_at_once;
mod oidc;
mod outbound_safety;
mod saml;
mod scene;
