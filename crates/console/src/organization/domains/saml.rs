//! SAML: what the identity provider must know of us, and what we must know of it.

use askama::Template;
use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::Response;
use axum::routing::{get, post};
use identity::{Identity, MetadataSource};
use serde::Deserialize;
use serde_json::json;
use service::access::ChangeDomains;
use service::domains::{Domain, DomainPatch};
use service::{DomainId, Service};

use super::frame::{below, frame_below};
use super::value::Value;
use crate::choices::{Area, Switch};
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::field::Field;
use crate::form_version::FormVersion;
use crate::organization::OrganizationAccess;
use crate::organization::frame::Frame;
use crate::page::{go_to, page_again};
use crate::show;
use crate::state::Console;
use crate::visitor::{Id, PageQuery, Sent};

/// Metadata has at most 512 KiB; in a form, it takes more room.
const MAX_BYTES: usize = 1024 * 1024;

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route(
            "/organizations/{organization}/domains/{domain}/saml/",
            get(show_saml).post(save),
        )
        .route(
            "/organizations/{organization}/domains/{domain}/saml/import/",
            post(import),
        )
        .layer(DefaultBodyLimit::max(MAX_BYTES))
}

#[derive(Template)]
#[template(path = "organization/domains/saml.html")]
struct SamlPage {
    frame: Frame,
    alerts: Vec<String>,
    id: DomainId,
    name: String,
    ours: Vec<Value>,
    url: Field,
    xml: Area,
    /// What was pasted is shown again.
    is_pasting: bool,
    entity_id: Field,
    sign_in_url: Field,
    certificate: Area,
    may_begin_there: Switch,
    is_set_up: bool,
    seen: FormVersion,
    /// Whether somebody could sign in now.
    is_open: bool,
    /// Where the settings were read from, and until when the certificate is good.
    facts: Vec<(&'static str, String)>,
    curl: AsCurl,
}

/// The settings, as they were typed. A switch that is off is not sent at all.
#[derive(Deserialize)]
struct SamlForm {
    saml_entity_id: String,
    saml_acs_url: String,
    saml_x509_cert: String,
    #[serde(default)]
    saml_idp_initiated: String,
    #[serde(default)]
    seen: FormVersion,
}

impl SamlForm {
    fn of(domain: &Domain) -> Self {
        Self {
            saml_entity_id: domain.saml_entity_id.clone(),
            saml_acs_url: domain.saml_acs_url.clone(),
            saml_x509_cert: domain.saml_x509_cert.clone(),
            saml_idp_initiated: if domain.saml_idp_initiated { "yes" } else { "" }.to_owned(),
            seen: FormVersion::of(domain.updated_at),
        }
    }

    fn may_begin_there(&self) -> bool {
        self.saml_idp_initiated == "yes"
    }

