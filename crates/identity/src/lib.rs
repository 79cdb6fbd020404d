//! What takes both the service and the network: proving domains, single sign-on, sending mail.
//!
//! The service decides and remembers; [`outbound`] reaches out; here the two are brought together. No decision about who
//! gets in is made here: an identity provider's answer is verified by [`auth`], and what it may mean by [`service`].

pub mod cookies;
mod diagnostics;
mod domains;
mod email_templates;
mod exchanges;
mod mail;
mod oidc;
mod saml;
mod verifications;
mod work;

pub use diagnostics::{Step, Verdict};
pub use domains::MetadataSource;
pub use oidc::{Provider, Providers, Target};

use std::sync::Arc;

use outbound::{Dns, Http, Mailer};
use service::access::Request;
use service::sessions::OwnProof;
use service::users::User;
use service::{OrganizationId, Service};
use url::Url;

use self::exchanges::Exchanges;
use self::verifications::Verifications;

/// Cheap to clone; every clone is the same.
#[derive(Clone)]
pub struct Identity {
    service: Service,
    deps: Arc<IdentityDeps>,
    exchanges: Arc<Exchanges>,
    verifications: Verifications,
}

/// The ways out.
pub struct IdentityDeps {
    pub http: Http,
    pub dns: Dns,
    /// None: no mail is sent.
    pub mailer: Option<Mailer>,
    /// Whom anybody may sign in with.
    pub providers: Providers,
}

/// How somebody sets out to sign in elsewhere.
#[derive(Debug, Clone, Copy)]
pub struct LoginRequest<'a> {
    /// Where to go when it is done.
    pub next: &'a str,
    /// What only this browser knows.
    pub browser: &'a str,
    /// Whose account it is signed in to already.
    pub signed_in_as: Option<OwnProof>,
    pub request: &'a Request,
}

/// Somebody who got in through an identity provider.
#[derive(Debug, Clone)]
pub struct CompletedLogin {
    pub user: User,
    pub session: String,
    /// The path to go to.
    pub next: String,
}

impl Identity {
    pub fn new(service: Service, deps: IdentityDeps) -> Self {
        Self {
            service,
            deps: Arc::new(deps),
            exchanges: Arc::default(),
            verifications: Verifications::default(),
        }
    }

    /// What an organization's own choice of hosts is asked with: its look-ups count together, and it keeps no connections.
    fn http_of(&self, organization: Option<OrganizationId>) -> Http {
        let http = self.deps.http.clone();
        match organization {
            Some(organization) => http.of_programs(organization.0.as_u128()),
            None => http,
        }
    }

    pub fn service(&self) -> &Service {
        &self.service
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// Where signing in with an organization's own provider begins.
const BEGINNINGS: [&str; 2] = ["/saml/", "/oidc/"];

/// Where somebody may be sent after signing in: a path of ours, nothing that a browser could read as another host, and nothing that
/// signs them in again, as whoever another organization's provider likes.
pub fn own_path(text: &str) -> &str {
    if is_own_path(text) && !begins_sign_in(text) {
        text
    } else {
        "/"
    }
}

/// Whether it is a path, for every browser.
pub fn is_own_path(text: &str) -> bool {
    text.starts_with('/')
        && !text.starts_with("//")
        && !text.contains('\\')
        && !text.chars().any(char::is_control)
        && text.len() <= 1000
}

/// As browsers read it, which leave out `.` and `..`.
fn begins_sign_in(path: &str) -> bool {
    let url = Url::parse("http://hedgerow.invalid/").and_then(|site| site.join(path));
    url.is_ok_and(|url| BEGINNINGS.iter().any(|beginning| url.path().starts_with(beginning)))
}

#[cfg(test)]
mod tests {
    use super::own_path;

    #[test]
    fn nobody_is_sent_to_another_host() {
        for own in ["/", "/account/keys/?page=2", "/signup/hgi_abc/"] {
            assert_eq!(own_path(own), own);
        }
        for foreign in [
            "",
            "//evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "https://evil.example",
            "javascript:alert(1)",
            "/\t/evil.example",
            "/saml/018f/login/",
            "/oidc/018f/login/?next=/",
            "/./saml/018f/login/",
            "/account/../oidc/018f/login/",
            "/%2e/saml/018f/login/",
            "/account/%2E%2e/saml/018f/login/",
            "account/",
            "https:evil.example",
            "/\n/evil.example",
            "@evil.example",
        ] {
            assert_eq!(own_path(foreign), "/", "{foreign}");
        }
    }
}
