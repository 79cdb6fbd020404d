use axum::extract::State;
use identity::{Identity, MetadataSource, Step, Verdict};
use schemars::JsonSchema;
use serde::Serialize;
use service::access::{ChangeDomains, MakeRecoveryCodes, ReadAttempts, ReadDomains};
use service::domains::{Domain, DomainPatch, NewDomain};
use service::sso::Attempt;
use service::{DomainId, Instance, Page, Service};
use uuid::Uuid;

use crate::codes::CodesView;
use crate::http::access::Allowed;
use crate::http::body::Body;
use crate::http::conditional::IfMatch;
use crate::http::error::Problem;
use crate::http::operation::operation;
use crate::http::page::{Listed, Paging};
use crate::http::path::Id;
use crate::http::reply::{Created, NoContent, Reply, View};
use crate::http::routing::{Routes, get, post};
use crate::user::Stamp;

const TAG: &str = "Domains";

pub(crate) fn routes() -> Routes {
    Routes::new()
        .route(
            "/api/organizations/{organization_id}/domains/",
            get(list, operation("domains_list", TAG, "List domains by name"))
                .post(create, operation("domains_create", TAG, "Add a domain")),
        )
        .route(
            "/api/organizations/{organization_id}/domains/{id}/",
            get(retrieve, operation("domains_retrieve", TAG, "Retrieve a domain"))
                .patch(
                    update,
                    operation("domains_partial_update", TAG, "Update a domain's sign-in settings"),
                )
                .delete(destroy, operation("domains_destroy", TAG, "Remove a domain")),
        )
        .route(
            "/api/organizations/{organization_id}/domains/{id}/verify/",
            post(
                verify,
                operation("domains_verify", TAG, "Verify a domain by its DNS record"),
            ),
        )
        .route(
            "/api/organizations/{organization_id}/domains/{id}/test/",
            post(
                test,
                operation("domains_test", TAG, "Run diagnostics on a domain's sign-in setup"),
            ),
        )
        .route(
            "/api/organizations/{organization_id}/domains/{id}/import_metadata/",
            post(
                import,
                operation(
                    "domains_import_metadata",
                    TAG,
                    "Import a SAML identity provider's metadata",
                ),
            ),
        )
        .route(
            "/api/organizations/{organization_id}/domains/{id}/attempts/",
            get(
                attempts,
                operation(
                    "domains_attempts_list",
                    TAG,
                    "List the last 20 sign-ins through a domain, newest first",
                ),
            ),
        )
        .route(
            "/api/organizations/{organization_id}/recovery_codes/",
            post(
                recovery_codes,
                operation(
                    "recovery_codes_create",
                    TAG,
                    "Create your recovery codes, for signing in when SSO is unavailable",
                ),
            ),
        )
}

async fn list(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadDomains>,
    paging: Paging,
) -> Result<Listed<DomainView<'static>>, Problem> {
    let page = service.domains(&caller, paging.window).await?;
    Ok(paging
        .reply(page.map(|domain| DomainView::new(domain, service.instance())))
        .await)
}

async fn create(
    State(service): State<Service>,
    Allowed(caller): Allowed<ChangeDomains>,
    Body(new): Body<NewDomain>,
) -> Result<Created<DomainView<'static>>, Problem> {
    let domain = service.create_domain(&caller, &new).await?;
    let location = format!("/api/organizations/{}/domains/{}/", caller.organization, domain.id);
    Ok(Created::new(&DomainView::new(&domain, service.instance())).at(location))
}

async fn retrieve(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadDomains>,
    Id(id): Id<DomainId>,
) -> Result<Reply<DomainView<'static>>, Problem> {
    let domain = service.domain(&caller, id).await?;
    Ok(Reply::new(&DomainView::new(&domain, service.instance())))
}

async fn update(
    State(service): State<Service>,
    Allowed(caller): Allowed<ChangeDomains>,
    Id(id): Id<DomainId>,
    if_match: IfMatch,
    Body(patch): Body<DomainPatch>,
) -> Result<Reply<DomainView<'static>>, Problem> {
    let precondition = |domain: &Domain| if_match.fits(&DomainView::new(domain, service.instance()));
    let domain = service.update_domain(&caller, id, &patch, &precondition).await?;
    Ok(Reply::new(&DomainView::new(&domain, service.instance())))
}

