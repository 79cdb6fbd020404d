//! Tries, step by step, what a run would need.

use events::clickhouse::{Statement, identifier};
use hogql::Query;

use super::commit::drop_table;
use super::names::nonce;
use super::session::Session;
use super::target;
use crate::{Error, Step, Verdict};

const PLAN: [(&str, &str); 4] = [
    ("reach", "Connect to the server"),
    ("sign_in", "Sign in and find the database"),
    ("table", "Find the table, or be able to create it"),
    ("write", "Insert a row into a staging table, and delete it"),
];

pub(super) async fn run(session: &Session, table: &str, layout: &Query) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut failure = None;
    for (at, (name, description)) in PLAN.into_iter().enumerate() {
        let outcome = match &failure {
            Some(()) => None,
            None => Some(step(at, session, table, layout).await),
        };
        let (verdict, message) = match outcome {
            None => (Verdict::Skipped, "skipped because an earlier step failed".to_owned()),
            Some(Ok(message)) => (Verdict::Passed, message.to_owned()),
            Some(Err(error)) => {
                failure = Some(());
                (Verdict::Failed, error.sentence)
            }
        };
        steps.push(Step {
            name,
            description: description.to_owned(),
            verdict,
            message,
        });
    }
    steps
}

async fn step(at: usize, session: &Session, table: &str, layout: &Query) -> Result<&'static str, Error> {
    match at {
        0 => session.ping().await.map(|()| "connected"),
        1 => {
            let sql = "SELECT 1".to_owned();
            session.sql("answer a query", sql).await.map(|()| "signed in")
        }
        2 => match target::find(session, table).await? {
            None => Ok("the table doesn't exist yet; the first run creates it"),
            Some(target) if target.takes_parts => Ok("the table exists, and intervals are delivered atomically"),
            Some(_) => Ok("the table exists; rows are copied into it, which is not atomic"),
        },
        _ => write(session, table, layout)
            .await
            .map(|()| "a row was written and deleted"),
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
