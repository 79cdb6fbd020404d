//! From a complete stage to the table. Every step may be repeated by another worker, from wherever it was broken off.

use events::clickhouse::{Statement, identifier};

use super::ledger;
use super::names::{Names, key};
use super::session::{LONG, Session};
use super::target::{Target, names as columns};
use crate::{Delivery, Error, Receipt};

/// Makes a stage the one that counts. It fails if another worker's already does, or if this one's was cleared away.
pub(super) async fn make_ready(session: &Session, names: &Names, is_resend: bool) -> Result<(), Error> {
    let ready = if is_resend { &names.replacing } else { &names.ready };
    let sql = format!("RENAME TABLE {} TO {}", identifier(&names.stage), identifier(ready));
    session.sql("rename the stage", sql).await
}

/// Moves a complete stage into the table, notes the interval as delivered, and clears the stage away.
pub(super) async fn finish(
    session: &Session,
    names: &Names,
    target: &Target,
    delivery: &Delivery,
    receipt: Receipt,
    is_replacing: bool,
) -> Result<(), Error> {
    let ready = if is_replacing { &names.replacing } else { &names.ready };
    // A worker that was thought dead may have delivered the interval in the meantime.
    if is_replacing || !ledger::has(session, delivery).await? {
        if is_replacing && target.deletes_first(delivery) {
            delete_old(session, names, ready).await?;
        }
        if target.takes_parts {
            move_parts(session, ready, &names.target).await?;
        } else {
            copy(session, names, ready, delivery).await?;
        }
        ledger::write(session, delivery, receipt).await?;
    }
    drop_table(session, ready).await
}

/// Finishes what an earlier attempt had complete.
pub(super) async fn finish_broken_off(
    session: &Session,
    names: &Names,
    target: &Target,
    delivery: &Delivery,
) -> Result<(), Error> {
    for (table, is_replacing) in [(&names.ready, false), (&names.replacing, true)] {
        if tables(session, table).await?.contains(table) {
            let receipt = Receipt {
                rows: count(session, table).await?,
                bytes: 0,
            };
            finish(session, names, target, delivery, receipt, is_replacing).await?;
        }
    }
    Ok(())
}

/// Drops the stages of earlier attempts, complete or not.
pub(super) async fn clear(session: &Session, names: &Names) -> Result<(), Error> {
    for table in tables(session, &names.stages).await? {
        drop_table(session, &table).await?;
    }
    Ok(())
}

pub(super) async fn drop_table(session: &Session, table: &str) -> Result<(), Error> {
    let sql = format!("DROP TABLE IF EXISTS {} SYNC", identifier(table));
    session.sql("drop a stage", sql).await
}

pub(super) async fn count(session: &Session, table: &str) -> Result<u64, Error> {
    let sql = format!("SELECT count() FROM {}", identifier(table));
    let rows = session.rows("count rows", Statement::new(sql)).await?;
    let count = rows.first().and_then(|row| row.first()?.parse().ok());
    count.ok_or_else(|| Error::retryable("ClickHouse did not count its rows", "not a number"))
}

async fn tables(session: &Session, prefix: &str) -> Result<Vec<String>, Error> {
    let sql = "SELECT name FROM system.tables WHERE database = currentDatabase() AND startsWith(name, {prefix:String}) \
               FORMAT JSONCompactEachRow";
    let statement = Statement::new(sql).bind("prefix", prefix);
    let rows = session.rows("list tables", statement).await?;
    let name = |row: Vec<String>| serde_json::from_str::<[String; 1]>(&row.concat()).ok();
    Ok(rows.into_iter().filter_map(name).map(|[name]| name).collect())
}

async fn move_parts(session: &Session, from: &str, to: &str) -> Result<(), Error> {
    let sql = "SELECT DISTINCT partition_id FROM system.parts \
               WHERE database = currentDatabase() AND table = {table:String} AND active ORDER BY partition_id";
    let rows = session
        .rows("list the parts of a stage", Statement::new(sql).bind("table", from))
        .await?;
    for partition in rows.concat() {
        if !partition
            .chars()
            .all(|sign| sign.is_ascii_alphanumeric() || "-_".contains(sign))
        {
            return Err(Error::plain("ClickHouse returned an unknown partition format"));
        }
        let sql = format!(
            "ALTER TABLE {} MOVE PARTITION ID '{partition}' TO TABLE {}",
            identifier(from),
            identifier(to)
        );
        session
            .run("move rows from the stage", Statement::new(sql).within(LONG))
            .await?;
    }
    Ok(())
}

/// For tables that take no parts. The token lets those that remember tokens know a repeat.
async fn copy(session: &Session, names: &Names, ready: &str, delivery: &Delivery) -> Result<(), Error> {
    let columns = columns(&delivery.schema);
    let sql = format!(
        "INSERT INTO {} ({columns}) SELECT {columns} FROM {} ORDER BY {columns}",
        identifier(&names.target),
        identifier(ready)
    );
    let statement = Statement::new(sql)
        .within(LONG)
        .set("insert_deduplication_token", format!("hedgerow-{}", key(delivery)))
        .set("async_insert", 0)
        .set("insert_distributed_sync", 1)
        // The same rows in the same blocks, or a token would mean nothing.
        .set("max_threads", 1)
        .set("max_insert_threads", 1);
    session.run("copy rows from the stage", statement).await
}

async fn delete_old(session: &Session, names: &Names, ready: &str) -> Result<(), Error> {
    let sql = format!(
        "ALTER TABLE {} DELETE WHERE toString(uuid) IN (SELECT toString(uuid) FROM {})",
        identifier(&names.target),
        identifier(ready)
    );
    let statement = Statement::new(sql)
        .within(LONG)
        .set("mutations_sync", 2)
        .set("allow_nondeterministic_mutations", 1);
    session.run("delete the rows that are replaced", statement).await
}
