//! Signing in with SAML: out by a redirect, back by a form.

use std::sync::Arc;

use auth::saml::{Expected, Refusal, Unverified, new_request_id, sign_in_url, unverified, verify};
use boxed::boxed;
use service::access::Request;
use service::domains::Domain;
use service::sso::{PendingLogin, Refused, Sso, VerifiedIdentity};
use service::{DomainId, Error, Result};
use url::Url;

use crate::{CompletedLogin, Identity, LoginRequest, own_path};

impl Identity {
    /// Where to send the browser. What comes back must come back to it, once, and soon.
    #[boxed]
    pub async fn start_saml(&self, domain: DomainId, login_request: &LoginRequest<'_>) -> Result<Url> {
        let service = &self.service;
        service.count_attempt(login_request.request)?;
        let domain = service.domain_for_sign_in(domain).await?;
        let provider = domain.identity_provider().ok_or(Error::NotFound("identity provider"))?;
        let us = domain.service_provider(service.instance());
        let id = new_request_id(service.random().bytes());
        let url = sign_in_url(&us, &provider, &id, "", service.clock().now())
            .map_err(|error| Error::refused("sso_not_ready", error.to_string()))?;
        let login = PendingLogin {
            sso: Sso::Saml,
            domain: Some((domain.organization_id, domain.id)),
            signed_in_as: login_request.signed_in_as,
            next: own_path(login_request.next).to_owned(),
            nonce: String::new(),
            pkce_verifier: String::new(),
        };
        service.begin_login(&id, &login, login_request.browser).await?;
        Ok(url)
    }

    /// Takes the form that an identity provider makes the browser send. Every refusal is noted for administrators.
    #[boxed]
    pub async fn finish_saml(
        &self,
        domain: DomainId,
        response: &str,
        browser: Option<&str>,
        request: &Request,
    ) -> Result<CompletedLogin> {
        self.service.count_return(request)?;
        let domain = self.service.domain_for_sign_in(domain).await?;
        let (identity, next) = match self.verify_response(&domain, response, browser).await? {
            Ok(verified) => verified,
            Err(Refusal {
                rule,
                detail,
                is_signed,
            }) => {
                let refused = Refused {
                    sso: Sso::Saml,
                    email: "",
                    rule: rule.code(),
                    detail: &detail,
                    is_from_idp: is_signed,
                };
                self.service.note_refusal(domain.id, &refused, request).await?;
                return Err(Error::refused(rule.code(), detail));
            }
        };
        let (user, session) = self.service.enter(&identity, request).await?;
        Ok(CompletedLogin { user, session, next })
    }

    /// Whether a response answers no request: nobody has begun to sign in here.
    #[boxed]
    pub async fn is_unsolicited(&self, response: &str, request: &Request) -> Result<bool> {
        let unverified = self.unverified(response.into()).await?;
        let is_so = unverified.is_ok_and(|unverified| unverified.in_response_to.is_none());
        if is_so {
            // All others are counted when they are finished.
            self.service.count_return(request)?;
        }
        Ok(is_so)
    }

    async fn unverified(&self, response: Arc<str>) -> Result<Result<Unverified, Refusal>> {
        self.verifications.run(move || unverified(&response)).await
    }

    async fn verify_response(
        &self,
        domain: &Domain,
        response: &str,
        browser: Option<&str>,
    ) -> Result<Result<(VerifiedIdentity, String), Refusal>> {
        let response: Arc<str> = response.into();
        let answered = match self.unverified(response.clone()).await? {
            Ok(unverified) => unverified.in_response_to,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let login = match (&answered, browser) {
            (Some(id), Some(browser)) => self.service.complete_login(id, browser).await?,
            _ => None,
        };
        let login = login.filter(|login| login.sso == Sso::Saml && login.domain.is_some_and(|(_, id)| id == domain.id));
        let provider = domain.identity_provider().ok_or(Error::NotFound("identity provider"))?;
        let us = domain.service_provider(self.service.instance());
        // An id that nobody waits for is one that cannot be right.
        let request_id = answered.filter(|_| login.is_some());
        let (allows_unsolicited, now) = (domain.saml_idp_initiated, self.service.clock().now());
        let verified = self.verifications.run(move || {
            let expected = Expected {
                sp: &us,
                idp: &provider,
                request_id: request_id.as_deref(),
                allows_unsolicited,
                now,
            };
            verify(&response, &expected)
        });
        Ok(verified.await?.map(|assertion| {
            let identity = VerifiedIdentity {
                sso: Sso::Saml,
                domain: Some(domain.id),
                subject: assertion.subject,
                email: assertion.email,
                first_name: assertion.first_name,
                last_name: assertion.last_name,
                session_until: assertion.session_not_on_or_after,
                assertion: Some((assertion.id, assertion.remember_until)),
                signed_in_as: login.as_ref().and_then(|login| login.signed_in_as),
            };
            (identity, login.map_or_else(|| "/".to_owned(), |login| login.next))
        }))
    }
}
