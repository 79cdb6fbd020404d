//! The one guarded way out: every connection to a place that a user chose is made here.
//!
//! [`Policy`] decides which addresses may be dialed, [`Dialer`] resolves a name once and dials only what was
//! checked, [`Http`] speaks HTTP through it. [`Dns`] and [`Mailer`] talk to servers the operator chose.

pub mod dial;
pub mod dns;
pub mod http;
pub mod mail;
mod names;
mod outgoing;
pub mod policy;
pub mod tls;

pub use dial::{DialError, Dialer};
pub use dns::{Dns, DnsError};
pub use http::{Chunks, Http, HttpError, Meter};
pub use mail::{BadMailSettings, Mail, MailError, Mailer};
pub use names::Resolve;
pub use policy::{Policy, Refusal, Rule};
pub use tls::{BadCertificates, Roots};
