//! Signing in with SAML: out by a redirect, back by a form.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use auth::saml::{Expected, Refusal, new_request_id, sign_in_url, unverified, verify};
use service::access::Request;
use service::domains::Domain;
use service::sso::{PendingLogin, Refused, Sso, VerifiedIdentity};
use service::{DomainId, Error, FairSemaphore, Result, Slow};
use url::Url;

use crate::{CompletedLogin, Identity, LoginRequest, own_path};

/// Reads responses beside the requests, and few at a time: anybody can send one that takes long. Subnets take turns, and those whose
/// responses take long share one of the two places.
#[derive(Debug, Clone)]
pub(crate) struct Verifications(FairSemaphore);

impl Default for Verifications {
    fn default() -> Self {
        let slow = Slow {
            after: Duration::from_millis(50),
            permits: 1,
        };
        Self(FairSemaphore::new("Reading SAML responses", 2, slow))
    }
}

impl Verifications {
    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let permit = self.0.acquire().await?;
        // The work goes on if nobody waits for it any more, and so does the permit.
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(permit);
            done
        });
        Ok(done.await.unwrap_or_else(|error| resume_unwind(error.into_panic())))
    }
}

impl Identity {
    /// Where to send the browser. What comes back must come back to it, once, and soon.
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

    async fn verify_response(
        &self,
        domain: &Domain,
        response: &str,
        browser: Option<&str>,
    ) -> Result<Result<(VerifiedIdentity, String), Refusal>> {
        let response: Arc<str> = response.into();
        let unverified = self.verifications.run({
            let response = response.clone();
            move || unverified(&response)
        });
        let answered = match unverified.await? {
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

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::mpsc;
    use std::time::Instant;

    use service::caller::on_behalf_of;
    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test]
    async fn responses_of_one_subnet_keep_no_other_waiting() {
        const EACH: Duration = Duration::from_millis(100);
        let verifications = Verifications::default();
        let mut theirs = JoinSet::new();
        for number in 0..40 {
            let (verifications, address) = (verifications.clone(), IpAddr::from([192, 0, 2, number]));
            theirs.spawn(async move {
                let reading = verifications.run(|| {
                    let (_open, silent) = mpsc::channel::<()>();
                    silent.recv_timeout(EACH)
                });
                on_behalf_of(Some(address), reading).await
            });
        }
        tokio::task::yield_now().await;
        let began = Instant::now();
        let own = on_behalf_of(Some(IpAddr::from([198, 51, 100, 1])), verifications.run(|| ()));
        assert!(own.await.is_ok());
        assert!(began.elapsed() < EACH * 10, "{:?}", began.elapsed());
    }
}
