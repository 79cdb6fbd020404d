//! Signing in with OpenID Connect, and with GitHub, which has a way of its own: out by a redirect, back by a redirect.

use auth::oidc::{self, FetchError, Identity as Person, Refusal, Stored, github};
use boxed::boxed;
use http::{Request as HttpRequest, Response as HttpResponse};
use secrecy::SecretString;
use service::access::Request;
use service::domains::Domain;
use service::sso::{PendingLogin, Refused, Sso, VerifiedIdentity};
use service::{DomainId, Error, OrganizationId, Result};

use crate::{CompletedLogin, Identity, LoginRequest, own_path};

/// A provider that the instance is registered at.
#[derive(Debug, Clone)]
pub struct Provider {
    pub client_id: String,
    pub client_secret: SecretString,
    /// Where it is, if not at its usual place: an enterprise's own.
    pub url: Option<String>,
}

/// The providers that anybody may sign in with.
#[derive(Debug, Clone, Default)]
pub struct Providers {
    pub google: Option<Provider>,
    pub github: Option<Provider>,
    pub gitlab: Option<Provider>,
}

impl Providers {
    pub fn set_up(&self) -> Vec<Sso> {
        Sso::ALL.into_iter().filter(|sso| self.of(*sso).is_some()).collect()
    }

    fn of(&self, sso: Sso) -> Option<&Provider> {
        match sso {
            Sso::Google => self.google.as_ref(),
            Sso::GitHub => self.github.as_ref(),
            Sso::GitLab => self.gitlab.as_ref(),
            Sso::Saml | Sso::Oidc => None,
        }
    }
}

/// Whose sign-in page to go to.
#[derive(Debug, Clone, Copy)]
pub enum Target {
    Domain(DomainId),
    Instance(Sso),
}

impl Target {
    fn is_of(self, login: &PendingLogin) -> bool {
        match self {
            Self::Domain(id) => login.sso == Sso::Oidc && login.domain.is_some_and(|(_, domain)| domain == id),
            Self::Instance(sso) => login.sso == sso && login.domain.is_none(),
        }
    }
}

/// Ourselves, as a provider knows us.
enum Client {
    Oidc(oidc::Client),
    GitHub(github::Client),
}

const GOOGLE: &str = "https://accounts.google.com";
const GITLAB: &str = "https://gitlab.com";
const GITHUB: &str = "https://github.com";
const GITHUB_API: &str = "https://api.github.com";

impl Identity {
    /// Where to send the browser. What comes back must come back to it, once, and soon.
    #[boxed]
    pub async fn start_oidc(&self, target: Target, login_request: &LoginRequest<'_>) -> Result<String> {
        self.service.count_attempt(login_request.request)?;
        let (sso, domain) = match target {
            Target::Domain(id) => {
                let domain = self.service.domain_for_sign_in(id).await?;
                (Sso::Oidc, Some((domain.organization_id, domain.id)))
            }
            Target::Instance(sso) => (sso, None),
        };
        let id = domain.map(|(_, id)| id);
        let client = self.client(sso, id).await?;
        let organization = domain.map(|(organization, _)| organization);
        let _permit = self.exchanges.begin(organization).await;
        let random = self.service.random();
        let start = match &client {
            Client::Oidc(client) => {
                let random = [random.bytes(), random.bytes(), random.bytes()];
                oidc::start(client, &|request| self.fetch(organization, request), random).await
            }
            Client::GitHub(client) => github::start(client, [random.bytes(), random.bytes()]),
        };
        let start = match start {
            Ok(start) => start,
            Err(refusal) => return Err(self.refuse(id, sso, refusal, login_request.request).await),
        };
        let login = PendingLogin {
            sso,
            domain,
            signed_in_as: login_request.signed_in_as,
            next: own_path(login_request.next).to_owned(),
            nonce: start.nonce,
            pkce_verifier: start.pkce_verifier,
        };
        self.service
            .begin_login(&start.state, &login, login_request.browser)
            .await?;
        Ok(start.url)
    }

    /// Takes the code that a provider makes the browser bring. Every refusal is noted for administrators.
    ///
    /// `target` is whose address it was brought to: what one provider's sign-in began with, no other can end.
    #[boxed]
    pub async fn finish_oidc(
        &self,
        target: Target,
        state: &str,
        code: &str,
        browser: &str,
        request: &Request,
    ) -> Result<CompletedLogin> {
        self.service.count_return(request)?;
        let login = self.service.complete_login(state, browser).await?;
        let login = login.filter(|login| target.is_of(login)).ok_or_else(|| {
            let detail = "This sign-in was not started in this browser, took too long, or was already finished.";
            Error::refused("unknown_state", detail)
        })?;
        let domain = login.domain.map(|(_, id)| id);
        match self.verified_identity(&login, domain, code).await? {
            Ok(identity) => {
                let (user, session) = self.service.enter(&identity, request).await?;
                let next = login.next;
                Ok(CompletedLogin { user, session, next })
            }
            Err(refusal) => Err(self.refuse(domain, login.sso, refusal, request).await),
        }
    }

    /// Notes a refusal where administrators look for it.
    async fn refuse(&self, domain: Option<DomainId>, sso: Sso, refusal: Refusal, request: &Request) -> Error {
        let Refusal { rule, detail } = refusal;
        if let Some(domain) = domain
            && let Err(error) = self.note_unverified(domain, sso, rule, &detail, request).await
        {
            return error;
        }
        Error::refused(rule, detail)
    }

