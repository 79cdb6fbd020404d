//! External services for tests: a mail server, a name server, identity providers, stores of objects, a browser.
//!
//! Each is a process of its own on a free loopback port, which ends with its handle, or with the test process if no
//! handle can be dropped. `cargo xtask test` installs what they need, and `cargo xtask components` nothing else.
//! Starting blocks until the service is ready, which takes less than a second unless the machine is busy.

pub mod browser;
mod certificates;
mod clickhouse;
mod dns;
mod duckdb;
mod http;
mod objects;
mod oidc;
mod postgres;
mod process;
mod receiver;
mod relay;
mod saml;
mod simple_saml;
mod smtp;
pub mod warehouses;

use std::path::{Path, PathBuf};

use serde_json::Value;

pub use clickhouse::{ClickHouse, Cut, OldClickHouse};
pub(crate) use process::Folder;

pub use dns::{Dns, SilentDns};
pub use duckdb::duckdb;
pub use http::{Page, Visitor};
pub use objects::{AZURE_ACCOUNT, ObjectStore, S3_KEY};
pub use oidc::{OidcOptions, OidcProvider};
pub use postgres::{PASSWORD as POSTGRES_PASSWORD, PostgresOptions, PostgresServer, PostgresVersion};
pub use receiver::{Received, Receiver};
pub use relay::Relay;
pub use saml::{SamlAnswer, SamlIdp, SamlOptions, Signed};
pub use simple_saml::{SimpleSamlIdp, SimpleSamlOptions};
pub use smtp::{Mail, Smtp, SmtpOptions, Tls};

/// Somebody who signs in at an identity provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// What the provider knows them by: the name identifier of SAML, the subject of OIDC.
    pub id: String,
    pub email: String,
    pub first_name: String,
    pub last_name: String,
}

impl Person {
    /// Known to the provider by their address.
    pub fn new(email: &str, first_name: &str, last_name: &str) -> Self {
        Self {
            id: email.to_owned(),
            email: email.to_owned(),
            first_name: first_name.to_owned(),
            last_name: last_name.to_owned(),
        }
    }

    /// The fields of both providers' forms.
    fn fields(&self) -> [(&str, &str); 4] {
        [
            ("id", &self.id),
            ("email", &self.email),
            ("first_name", &self.first_name),
            ("last_name", &self.last_name),
        ]
    }

    fn json(&self) -> Value {
        self.fields().into_iter().collect()
    }
}

/// Where packages are that were not installed for the whole machine.
pub fn folder() -> PathBuf {
    let folder = std::env::var_os("TESTKIT_COMPONENTS").map(PathBuf::from);
    folder.expect("run `cargo xtask test`, or set TESTKIT_COMPONENTS")
}

/// One of our own scripts around a real program.
fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("external").join(name)
}
