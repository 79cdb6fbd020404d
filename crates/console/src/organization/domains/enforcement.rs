//! Enforcing a way in: choose, see what it means, and only then do it.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use serde_json::json;
use service::access::{ChangeDomains, MakeRecoveryCodes};
use service::domains::{Domain, DomainPatch};
use service::sso::{Consequences, NewMember, Sso};
use service::{DomainId, Email, Service, UserUuid};

use super::frame::{below, frame_below};
use crate::choices::Select;
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::form_version::FormVersion;
use crate::organization::OrganizationAccess;
use crate::organization::frame::Frame;
use crate::page::{go_to, page_again};
use crate::show;
use crate::state::Console;
use crate::visitor::{Id, InQuery, Sent};

pub(super) fn routes() -> Router<Console> {
    Router::new().route(
        "/organizations/{organization}/domains/{domain}/enforcement/",
        get(weigh).post(enforce),
    )
}

/// What can be chosen: the domain's own providers, those of the server, and what is chosen now.
pub(super) fn choice(service: &Service, domain: &Domain) -> Select {
    let providers = &service.instance().providers;
    let is_offered = |sso: &Sso| match sso {
        Sso::Saml | Sso::Oidc => true,
        shared => providers.contains(shared) || shared.as_str() == domain.sso_enforcement,
    };
    let ways = Sso::ALL.into_iter().filter(is_offered);
    let options = ways.map(|sso| (sso.as_str(), with_this_alone(sso)));
    let all = [("", "Any method")].into_iter().chain(options);
    Select::new("sso_enforcement", "Sign-in method", all, &domain.sso_enforcement)
}

fn with_this_alone(sso: Sso) -> &'static str {
    match sso {
        Sso::Saml => "Require SAML",
        Sso::Oidc => "Require OpenID Connect",
        Sso::Google => "Require Google",
        Sso::GitHub => "Require GitHub",
        Sso::GitLab => "Require GitLab",
    }
}

#[derive(Debug, Default, Deserialize)]
struct EnforcementForm {
    sso_enforcement: Option<String>,
    #[serde(default)]
    seen: FormVersion,
}

/// What somebody decided on.
#[derive(Clone, Copy)]
enum Decision {
    AsTheyLike,
    Only(Sso),
}

impl EnforcementForm {
    /// Nothing if what was sent is no choice.
    fn decision(&self) -> Option<Decision> {
        match self.sso_enforcement.as_deref()? {
            "" => Some(Decision::AsTheyLike),
            text => text.parse().ok().map(Decision::Only),
        }
    }
}

async fn weigh(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeDomains>,
    Id(id): Id<DomainId>,
    InQuery(chosen): InQuery<EnforcementForm>,
) -> Result<Response, Failure> {
    let domain = service.domain(&access.caller, id).await?;
    match chosen.decision() {
        Some(decision) => {
            let seen = FormVersion::of(domain.updated_at);
            confirm_page(&service, &access, &domain, decision, seen, &Problems::default()).await
        }
        None => Ok(go_to(&access.path(&below(id)))),
    }
}

async fn enforce(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeDomains>,
    Id(id): Id<DomainId>,
    Sent(chosen): Sent<EnforcementForm>,
) -> Result<Response, Failure> {
    let decision = chosen.decision().ok_or(Failure::Unreadable)?;
    let patch = DomainPatch {
        sso_enforcement: chosen.sso_enforcement.clone(),
        ..DomainPatch::default()
    };
    let precondition = |now: &Domain| chosen.seen.fits(now.updated_at);
    match service.update_domain(&access.caller, id, &patch, &precondition).await {
        Ok(domain) => {
            let done = match decision {
                Decision::Only(_) if domain.is_verified() => "enforced",
                Decision::Only(_) => "enforced-later",
                Decision::AsTheyLike => "not-enforced",
            };
            Ok(go_to(&access.path(&format!("{}?done={done}", below(id)))))
        }
        Err(error) => {
            let domain = service.domain(&access.caller, id).await?;
            let problems = Problems::try_from(error)?;
            confirm_page(&service, &access, &domain, decision, chosen.seen, &problems).await
        }
    }
}

#[derive(Template)]
#[template(path = "organization/domains/enforcement.html")]
struct EnforcementPage {
    frame: Frame,
    alerts: Vec<String>,
    id: DomainId,
    name: String,
    is_verified: bool,
    seen: FormVersion,
    /// None: it is to be disabled.
    plan: Option<Plan>,
    curl: AsCurl,
}

/// What is about to be enforced.
struct Plan {
    way: Sso,
    title: &'static str,
    /// Where it is set up, below the domain; the server's own providers are not set up here.
    set_up: Option<&'static str>,
    refusal: Option<String>,
    affected: String,
    named: Vec<Affected>,
    more: i64,
    is_about_you: bool,
    may_make_codes: bool,
}

/// Somebody who has never signed in that way.
struct Affected {
    uuid: UserUuid,
    email: String,
    level: &'static str,
}

impl From<NewMember> for Affected {
    fn from(member: NewMember) -> Self {
        Self {
            uuid: member.uuid,
            email: member.email,
            level: show::level(member.level),
        }
    }
}

impl Plan {
    fn new(access: &OrganizationAccess<ChangeDomains>, domain: &Domain, way: Sso, found: Consequences) -> Self {
        let own = Email::new(&access.account.user.email);
        let named = i64::try_from(found.named.len()).unwrap_or(i64::MAX);
        Self {
            affected: affected(domain, way, &found),
            way,
            title: way.title(),
            set_up: match way {
                Sso::Saml => Some("saml/"),
                Sso::Oidc => Some("oidc/"),
                _ => None,
            },
            refusal: found.refusal.map(|reason| show::sentence(&reason)),
            more: found.new_members - named,
            named: found.named.into_iter().map(Affected::from).collect(),
            is_about_you: own.is_ok_and(|own| own.domain() == domain.domain),
            may_make_codes: access.may::<MakeRecoveryCodes>(),
        }
    }
}

fn affected(domain: &Domain, way: Sso, found: &Consequences) -> String {
    let (name, title) = (&domain.domain, way.title());
    let members = match found.members {
        0 => return format!("No member has an address on {name} yet."),
        1 => "1 member has".to_owned(),
        members => format!("{members} members have"),
    };
    let rest = match found.new_members {
        0 => format!("All of them have signed in with {title} before."),
        new_members => format!("Of these, {new_members} never signed in with {title}. Have them try it first."),
    };
    format!("{members} an address on {name}. {rest}")
}

async fn confirm_page(
    service: &Service,
    access: &OrganizationAccess<ChangeDomains>,
    domain: &Domain,
    decision: Decision,
    seen: FormVersion,
    problems: &Problems,
) -> Result<Response, Failure> {
    let (plan, title, word) = match decision {
        Decision::Only(way) => {
            let caller = &access.caller;
            let found = service.consequences_of_enforcing(caller, domain.id, way).await?;
            (Some(Plan::new(access, domain, way, found)), "Enforce SSO", way.as_str())
        }
        Decision::AsTheyLike => (None, "Stop enforcing SSO", ""),
    };
    let body = json!({ "sso_enforcement": word });
    let call = Call::patch::<ChangeDomains>(title, access.api(&below(domain.id))).sending(body);
    let shown = EnforcementPage {
        frame: frame_below(access, domain),
        alerts: problems.besides(&[]),
        id: domain.id,
        name: domain.domain.clone(),
        is_verified: domain.is_verified(),
        seen,
        plan,
        curl: AsCurl::new(service, [call]),
    };
    Ok(page_again(problems, &shown))
}