    /// Anybody can set out and come back with something made up.
    async fn note_unverified(
        &self,
        domain: DomainId,
        sso: Sso,
        rule: &str,
        detail: &str,
        request: &Request,
    ) -> Result<()> {
        let refused = Refused {
            sso,
            email: "",
            rule,
            detail,
            is_from_idp: false,
        };
        self.service.note_refusal(domain, &refused, request).await
    }

    /// A provider that sends people back without a code, for a reason of its own.
    #[boxed]
    pub async fn note_oidc_error(&self, state: &str, error: &str, browser: &str, request: &Request) -> Result<()> {
        self.service.count_return(request)?;
        let Some(login) = self.service.complete_login(state, browser).await? else {
            return Ok(());
        };
        if let Some((_, domain)) = login.domain {
            let shown: String = error.chars().filter(char::is_ascii_graphic).take(100).collect();
            let detail = format!("The provider returned the error {shown}.");
            self.note_unverified(domain, login.sso, "provider_error", &detail, request)
                .await?;
        }
        Ok(())
    }

    async fn verified_identity(
        &self,
        login: &PendingLogin,
        domain: Option<DomainId>,
        code: &str,
    ) -> Result<Result<VerifiedIdentity, Refusal>> {
        let client = self.client(login.sso, domain).await?;
        let organization = login.domain.map(|(organization, _)| organization);
        let _permit = self.exchanges.begin(organization).await;
        let fetch = |request| self.fetch(organization, request);
        let person = match &client {
            Client::Oidc(client) => {
                let stored = Stored {
                    nonce: login.nonce.clone(),
                    pkce_verifier: login.pkce_verifier.clone(),
                };
                oidc::finish(client, &fetch, code, &stored, self.service.clock().now()).await
            }
            Client::GitHub(client) => github::finish(client, &fetch, code, &login.pkce_verifier).await,
        };
        Ok(person.and_then(|person| verified_identity(person, login, domain)))
    }

    async fn client(&self, sso: Sso, domain: Option<DomainId>) -> Result<Client> {
        if let Some(id) = domain {
            return self.client_of_domain(id).await;
        }
        let redirect_url = self.service.instance().sso_redirect_url(sso);
        let provider = self
            .deps
            .providers
            .of(sso)
            .ok_or(Error::NotFound("identity provider"))?;
        let Provider {
            client_id,
            client_secret,
            url,
        } = provider.clone();
        let url = url.map(|url| url.trim_end_matches('/').to_owned());
        if sso == Sso::GitHub {
            // An enterprise's own server has its API below its own address.
            let api_url = url
                .as_ref()
                .map_or(GITHUB_API.to_owned(), |url| format!("{url}/api/v3"));
            return Ok(Client::GitHub(github::Client {
                web_url: url.unwrap_or_else(|| GITHUB.to_owned()),
                api_url,
                client_id,
                client_secret,
                redirect_url,
            }));
        }
        let usual = if sso == Sso::Google { GOOGLE } else { GITLAB };
        Ok(Client::Oidc(oidc::Client {
            issuer: url.unwrap_or_else(|| usual.to_owned()),
            client_id,
            client_secret: Some(client_secret),
            redirect_url,
        }))
    }

    async fn client_of_domain(&self, id: DomainId) -> Result<Client> {
        let domain = self.service.domain_for_sign_in(id).await?;
        if !domain.has_oidc() {
            return Err(Error::NotFound("identity provider"));
        }
        Ok(Client::Oidc(self.own_client(&domain)?))
    }

    fn own_client(&self, domain: &Domain) -> Result<oidc::Client> {
        let instance = self.service.instance();
        Ok(oidc::Client {
            issuer: domain.oidc_issuer.clone(),
            client_id: domain.oidc_client_id.clone(),
            client_secret: domain.oidc_secret(instance)?.map(SecretString::from),
            redirect_url: instance.oidc_redirect_url(domain.id),
        })
    }

    async fn fetch(
        &self,
        organization: Option<OrganizationId>,
        request: HttpRequest<Vec<u8>>,
    ) -> Result<HttpResponse<Vec<u8>>, FetchError> {
        let http = self.http_of(organization).limited_to(oidc::MAX_RESPONSE_BYTES);
        http.send(request).await.map_err(FetchError::new)
    }

    /// Whether an OpenID provider says of itself what it should, for the diagnostics.
    pub(crate) async fn discover(&self, domain: &Domain) -> Result<Result<(), Refusal>> {
        let client = self.own_client(domain)?;
        let random = self.service.random();
        let random = [random.bytes(), random.bytes(), random.bytes()];
        let organization = Some(domain.organization_id);
        let _permit = self.exchanges.begin(organization).await;
        Ok(
            oidc::start(&client, &|request| self.fetch(organization, request), random)
                .await
                .map(drop),
        )
    }
}

/// The instance's own providers speak for anybody, so they must say that the address is the person's. An organization's
/// own speaks for the organization's own domains, which is checked where it counts; many never say. None may say no: where
/// people can register themselves, anybody can claim any address.
fn verified_identity(
    person: Person,
    login: &PendingLogin,
    domain: Option<DomainId>,
) -> Result<VerifiedIdentity, Refusal> {
    let is_sure = person.email_verified.unwrap_or(domain.is_some());
    if !is_sure {
        return Err(Refusal {
            rule: "email_not_verified",
            detail: "The provider did not confirm that the email address is verified.".to_owned(),
        });
    }
    Ok(VerifiedIdentity {
        sso: login.sso,
        signed_in_as: login.signed_in_as,
        domain,
        subject: person.subject,
        email: person.email,
        first_name: person.first_name,
        last_name: person.last_name,
        session_until: None,
        assertion: None,
    })
}
