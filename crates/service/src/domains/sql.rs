//! What a caller asks for names the organization. The rest is asked by sign-in, which knows only an address.

use super::Domain;
use crate::clock::Time;
use crate::db::{Session, changed, on};
use crate::error::{Error, Result};
use crate::id::{DomainId, OrganizationId};
use crate::page::{Page, Window};
use crate::transaction::WriteTx;

macro_rules! columns {
    () => {
        "id, organization_id, domain, verification_challenge, verified_at, checked_at, lost_at, verification_error, \
         jit_provisioning_enabled, sso_enforcement, saml_entity_id, saml_acs_url, saml_x509_cert, saml_metadata_url, \
         saml_idp_initiated, oidc_issuer, oidc_client_id, oidc_client_secret, created_at, updated_at"
    };
}

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT ", columns!(), " FROM domain ", $rest)
    };
}

pub(super) async fn page(db: &mut Session, organization: OrganizationId, window: Window) -> Result<Page<Domain>> {
    const ROWS: &str = select!("WHERE organization_id = $1 ORDER BY domain LIMIT $2 OFFSET $3");
    let Window { limit, offset } = window;
    let items = on!(db, conn => sqlx::query_as(ROWS).bind(organization).bind(limit).bind(offset).fetch_all(conn))?;
    let count = count(db, organization).await?;
    Ok(Page { items, count })
}

pub(super) async fn count(db: &mut Session, organization: OrganizationId) -> Result<i64> {
    const SQL: &str = "SELECT count(*) FROM domain WHERE organization_id = $1";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(organization).fetch_one(conn))?)
}

pub(super) async fn find(db: &mut Session, organization: OrganizationId, id: DomainId) -> Result<Option<Domain>> {
    const SQL: &str = select!("WHERE organization_id = $1 AND id = $2");
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(organization).bind(id).fetch_optional(conn))?)
}

pub(crate) async fn ids(db: &mut Session, organization: OrganizationId) -> Result<Vec<DomainId>> {
    const SQL: &str = "SELECT id FROM domain WHERE organization_id = $1";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(organization).fetch_all(conn))?)
}

/// The domain that an identity provider's answer was sent to.
pub(crate) async fn by_id(db: &mut Session, id: DomainId) -> Result<Option<Domain>> {
    const SQL: &str = select!("WHERE id = $1");
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(id).fetch_optional(conn))?)
}

/// Whoever has proven this domain.
pub(crate) async fn holder(db: &mut Session, domain: &str) -> Result<Option<Domain>> {
    const SQL: &str = select!("WHERE domain = $1 AND verified_at IS NOT NULL");
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(domain).fetch_optional(conn))?)
}

pub(super) async fn verified(db: &mut Session) -> Result<Vec<Domain>> {
    const SQL: &str = select!("WHERE verified_at IS NOT NULL ORDER BY domain");
    Ok(on!(db, conn => sqlx::query_as(SQL).fetch_all(conn))?)
}

pub(super) async fn insert(db: &mut WriteTx, domain: &Domain) -> Result<()> {
    const SQL: &str = concat!(
        "INSERT INTO domain (",
        columns!(),
        ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)"
    );
    let done = changed!(
        db,
        sqlx::query(SQL)
            .bind(domain.id)
            .bind(domain.organization_id)
            .bind(&domain.domain)
            .bind(&domain.verification_challenge)
            .bind(domain.verified_at)
            .bind(domain.checked_at)
            .bind(domain.lost_at)
            .bind(&domain.verification_error)
            .bind(domain.jit_provisioning_enabled)
            .bind(&domain.sso_enforcement)
            .bind(&domain.saml_entity_id)
            .bind(&domain.saml_acs_url)
            .bind(&domain.saml_x509_cert)
            .bind(&domain.saml_metadata_url)
            .bind(domain.saml_idp_initiated)
            .bind(&domain.oidc_issuer)
            .bind(&domain.oidc_client_id)
            .bind(&domain.oidc_client_secret)
            .bind(domain.created_at)
            .bind(domain.updated_at)
    );
    done.map_err(|error| {
        Error::from(error)
            .on_unique(|| Error::invalid("domain", "unique", "Your organization already has this domain."))
            .on_dangling(|| Error::NotFound("organization"))
    })?;
    Ok(())
}

