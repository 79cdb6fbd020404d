//! What an app keeps is found by its configuration alone.

use crate::db::{Session, changed, on};
use crate::error::Result;
use crate::id::AppConfigId;
use crate::transaction::WriteTx;

pub(in super::super) async fn find(db: &mut Session, config: AppConfigId, key: &str) -> Result<Option<String>> {
    const SQL: &str = "SELECT value FROM pipeline_storage WHERE config_id = $1 AND key = $2";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(config).bind(key).fetch_optional(conn))?)
}

pub(in super::super) async fn put(db: &mut WriteTx, config: AppConfigId, key: &str, value: &str) -> Result<()> {
    const SQL: &str = "INSERT INTO pipeline_storage (config_id, key, value, updated_at) VALUES ($1, $2, $3, $4) \
        ON CONFLICT (config_id, key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at";
    let now = db.now;
    changed!(db, sqlx::query(SQL).bind(config).bind(key).bind(value).bind(now))?;
    Ok(())
}

pub(in super::super) async fn delete(db: &mut WriteTx, config: AppConfigId, key: &str) -> Result<()> {
    const SQL: &str = "DELETE FROM pipeline_storage WHERE config_id = $1 AND key = $2";
    changed!(db, sqlx::query(SQL).bind(config).bind(key))?;
    Ok(())
}

/// How many bytes a key and its value have. None: there is no such key.
pub(in super::super) async fn size(db: &mut Session, config: AppConfigId, key: &str) -> Result<Option<i64>> {
    let sql = db.pick(
        "SELECT length(CAST(key AS BLOB)) + length(CAST(value AS BLOB)) FROM pipeline_storage WHERE config_id = $1 AND key = $2",
        "SELECT CAST(octet_length(key) + octet_length(value) AS BIGINT) FROM pipeline_storage WHERE config_id = $1 AND key = $2",
    );
    Ok(on!(db, conn => sqlx::query_scalar(sql).bind(config).bind(key).fetch_optional(conn))?)
}
