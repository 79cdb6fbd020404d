//! OpenID Connect: the same for a provider that speaks it.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use serde_json::json;
use service::access::ChangeDomains;
use service::domains::{Domain, DomainPatch};
use service::{DomainId, Service};

use super::frame::{below, frame_below};
use super::value::Value;
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::field::Field;
use crate::form_version::FormVersion;
use crate::organization::OrganizationAccess;
use crate::organization::frame::Frame;
use crate::page::{go_to, page_again};
use crate::state::Console;
use crate::visitor::{Id, PageQuery, Sent};

pub(super) fn routes() -> Router<Console> {
    Router::new().route(
        "/organizations/{organization}/domains/{domain}/oidc/",
        get(show_oidc).post(save),
    )
}

#[derive(Template)]
#[template(path = "organization/domains/oidc.html")]
struct OidcPage {
    frame: Frame,
    alerts: Vec<String>,
    id: DomainId,
    name: String,
    redirect_url: Value,
    issuer: Field,
    client_id: Field,
    client_secret: Field,
    is_set_up: bool,
    seen: FormVersion,
    /// Whether somebody could sign in now.
    is_open: bool,
    curl: AsCurl,
}

#[derive(Deserialize)]
struct OidcForm {
    oidc_issuer: String,
    oidc_client_id: String,
    /// Empty: it stays as it is.
    #[serde(default)]
    oidc_client_secret: String,
    #[serde(default)]
    seen: FormVersion,
}

async fn show_oidc(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeDomains>,
    Id(id): Id<DomainId>,
    asked: PageQuery,
) -> Result<Response, Failure> {
    let domain = service.domain(&access.caller, id).await?;
    let typed = OidcForm {
        oidc_issuer: domain.oidc_issuer.clone(),
        oidc_client_id: domain.oidc_client_id.clone(),
        oidc_client_secret: String::new(),
        seen: FormVersion::of(domain.updated_at),
    };
    Ok(oidc_page(
        &service,
        &access,
        &domain,
        &typed,
        &asked.done,
        &Problems::default(),
    ))
}

async fn save(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeDomains>,
    Id(id): Id<DomainId>,
    Sent(typed): Sent<OidcForm>,
) -> Result<Response, Failure> {
    let secret = typed.oidc_client_secret.trim();
    let patch = DomainPatch {
        oidc_issuer: Some(typed.oidc_issuer.clone()),
        oidc_client_id: Some(typed.oidc_client_id.clone()),
        oidc_client_secret: (!secret.is_empty()).then(|| secret.to_owned()),
        ..DomainPatch::default()
    };
    let precondition = |now: &Domain| typed.seen.fits(now.updated_at);
    match service.update_domain(&access.caller, id, &patch, &precondition).await {
        Ok(_) => Ok(go_to(&access.path(&format!("{}oidc/?done=connected", below(id))))),
        Err(error) => {
            let domain = service.domain(&access.caller, id).await?;
            let problems = Problems::try_from(error)?;
            Ok(oidc_page(&service, &access, &domain, &typed, "", &problems))
        }
    }
}

fn oidc_page(
    service: &Service,
    access: &OrganizationAccess<ChangeDomains>,
    domain: &Domain,
    typed: &OidcForm,
    done: &str,
    problems: &Problems,
) -> Response {
    let or = |text: &str, example: &str| if text.is_empty() { example } else { text }.to_owned();
    let body = json!({
        "oidc_issuer": or(&typed.oidc_issuer, "https://login.example.com"),
        "oidc_client_id": or(&typed.oidc_client_id, "hedgerow"),
        "oidc_client_secret": "…",
    });
    let call = Call::patch::<ChangeDomains>("Update the settings", access.api(&below(domain.id))).sending(body);
    let redirect_url = service.instance().oidc_redirect_url(domain.id);
    let shown = OidcPage {
        frame: frame_below(access, domain).noting(done),
        alerts: problems.besides(&["oidc_issuer", "oidc_client_id", "oidc_client_secret"]),
        id: domain.id,
        name: domain.domain.clone(),
        seen: typed.seen.clone(),
        redirect_url: Value::new("our-redirect-url", "Redirect URL", "callback URL", redirect_url),
        issuer: Field::text("oidc_issuer", "Issuer", "off")
            .keyboard("url")
            .at_most(512)
            .hint(
                "Exactly as the provider shows it, such as https://login.example.com, including the trailing slash if it has one.",
            )
            .holding(typed.oidc_issuer.clone())
            .judged(problems),
        client_id: Field::text("oidc_client_id", "Client ID", "off")
            .at_most(512)
            .hint("If this or the issuer changes, every account must be linked again.")
            .holding(typed.oidc_client_id.clone())
            .judged(problems),
        client_secret: secret_field(domain.oidc_client_secret.is_some()).judged(problems),
        is_set_up: domain.has_oidc(),
        is_open: domain.has_oidc() && domain.is_verified(),
        curl: AsCurl::new(service, [call]),
    };
    page_again(problems, &shown)
}

/// It is never shown again, whatever was typed.
fn secret_field(is_kept: bool) -> Field {
    let field = Field::password("oidc_client_secret", "Client secret", "off").at_most(2048);
    if is_kept {
        field
            .of_filter()
            .hint("Stored encrypted. Leave empty to keep it. If the issuer changes, enter it again.")
    } else {
        field.hint("Stored encrypted and never shown again.")
    }
}
