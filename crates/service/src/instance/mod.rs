//! What this installation is, as told by whoever starts it.

mod cases;

use auth::encryption::Encryptor;

use crate::id::DomainId;
use crate::limits::HourlyLimits;
use crate::sso::Sso;

#[derive(Debug, Clone)]
pub struct Instance {
    /// Where links in mail begin, and what identity providers know us by; without a slash at the end.
    pub site_url: String,
    /// Whether there is a mail server. Without one, no mail is written.
    pub sends_mail: bool,
    /// For how long an invite is good.
    pub invite_days: i64,
    /// The providers that anybody may sign in with, as far as the instance has set them up.
    pub providers: Vec<Sso>,
    pub encryptor: Encryptor,
    pub hourly_limits: HourlyLimits,
}

impl Instance {
    pub const INVITE_DAYS: i64 = 3;

    /// One without mail, for tests and for commands that need none.
    pub fn plain(encryptor: Encryptor) -> Self {
        Self {
            site_url: "http://127.0.0.1:8000".to_owned(),
            sends_mail: false,
            invite_days: Self::INVITE_DAYS,
            providers: Vec::new(),
            encryptor,
            hourly_limits: HourlyLimits::default(),
        }
    }

    /// Where a domain's OpenID provider sends people back to, to be registered there. Each provider has an address of its
    /// own: with one for all, a hostile one could have the codes of another brought to it.
    pub fn oidc_redirect_url(&self, domain: DomainId) -> String {
        format!("{}/oidc/{domain}/callback/", self.site_url)
    }

    /// The same for a provider of the whole instance.
    pub fn sso_redirect_url(&self, sso: Sso) -> String {
        format!("{}/sso/{sso}/callback/", self.site_url)
    }
}
