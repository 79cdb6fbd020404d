//! Logs are asked for below a configuration that was found for the caller.

use crate::db::{Session, changed, log_page, on};
use crate::error::Result;
use crate::id::AppConfigId;
use crate::page::{Page, Window};
use crate::pipeline::types::{AppConfig, AppLog, AppLogFilter};
use crate::retention::delete_oldest;
use crate::transaction::WriteTx;

pub(in super::super) async fn page(
    db: &mut Session,
    config: AppConfigId,
    filter: &AppLogFilter,
    window: Window,
) -> Result<Page<AppLog>> {
    let (rows, count) = log_page!(
        db,
        "source, level, message, created_at" as AppLog,
        "pipeline_log WHERE config_id" = config,
        [],
        filter,
        window
    );
    Ok(Page { items: rows, count })
}

pub(in super::super) async fn insert(
    db: &mut WriteTx,
    config: &AppConfig,
    entry: &AppLog,
    message: &str,
) -> Result<()> {
    // Whatever was said by an app that is deleted in the meantime is of no use to anybody.
    macro_rules! insert {
        ($lock:literal) => {
            concat!(
                "INSERT INTO pipeline_log (id, organization_id, config_id, source, level, message, created_at) \
                 SELECT $1, organization_id, id, $3, $4, $5, $6 FROM pipeline_config WHERE id = $2",
                $lock
            )
        };
    }
    let sql = db.pick(insert!(""), insert!(" FOR KEY SHARE"));
    let id = db.uuid();
    changed!(
        db,
        sqlx::query(sql)
            .bind(id)
            .bind(config.id)
            .bind(entry.source.as_str())
            .bind(entry.level.as_str())
            .bind(message)
            .bind(entry.created_at)
    )?;
    Ok(())
}

pub(in super::super) async fn count(db: &mut Session, config: AppConfigId) -> Result<i64> {
    const SQL: &str = "SELECT count(*) FROM pipeline_log WHERE config_id = $1";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(config).fetch_one(conn))?)
}

pub(in super::super) async fn delete_oldest(db: &mut WriteTx, config: AppConfigId, lines: i64) -> Result<()> {
    const SQL: &str = "DELETE FROM pipeline_log WHERE id IN \
        (SELECT id FROM pipeline_log WHERE config_id = $1 ORDER BY created_at, id LIMIT $2)";
    changed!(db, sqlx::query(SQL).bind(config).bind(lines))?;
    Ok(())
}

pub(in super::super) const DELETE_OLDEST: &str = delete_oldest!("pipeline_log");
