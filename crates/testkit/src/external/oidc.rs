//! An `OpenID` Connect provider.

use serde_json::json;

use super::process::{Folder, Process};
use super::saml::start_node;
use super::{Person, Visitor};

const CLIENT: &str = "hedgerow";
const SECRET: &str = "a-secret-of-the-tests-that-is-long-enough";

#[derive(Debug, Clone)]
pub struct OidcOptions {
    /// The only address codes are sent to.
    pub redirect_uri: String,
    /// What the claim `email_verified` says of everybody.
    pub are_emails_verified: bool,
}

/// A running provider: codes only, with PKCE, over HTTP on loopback. Its key is made when it starts.
#[derive(Debug)]
pub struct OidcProvider {
    // Before the folder: the server ends first.
    _process: Process,
    _folder: Folder,
    base: String,
}

impl OidcProvider {
    /// Starts one that vouches for everybody's address.
    pub fn start(redirect_uri: &str) -> Self {
        Self::start_with(&OidcOptions {
            redirect_uri: redirect_uri.to_owned(),
            are_emails_verified: true,
        })
    }

    pub fn start_with(options: &OidcOptions) -> Self {
        let folder = Folder::new();
        let settings = json!({
            "client_id": CLIENT,
            "client_secret": SECRET,
            "redirect_uri": options.redirect_uri,
            "are_emails_verified": options.are_emails_verified,
        });
        let (process, base) = start_node("oidc.mjs", &settings, &folder);
        Self {
            _process: process,
            _folder: folder,
            base,
        }
    }

    pub fn issuer(&self) -> &str {
        &self.base
    }

    pub fn client_id(&self) -> &'static str {
        CLIENT
    }

    pub fn client_secret(&self) -> &'static str {
        SECRET
    }

    /// Follows an authorization request, fills in the form, and returns the address the provider then redirects to.
    pub fn sign_in(&self, authorization_url: &str, person: &Person) -> String {
        self.leave_form(authorization_url, &person.fields())
    }

    /// The same, but the person refuses.
    pub fn cancel(&self, authorization_url: &str) -> String {
        self.leave_form(authorization_url, &[("cancel", "")])
    }

    fn leave_form(&self, authorization_url: &str, fields: &[(&str, &str)]) -> String {
        let mut visitor = Visitor::default();
        let mut page = visitor.get(authorization_url);
        for _ in 0..5 {
            if page.status == 200 {
                let action = page.action().unwrap_or_else(|| panic!("no form: {}", page.body));
                page = visitor.post(&self.absolute(&action), fields);
            }
            let location = page.header("location").map(|location| self.absolute(location));
            let location = location.unwrap_or_else(|| panic!("{}: {}", page.status, page.body));
            if !location.starts_with(&self.base) {
                return location;
            }
            page = visitor.get(&location);
        }
        panic!("the provider does not come to an end, at last with {page:?}");
    }

    fn absolute(&self, url: &str) -> String {
        if url.starts_with('/') {
            format!("{}{url}", self.base)
        } else {
            url.to_owned()
        }
    }
}
