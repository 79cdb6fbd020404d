//! Signing in: the address first, then what its domain asks for.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use identity::cookies;
use serde::Deserialize;
use service::sign_in::SignIn;
use service::sso::{Precheck, Sso};
use service::{Email, Error, Service};

use crate::failure::{Failure, Problems};
use crate::field::Field;
use crate::new_session::opened;
use crate::page::{go_to, page, page_again, with_cookie, with_next};
use crate::state::Console;
use crate::visitor::{PageQuery, Sent, Visitor};

pub(crate) fn routes() -> Router<Console> {
    Router::new()
        .route("/login/", get(show).post(sign_in))
        .route("/logout/", post(sign_out))
}

/// Another way in than a password.
pub(crate) struct SignInMethod {
    pub(crate) title: &'static str,
    pub(crate) path: String,
}

#[derive(Template)]
#[template(path = "login/address.html")]
struct AddressPage {
    notice: &'static str,
    alerts: Vec<String>,
    email: Field,
    next: String,
    ways: Vec<SignInMethod>,
}

#[derive(Template)]
#[template(path = "login/password.html")]
struct PasswordPage {
    alerts: Vec<String>,
    email: Field,
    password: Field,
    next: String,
    ways: Vec<SignInMethod>,
}

/// A form must not lead to another site, so a page of ours stands between.
#[derive(Template)]
#[template(path = "login/hand_off.html")]
pub(crate) struct HandOff {
    way: SignInMethod,
    domain: String,
}

#[derive(Deserialize)]
struct Credentials {
    email: String,
    /// Not there in the first step.
    password: Option<String>,
    #[serde(default)]
    next: String,
}

async fn show(State(service): State<Service>, visitor: Visitor, asked: PageQuery) -> Result<Response, Failure> {
    if visitor.person(&service).await?.is_some() {
        return Ok(go_to(identity::own_path(&asked.next)));
    }
    Ok(page(&AddressPage {
        notice: notice(&asked.done),
        ..address_page(&service, "", &asked.next, &Problems::default())
    }))
}

fn notice(done: &str) -> &'static str {
    match done {
        "signed-out" => "You are signed out.",
        "password-set" => "Password reset. Sign in with your new password.",
        "too-late" => "Your sign-in timed out or had too many incorrect codes. Sign in again.",
        _ => "",
    }
}

async fn sign_in(
    State(service): State<Service>,
    visitor: Visitor,
    Sent(sent): Sent<Credentials>,
) -> Result<Response, Failure> {
    if let Err(mut invalid) = Email::new(&sent.email) {
        invalid.field = Some("email".into());
        let problems = Problems::try_from(Error::Invalid(vec![invalid]))?;
        return Ok(page_again(
            &problems,
            &address_page(&service, &sent.email, &sent.next, &problems),
        ));
    }
    let precheck = service.precheck(&sent.email).await?;
    if let Some(way) = enforced(&precheck, &sent.next) {
        let (_, domain) = sent.email.trim().rsplit_once('@').unwrap_or_default();
        let domain = domain.to_owned();
        return Ok(page(&HandOff { way, domain }));
    }
    let Some(password) = &sent.password else {
        return Ok(page(&password_page(&service, &precheck, &sent, &Problems::default())));
    };
    match service.sign_in(&sent.email, password, visitor.request.clone()).await {
        Ok(SignIn::Done { session, .. }) => opened(&service, visitor, &session, &sent.next).await,
        Ok(SignIn::SecondFactor { challenge }) => {
            let response = go_to(&with_next("/login/second-factor/", &sent.next));
            Ok(with_cookie(response, &cookies::set(cookies::CHALLENGE, &challenge)))
        }
        Err(error) => {
            let problems = Problems::try_from(error)?;
            Ok(page_again(
                &problems,
                &password_page(&service, &precheck, &sent, &problems),
            ))
        }
    }
}

fn address_page(service: &Service, email: &str, next: &str, problems: &Problems) -> AddressPage {
    AddressPage {
        notice: "",
        alerts: problems.besides(&["email"]),
        email: Field::email().holding(email).focused().judged(problems),
        next: identity::own_path(next).to_owned(),
        ways: ways(service, &Precheck::default(), next),
    }
}

fn password_page(service: &Service, precheck: &Precheck, sent: &Credentials, problems: &Problems) -> PasswordPage {
    let password = Field::password("password", "Password", "current-password");
    PasswordPage {
        alerts: problems.besides(&["password"]),
        email: Field::email().holding(sent.email.trim()).fixed(),
        password: password.focused().judged(problems),
        next: identity::own_path(&sent.next).to_owned(),
        ways: ways(service, precheck, &sent.next),
    }
}

/// The only way in, where a domain has one.
pub(crate) fn enforced(precheck: &Precheck, next: &str) -> Option<SignInMethod> {
    way(precheck.enforced?, precheck, next)
}

/// Every way in but a password: the domain's own, then those of the instance.
pub(crate) fn ways(service: &Service, precheck: &Precheck, next: &str) -> Vec<SignInMethod> {
    let own = [(Sso::Saml, precheck.has_saml), (Sso::Oidc, precheck.has_oidc)];
    let own = own.into_iter().filter(|(_, is_set_up)| *is_set_up).map(|(sso, _)| sso);
    let shared = service.instance().providers.iter().copied();
    own.chain(shared).filter_map(|sso| way(sso, precheck, next)).collect()
}

fn way(sso: Sso, precheck: &Precheck, next: &str) -> Option<SignInMethod> {
    let path = match sso {
        Sso::Saml | Sso::Oidc => format!("/{sso}/{}/login/", precheck.domain?),
        Sso::Google | Sso::GitHub | Sso::GitLab => format!("/sso/{sso}/login/"),
    };
    Some(SignInMethod {
        title: sso.title(),
        path: with_next(&path, next),
    })
}

#[derive(Deserialize)]
struct SignOutForm {
    #[serde(default)]
    next: String,
}

async fn sign_out(
    State(service): State<Service>,
    visitor: Visitor,
    Sent(sent): Sent<SignOutForm>,
) -> Result<Response, Failure> {
    if let Some(session) = &visitor.session {
        service.sign_out(session, visitor.request).await?;
    }
    let next = match identity::own_path(&sent.next) {
        "/" => "/login/?done=signed-out",
        next => next,
    };
    Ok(with_cookie(go_to(next), &cookies::end(cookies::SESSION)))
}
