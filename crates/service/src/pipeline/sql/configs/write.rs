//! Configurations as they are made and changed.

use sqlx::types::Json;

use super::row::{bind_changing, bind_fixed, changing, fixed};
use crate::db::{changed, on};
use crate::error::Result;
use crate::pipeline::sizes;
use crate::pipeline::types::AppConfig;
use crate::transaction::WriteTx;

pub(in crate::pipeline) async fn insert(db: &mut WriteTx, config: &mut AppConfig) -> Result<()> {
    const SQL: &str = concat!(
        "INSERT INTO pipeline_config (",
        fixed!(""),
        ", ",
        changing!(""),
        ", config) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) RETURNING id"
    );
    config.id = on!(db, conn => bind_changing!(bind_fixed!(sqlx::query_scalar(SQL), bind, config), bind, config)
        .bind(Json(&config.config))
        .fetch_one(conn))?;
    Ok(())
}

/// What it tells its app, and where that may go.
pub(in crate::pipeline) async fn save_values(db: &mut WriteTx, config: &AppConfig) -> Result<()> {
    const SQL: &str =
        "UPDATE pipeline_config SET config = $2, secrets = $3, allowed_hosts = $4, size = $5 WHERE id = $1";
    changed!(
        db,
        sqlx::query(SQL)
            .bind(config.id)
            .bind(Json(&config.config))
            .bind(&config.secrets)
            .bind(config.allowed_hosts.as_ref().map(Json))
            .bind(sizes::config_size(config))
    )?;
    Ok(())
}

/// Everything but that, which may be large, and who holds it.
pub(in crate::pipeline) async fn save(db: &mut WriteTx, config: &AppConfig) -> Result<()> {
    const SQL: &str = concat!(
        "UPDATE pipeline_config SET (",
        changing!(""),
        ") = ($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) WHERE id = $1"
    );
    changed!(db, bind_changing!(sqlx::query(SQL).bind(config.id), bind, config))?;
    Ok(())
}

pub(in crate::pipeline) async fn delete(db: &mut WriteTx, config: &AppConfig) -> Result<()> {
    const SQL: &str = "DELETE FROM pipeline_config WHERE organization_id = $1 AND id = $2";
    changed!(db, sqlx::query(SQL).bind(config.organization_id).bind(config.id))?;
    Ok(())
}