async fn destroy(
    State(service): State<Service>,
    Allowed(caller): Allowed<ChangeDomains>,
    Id(id): Id<DomainId>,
    if_match: IfMatch,
) -> Result<NoContent, Problem> {
    let precondition = |domain: &Domain| if_match.fits(&DomainView::new(domain, service.instance()));
    service.delete_domain(&caller, id, &precondition).await?;
    Ok(NoContent)
}

async fn verify(
    State(identity): State<Identity>,
    Allowed(caller): Allowed<ChangeDomains>,
    Id(id): Id<DomainId>,
) -> Result<Reply<DomainView<'static>>, Problem> {
    let domain = identity.verify_domain(&caller, id).await?;
    Ok(Reply::new(&DomainView::new(&domain, identity.service().instance())))
}

async fn test(
    State(identity): State<Identity>,
    Allowed(caller): Allowed<ChangeDomains>,
    Id(id): Id<DomainId>,
) -> Result<Reply<DiagnosticsView>, Problem> {
    let steps = identity.test_domain(&caller, id).await?;
    let is_ok = steps.iter().all(|step| step.status != Verdict::Failed);
    Ok(Reply::new(&DiagnosticsView { is_ok, steps }))
}

async fn import(
    State(identity): State<Identity>,
    Allowed(caller): Allowed<ChangeDomains>,
    Id(id): Id<DomainId>,
    Body(source): Body<MetadataSource>,
) -> Result<Reply<DomainView<'static>>, Problem> {
    let domain = identity.import_metadata(&caller, id, &source).await?;
    Ok(Reply::new(&DomainView::new(&domain, identity.service().instance())))
}

async fn attempts(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadAttempts>,
    paging: Paging,
    Id(id): Id<DomainId>,
) -> Result<Listed<AttemptView>, Problem> {
    let attempts = service.sso_attempts(&caller, id).await?;
    let page = Page::cut(attempts, paging.window);
    Ok(paging.reply(page.map(AttemptView::from)).await)
}

async fn recovery_codes(
    State(service): State<Service>,
    Allowed(caller): Allowed<MakeRecoveryCodes>,
) -> Result<Created<CodesView>, Problem> {
    let codes = service.create_recovery_codes(&caller).await?.0;
    Ok(Created::new(&CodesView { codes }).kept_as(&CodesView { codes: Vec::new() }))
}

/// An organization's domain and its sign-in settings.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OrganizationDomain")]
#[expect(clippy::struct_excessive_bools, reason = "the interface has them")]
#[schemars(extend("examples" = [{
    "id": "01a1dd53-efb7-7ca7-8219-0522c793c6d2", "domain": "example.com", "is_verified": false, "verified_at": null,
    "verification_challenge": "8nR3zL65veJ0mQ2", "verification_record": "_hedgerow-challenge.example.com",
    "verification_error": null, "verification_lost_at": null, "jit_provisioning_enabled": false, "sso_enforcement": "",
    "has_saml": false, "saml_entity_id": "", "saml_acs_url": "", "saml_x509_cert": "", "saml_idp_initiated": false,
    "saml_metadata_url": "", "saml_sp_entity_id": "https://hedgerow.example.com/saml/01a1dd53/metadata/",
    "saml_sp_acs_url": "https://hedgerow.example.com/saml/01a1dd53/acs/", "has_oidc": false, "oidc_issuer": "",
    "oidc_client_id": "", "oidc_redirect_url": "https://hedgerow.example.com/oidc/01a1dd53/callback/",
    "created_at": "2026-11-15T09:30:00.000000Z", "updated_at": "2026-11-15T09:30:00.000000Z"
}]))]
pub(crate) struct DomainView<'a> {
    id: Uuid,
    domain: &'a str,
    is_verified: bool,
    verified_at: Option<Stamp>,
    /// The value of the TXT record that verifies the domain.
    verification_challenge: &'a str,
    /// The name of the TXT record.
    verification_record: String,
    /// Why the last verification failed, if it did.
    verification_error: Option<FindingView<'a>>,
    /// Since when the DNS record of a verified domain has been missing. After seven days the domain becomes unverified.
    verification_lost_at: Option<Stamp>,
    jit_provisioning_enabled: bool,
    /// The sign-in method that users of this domain must use: `saml`, `oidc`, `google-oauth2`, `github`, `gitlab`, or
    /// empty for any.
    sso_enforcement: &'a str,
    has_saml: bool,
    /// The identity provider's entity ID.
    saml_entity_id: &'a str,
    /// The identity provider's SSO URL.
    saml_acs_url: &'a str,
    /// The identity provider's certificates.
    saml_x509_cert: &'a str,
    saml_idp_initiated: bool,
    /// The metadata URL that the three were imported from, if any.
    saml_metadata_url: &'a str,
    /// The service provider's entity ID (audience) to configure at the identity provider.
    saml_sp_entity_id: String,
    /// The ACS URL (reply URL) to configure at the identity provider.
    saml_sp_acs_url: String,
    has_oidc: bool,
    oidc_issuer: &'a str,
    oidc_client_id: &'a str,
    /// The redirect URI to configure at the OpenID provider.
    oidc_redirect_url: String,
    created_at: Stamp,
    updated_at: Stamp,
}