    /// Browsers send their own line ends.
    fn certificate(&self) -> String {
        self.saml_x509_cert.replace("\r\n", "\n")
    }
}

/// One of the two, as each has a form of its own.
#[derive(Default, Deserialize)]
struct Source {
    #[serde(default)]
    url: String,
    #[serde(default)]
    xml: String,
}

impl Source {
    fn given(&self) -> MetadataSource {
        let filled = |text: &str| (!text.trim().is_empty()).then(|| text.trim().to_owned());
        MetadataSource {
            url: filled(&self.url),
            xml: filled(&self.xml),
        }
    }
}

async fn show_saml(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeDomains>,
    Id(id): Id<DomainId>,
    asked: PageQuery,
) -> Result<Response, Failure> {
    let domain = service.domain(&access.caller, id).await?;
    let form = Form {
        typed: SamlForm::of(&domain),
        source: Source::default(),
        done: asked.done,
    };
    Ok(form.page(&service, &access, &domain, &Problems::default()))
}

async fn save(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeDomains>,
    Id(id): Id<DomainId>,
    Sent(typed): Sent<SamlForm>,
) -> Result<Response, Failure> {
    let patch = DomainPatch {
        saml_entity_id: Some(typed.saml_entity_id.clone()),
        saml_acs_url: Some(typed.saml_acs_url.clone()),
        saml_x509_cert: Some(typed.certificate()),
        saml_idp_initiated: Some(typed.may_begin_there()),
        ..DomainPatch::default()
    };
    let precondition = |now: &Domain| typed.seen.fits(now.updated_at);
    match service.update_domain(&access.caller, id, &patch, &precondition).await {
        Ok(_) => Ok(go_to(&saved(&access, id))),
        Err(error) => {
            let domain = service.domain(&access.caller, id).await?;
            let form = Form {
                typed,
                source: Source::default(),
                done: String::new(),
            };
            Ok(form.page(&service, &access, &domain, &Problems::try_from(error)?))
        }
    }
}

async fn import(
    State(identity): State<Identity>,
    access: OrganizationAccess<ChangeDomains>,
    Id(id): Id<DomainId>,
    Sent(source): Sent<Source>,
) -> Result<Response, Failure> {
    match identity.import_metadata(&access.caller, id, &source.given()).await {
        Ok(_) => Ok(go_to(&saved(&access, id))),
        Err(error) => {
            let service = identity.service();
            let domain = service.domain(&access.caller, id).await?;
            let form = Form {
                typed: SamlForm::of(&domain),
                source,
                done: String::new(),
            };
            Ok(form.page(service, &access, &domain, &Problems::try_from(error)?))
        }
    }
}

fn saved(access: &OrganizationAccess<ChangeDomains>, id: DomainId) -> String {
    access.path(&format!("{}saml/?done=connected", below(id)))
}

/// What the page holds besides the domain.
struct Form {
    typed: SamlForm,
    source: Source,
    done: String,
}

impl Form {
    fn page(
        self,
        service: &Service,
        access: &OrganizationAccess<ChangeDomains>,
        domain: &Domain,
        problems: &Problems,
    ) -> Response {
        let Self { typed, source, done } = self;
        let fields = ["saml_entity_id", "saml_acs_url", "saml_x509_cert", "url", "xml"];
        let shown = SamlPage {
            frame: frame_below(access, domain).noting(&done),
            alerts: problems.besides(&fields),
            id: domain.id,
            name: domain.domain.clone(),
            seen: typed.seen.clone(),
            ours: ours(service, domain),
            is_pasting: !source.xml.is_empty(),
            url: Field::text("url", "Metadata URL", "off")
                .keyboard("url")
                .at_most(2000)
                .hint("An https URL from your identity provider, such as https://login.example.com/metadata.")
                .holding(source.url)
                .judged(problems),
            xml: Area::new("xml", "Metadata XML", 4, source.xml)
                .hint("If there's no URL, open the file and paste all of it.")
                .wrong(problems.of("xml").into_iter().collect()),
            entity_id: Field::text("saml_entity_id", "Entity ID", "off")
                .at_most(512)
                .hint("Also called issuer. If it changes, every account must be linked again.")
                .holding(typed.saml_entity_id.clone())
                .judged(problems),
            sign_in_url: Field::text("saml_acs_url", "SSO URL", "off")
                .keyboard("url")
                .at_most(512)
                .hint("Also called sign-in URL: where users are redirected to sign in.")
                .holding(typed.saml_acs_url.clone())
                .judged(problems),
            certificate: Area::new("saml_x509_cert", "Certificate", 6, typed.certificate())
                .hint("The signing certificate, as PEM or base64. To rotate it, add the new one below the old one.")
                .wrong(problems.of("saml_x509_cert").into_iter().collect()),
            may_begin_there: Switch::new(
                "saml_idp_initiated",
                "Allow IdP-initiated sign-in",
                "For app launchers of your identity provider. It's safer to leave this off: nobody can then be signed in without asking for it.",
                typed.may_begin_there(),
            ),
            is_set_up: domain.has_saml(),
            is_open: domain.has_saml() && domain.is_verified(),
            facts: facts(domain),
            curl: AsCurl::new(service, calls(access, domain, &typed)),
        };
        page_again(problems, &shown)
    }
}

fn ours(service: &Service, domain: &Domain) -> Vec<Value> {
    let us = domain.service_provider(service.instance());
    vec![
        Value::new("our-acs-url", "ACS URL", "reply URL, single sign-on URL", us.acs_url),
        Value::new(
            "our-entity-id",
            "Entity ID",
            "audience, identifier",
            us.entity_id.clone(),
        ),
        Value::new(
            "our-metadata",
            "Metadata",
            "the same URL; includes both of the above",
            us.entity_id,
        ),
    ]
}

fn facts(domain: &Domain) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if !domain.saml_metadata_url.is_empty() {
        facts.push(("Imported from", domain.saml_metadata_url.clone()));
    }
    let provider = domain.identity_provider();
    let ends = provider.iter().flat_map(|provider| provider.certificates.iter());
    if let Some(end) = ends.map(|certificate| certificate.not_after).max() {
        facts.push(("Certificate expires", show::day(end)));
    }
    facts
}

fn calls(access: &OrganizationAccess<ChangeDomains>, domain: &Domain, typed: &SamlForm) -> [Call; 2] {
    let api = access.api(&below(domain.id));
    let url = match domain.saml_metadata_url.as_str() {
        "" => "https://login.example.com/metadata",
        url => url,
    };
    let body = json!({
        "saml_entity_id": typed.saml_entity_id,
        "saml_acs_url": typed.saml_acs_url,
        "saml_x509_cert": typed.certificate(),
        "saml_idp_initiated": typed.may_begin_there(),
    });
    [
        Call::post::<ChangeDomains>("Import the metadata", format!("{api}import_metadata/"))
            .sending(json!({ "url": url })),
        Call::patch::<ChangeDomains>("Update the settings", api).sending(body),
    ]
}
