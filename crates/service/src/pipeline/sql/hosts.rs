//! The hosts that apps reached are found by their configuration alone.

use crate::db::{Session, changed, on};
use crate::error::Result;
use crate::id::AppConfigId;
use crate::page::{Page, Window};
use crate::pipeline::types::ReachedHost;
use crate::transaction::WriteTx;

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT host, is_allowed, first_at, last_at FROM pipeline_reached_host WHERE config_id = $1 ",
            $rest
        )
    };
}

pub(in super::super) async fn page(db: &mut Session, config: AppConfigId, window: Window) -> Result<Page<ReachedHost>> {
    const ROWS: &str = select!("ORDER BY host LIMIT $2 OFFSET $3");
    let Window { limit, offset } = window;
    let items = on!(db, conn => sqlx::query_as(ROWS).bind(config).bind(limit).bind(offset).fetch_all(conn))?;
    let count = count(db, config).await?;
    Ok(Page { items, count })
}

pub(in super::super) async fn find(db: &mut Session, config: AppConfigId, host: &str) -> Result<Option<ReachedHost>> {
    const SQL: &str = select!("AND host = $2");
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(config).bind(host).fetch_optional(conn))?)
}

pub(in super::super) async fn count(db: &mut Session, config: AppConfigId) -> Result<i64> {
    const SQL: &str = "SELECT count(*) FROM pipeline_reached_host WHERE config_id = $1";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(config).fetch_one(conn))?)
}

/// The one that was asked for longest ago; those that were refused first. None: somebody else was faster.
pub(in super::super) async fn forget_one(db: &mut WriteTx, config: AppConfigId) -> Result<Option<String>> {
    const SQL: &str = "DELETE FROM pipeline_reached_host WHERE config_id = $1 AND host = (SELECT host FROM \
        pipeline_reached_host WHERE config_id = $1 ORDER BY is_allowed, last_at, host LIMIT 1) RETURNING host";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(config).fetch_optional(conn))?)
}

/// False: the configuration was deleted in the meantime, and nothing is remembered.
pub(in super::super) async fn put(db: &mut WriteTx, config: AppConfigId, host: &str, is_allowed: bool) -> Result<bool> {
    macro_rules! put {
        ($lock:literal) => {
            concat!(
                "INSERT INTO pipeline_reached_host (config_id, host, is_allowed, first_at, last_at) \
                 SELECT id, $2, $3, $4, $4 FROM pipeline_config WHERE id = $1",
                $lock,
                " ON CONFLICT (config_id, host) DO UPDATE SET is_allowed = excluded.is_allowed, last_at = excluded.last_at"
            )
        };
    }
    let sql = db.pick(put!(""), put!(" FOR KEY SHARE"));
    let now = db.now;
    let put = changed!(db, sqlx::query(sql).bind(config).bind(host).bind(is_allowed).bind(now))?;
    Ok(put > 0)
}