/// The result, and how to fix it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "VerificationError")]
struct FindingView<'a> {
    code: &'a str,
    detail: &'a str,
}

impl View for DomainView<'_> {
    type Doc = DomainView<'static>;
}

impl<'a> DomainView<'a> {
    fn new(domain: &'a Domain, instance: &Instance) -> Self {
        let us = domain.service_provider(instance);
        Self {
            id: domain.id.0,
            domain: &domain.domain,
            is_verified: domain.is_verified(),
            verified_at: domain.verified_at.map(Stamp),
            verification_challenge: &domain.verification_challenge,
            verification_record: domain.record(),
            verification_error: domain.verification_error.as_ref().map(|finding| FindingView {
                code: &finding.code,
                detail: &finding.detail,
            }),
            verification_lost_at: domain.lost_at.map(Stamp),
            jit_provisioning_enabled: domain.jit_provisioning_enabled,
            sso_enforcement: &domain.sso_enforcement,
            has_saml: domain.has_saml(),
            saml_entity_id: &domain.saml_entity_id,
            saml_acs_url: &domain.saml_acs_url,
            saml_x509_cert: &domain.saml_x509_cert,
            saml_idp_initiated: domain.saml_idp_initiated,
            saml_metadata_url: &domain.saml_metadata_url,
            saml_sp_entity_id: us.entity_id,
            saml_sp_acs_url: us.acs_url,
            has_oidc: domain.has_oidc(),
            oidc_issuer: &domain.oidc_issuer,
            oidc_client_id: &domain.oidc_client_id,
            oidc_redirect_url: instance.oidc_redirect_url(domain.id),
            created_at: Stamp(domain.created_at),
            updated_at: Stamp(domain.updated_at),
        }
    }
}

/// The results of the diagnostics, step by step.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DomainTest")]
pub(crate) struct DiagnosticsView {
    /// Whether no check failed.
    is_ok: bool,
    steps: Vec<Step>,
}

impl View for DiagnosticsView {
    type Doc = Self;
}

/// One sign-in through a domain.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SignInAttempt")]
pub(crate) struct AttemptView {
    id: Uuid,
    method: String,
    /// The email, if known.
    email: String,
    is_success: bool,
    /// The rule that rejected the sign-in; null if it succeeded.
    rule: Option<String>,
    detail: String,
    address: String,
    request_id: String,
    created_at: Stamp,
}

impl View for AttemptView {
    type Doc = Self;
}

impl From<&Attempt> for AttemptView {
    fn from(attempt: &Attempt) -> Self {
        Self {
            id: attempt.id.0,
            method: attempt.method.clone(),
            email: attempt.email.clone(),
            is_success: attempt.rule.is_none(),
            rule: attempt.rule.clone(),
            detail: attempt.detail.clone(),
            address: attempt.address.clone(),
            request_id: attempt.request_id.clone(),
            created_at: Stamp(attempt.created_at),
        }
    }
}
