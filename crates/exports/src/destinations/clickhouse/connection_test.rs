//! Tries, step by step, what a run would need.

use events::clickhouse::{Statement, identifier};
use hogql::Query;

use super::commit::drop_table;
use super::names::nonce;
use super::session::Session;
use super::target;
use crate::destinations::steps::{Plan, Steps};
use crate::{Error, Step};

const PLAN: Plan<'_> = &[
    ("reach", "Connect to the server"),
    ("sign_in", "Sign in and find the database"),
    ("table", "Find the table, or be able to create it"),
    ("write", "Insert a row into a staging table, and delete it"),
];

pub(super) async fn run(session: &Session, table: &str, layout: &Query) -> Vec<Step> {
    let mut steps = Steps::new(PLAN);
    steps.take("connected", session.ping()).await;
    let select = session.sql("answer a query", "SELECT 1".to_owned());
    steps.take("signed in", select).await;
    steps.tell(find(session, table)).await;
    let write = write(session, table, layout);
    steps.take("a row was written and deleted", write).await;
    steps.done()
}

async fn find(session: &Session, table: &str) -> Result<&'static str, Error> {
    match target::find(session, table).await? {
        None => Ok("the table doesn't exist yet; the first run creates it"),
        Some(target) if target.takes_parts => Ok("the table exists, and intervals are delivered atomically"),
        Some(_) => Ok("the table exists; rows are copied into it, which is not atomic"),
    }
}

/// In a table of its own, which is gone afterwards whatever happened.
async fn write(session: &Session, table: &str, layout: &Query) -> Result<(), Error> {
    let stage = format!("{table}__hedgerow_trial_{:08x}", nonce());
    let schema = events::schema(layout);
    session
        .sql("create a stage", target::loose_stage(&stage, &schema))
        .await?;
    let written = try_row(session, &stage).await;
    let dropped = drop_table(session, &stage).await;
    written.and(dropped)
}

async fn try_row(session: &Session, stage: &str) -> Result<(), Error> {
    let row = Statement::new(format!("INSERT INTO {} (uuid) FORMAT JSONEachRow", identifier(stage)))
        .with("{\"uuid\":\"00000000-0000-0000-0000-000000000000\"}\n")
        .set("async_insert", 0);
    session.run("insert a row", row).await?;
    let sql = format!("ALTER TABLE {} DELETE WHERE 1", identifier(stage));
    session
        .run("delete a row", Statement::new(sql).set("mutations_sync", 2))
        .await
}
