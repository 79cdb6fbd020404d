//! How much the apps of configurations keep, have waiting and have said. A row is made when there is something to count.

use crate::db::{Session, changed, on};
use crate::error::Result;
use crate::id::{AppConfigId, OrganizationId};
use crate::transaction::WriteTx;

#[derive(Debug, sqlx::FromRow)]
pub(in super::super) struct Usage {
    pub(in super::super) organization_id: OrganizationId,
    pub(in super::super) storage_keys: i64,
    pub(in super::super) storage_bytes: i64,
    pub(in super::super) payload_bytes: i64,
}

/// Of one configuration, whose writers wait for each other from here on. None: the configuration is gone.
pub(in super::super) async fn lock(db: &mut WriteTx, config: AppConfigId) -> Result<Option<Usage>> {
    // The configuration before its usage: in this order whoever deletes it takes them, too.
    macro_rules! locked {
        ($lock:literal) => {
            concat!(
                "INSERT INTO pipeline_usage (organization_id, config_id) \
                 SELECT organization_id, id FROM pipeline_config WHERE id = $1",
                $lock,
                " ON CONFLICT (config_id) DO UPDATE SET storage_keys = pipeline_usage.storage_keys \
                 RETURNING organization_id, storage_keys, storage_bytes, payload_bytes"
            )
        };
    }
    let sql = db.pick(locked!(""), locked!(" FOR KEY SHARE"));
    Ok(on!(db, conn => sqlx::query_as(sql).bind(config).fetch_optional(conn))?)
}

pub(in super::super) async fn add_storage(db: &mut WriteTx, config: AppConfigId, keys: i64, bytes: i64) -> Result<()> {
    const SQL: &str = "UPDATE pipeline_usage SET storage_keys = storage_keys + $2, storage_bytes = storage_bytes + $3 \
        WHERE config_id = $1";
    changed!(db, sqlx::query(SQL).bind(config).bind(keys).bind(bytes))?;
    Ok(())
}

pub(in super::super) async fn add_payload(db: &mut WriteTx, config: AppConfigId, bytes: i64) -> Result<()> {
    const SQL: &str = "UPDATE pipeline_usage SET payload_bytes = payload_bytes + $2 WHERE config_id = $1";
    changed!(db, sqlx::query(SQL).bind(config).bind(bytes))?;
    Ok(())
}

/// How many lines there are now, at most.
pub(in super::super) async fn add_lines(db: &mut WriteTx, config: AppConfigId, lines: i64) -> Result<i64> {
    const SQL: &str = "INSERT INTO pipeline_usage (organization_id, config_id, log_lines) \
        SELECT organization_id, id, $2 FROM pipeline_config WHERE id = $1 \
        ON CONFLICT (config_id) DO UPDATE SET log_lines = pipeline_usage.log_lines + excluded.log_lines \
        RETURNING log_lines";
    let found: Option<i64> = on!(db, conn => sqlx::query_scalar(SQL).bind(config).bind(lines).fetch_optional(conn))?;
    Ok(found.unwrap_or_default())
}

/// How many there are now.
pub(in super::super) async fn add_unlisted_hosts(db: &mut WriteTx, config: AppConfigId, hosts: i64) -> Result<i64> {
    const SQL: &str = "UPDATE pipeline_usage SET unlisted_hosts = unlisted_hosts + $2 WHERE config_id = $1 \
        RETURNING unlisted_hosts";
    let found: Option<i64> = on!(db, conn => sqlx::query_scalar(SQL).bind(config).bind(hosts).fetch_optional(conn))?;
    Ok(found.unwrap_or_default())
}

pub(in super::super) async fn set_lines(db: &mut WriteTx, config: AppConfigId, lines: i64) -> Result<()> {
    const SQL: &str = "UPDATE pipeline_usage SET log_lines = $2 WHERE config_id = $1";
    changed!(db, sqlx::query(SQL).bind(config).bind(lines))?;
    Ok(())
}

pub(in super::super) async fn storage_of_all(db: &mut Session, organization: OrganizationId) -> Result<i64> {
    const SQL: &str =
        "SELECT CAST(COALESCE(sum(storage_bytes), 0) AS BIGINT) FROM pipeline_usage WHERE organization_id = $1";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(organization).fetch_one(conn))?)
}

pub(in super::super) async fn payload_of_all(db: &mut Session, organization: OrganizationId) -> Result<i64> {
    const SQL: &str =
        "SELECT CAST(COALESCE(sum(payload_bytes), 0) AS BIGINT) FROM pipeline_usage WHERE organization_id = $1";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(organization).fetch_one(conn))?)
}

pub(in super::super) async fn lines_of_all(db: &mut Session, organization: OrganizationId) -> Result<i64> {
    const SQL: &str =
        "SELECT CAST(COALESCE(sum(log_lines), 0) AS BIGINT) FROM pipeline_usage WHERE organization_id = $1";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(organization).fetch_one(conn))?)
}