pub(super) async fn save(db: &mut WriteTx, domain: &Domain) -> Result<()> {
    const SQL: &str = "UPDATE domain SET verified_at = $3, checked_at = $4, lost_at = $5, verification_error = $6, \
        jit_provisioning_enabled = $7, sso_enforcement = $8, saml_entity_id = $9, saml_acs_url = $10, \
        saml_x509_cert = $11, saml_metadata_url = $12, saml_idp_initiated = $13, oidc_issuer = $14, oidc_client_id = $15, \
        oidc_client_secret = $16, updated_at = $17 WHERE organization_id = $1 AND id = $2";
    changed!(
        db,
        sqlx::query(SQL)
            .bind(domain.organization_id)
            .bind(domain.id)
            .bind(domain.verified_at)
            .bind(domain.checked_at)
            .bind(domain.lost_at)
            .bind(&domain.verification_error)
            .bind(domain.jit_provisioning_enabled)
            .bind(&domain.sso_enforcement)
            .bind(&domain.saml_entity_id)
            .bind(&domain.saml_acs_url)
            .bind(&domain.saml_x509_cert)
            .bind(&domain.saml_metadata_url)
            .bind(domain.saml_idp_initiated)
            .bind(&domain.oidc_issuer)
            .bind(&domain.oidc_client_id)
            .bind(&domain.oidc_client_secret)
            .bind(domain.updated_at)
    )?;
    Ok(())
}

pub(super) async fn delete(db: &mut WriteTx, domain: &Domain) -> Result<()> {
    const SQL: &str = "DELETE FROM domain WHERE organization_id = $1 AND id = $2";
    changed!(db, sqlx::query(SQL).bind(domain.organization_id).bind(domain.id))?;
    Ok(())
}

pub(super) async fn is_due(db: &mut Session, due: Time) -> Result<bool> {
    const SQL: &str = "SELECT 1 FROM domain WHERE verified_at IS NOT NULL AND checked_at < $1 LIMIT 1";
    let found: Option<i32> = on!(db, conn => sqlx::query_scalar(SQL).bind(due).fetch_optional(conn))?;
    Ok(found.is_some())
}

/// Takes one that is due, and makes it look as if it were due later, so that other replicas take others.
pub(super) async fn take_due(db: &mut WriteTx, due: Time, later: Time) -> Result<Option<Domain>> {
    let sql = db.pick(
        concat!(
            "UPDATE domain SET checked_at = $2 WHERE id = (SELECT id FROM domain WHERE verified_at IS NOT NULL \
             AND checked_at < $1 ORDER BY checked_at LIMIT 1) RETURNING ",
            columns!()
        ),
        concat!(
            "UPDATE domain SET checked_at = $2 WHERE id = (SELECT id FROM domain WHERE verified_at IS NOT NULL \
             AND checked_at < $1 ORDER BY checked_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) RETURNING ",
            columns!()
        ),
    );
    Ok(on!(db, conn => sqlx::query_as(sql).bind(due).bind(later).fetch_optional(conn))?)
}

pub(super) async fn is_unverified_due(db: &mut Session, due: Time, since: Time) -> Result<bool> {
    const SQL: &str = "SELECT 1 FROM domain WHERE verified_at IS NULL AND created_at > $2 AND checked_at < $1 LIMIT 1";
    let found: Option<i32> = on!(db, conn => sqlx::query_scalar(SQL).bind(due).bind(since).fetch_optional(conn))?;
    Ok(found.is_some())
}

/// Takes the one of each organization that has waited longest, and leaves it alone until it is due again. Organizations take
/// turns: whose last check is longest ago comes first.
pub(super) async fn take_unverified(
    db: &mut WriteTx,
    due: Time,
    since: Time,
    now: Time,
    most: i64,
) -> Result<Vec<Domain>> {
    macro_rules! next {
        () => {
            "WITH unverified AS MATERIALIZED (SELECT id, organization_id, checked_at FROM domain \
             WHERE verified_at IS NULL AND created_at > $2 AND checked_at IS NOT NULL), ranked AS (SELECT id, checked_at, \
             row_number() OVER (PARTITION BY organization_id ORDER BY checked_at, id) AS place, \
             max(checked_at) OVER (PARTITION BY organization_id) AS last_check FROM unverified) \
             SELECT id FROM ranked WHERE place = 1 AND checked_at < $1 ORDER BY last_check, checked_at, id LIMIT $4"
        };
    }
    // First what the index finds: SQLite would walk all domains, in the order of organizations. And PostgreSQL looks again at
    // what it locks: another replica may have taken it in the meantime.
    let sql = db.pick(
        concat!(
            "UPDATE domain SET checked_at = $3 WHERE id IN (",
            next!(),
            ") RETURNING ",
            columns!()
        ),
        concat!(
            "UPDATE domain SET checked_at = $3 WHERE id IN (SELECT id FROM domain WHERE id IN (",
            next!(),
            ") AND verified_at IS NULL AND checked_at < $1 FOR NO KEY UPDATE SKIP LOCKED) RETURNING ",
            columns!()
        ),
    );
    Ok(on!(db, conn => sqlx::query_as(sql).bind(due).bind(since).bind(now).bind(most).fetch_all(conn))?)
}
