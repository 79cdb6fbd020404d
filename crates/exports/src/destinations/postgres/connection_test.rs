//! Tries what a run would need, and takes it back.

use hogql::Model;

use super::statements::BEGIN;
use super::table;
use super::upload::Rows;
use crate::destinations::sql::{Endpoint, Session, Table, open_in_steps, sample};
use crate::destinations::steps::{Plan, Steps};
use crate::{Delivery, Error, ExportsDeps, Step, layout};

const PLAN: Plan<'_> = &[
    ("reach", "Connect to the server"),
    ("encrypt", "Encrypt the connection and verify the server"),
    ("sign_in", "Sign in to the database"),
    ("tables", "Find or create the schema, the table and the ledger"),
    ("write", "Write rows"),
];

pub(super) async fn run(place: &Endpoint, deps: &ExportsDeps, target: &Table) -> Vec<Step> {
    let mut steps = Steps::new(PLAN);
    if let Some(session) = open_in_steps(&mut steps, place, deps).await {
        let delivery = sample(&layout::table(Model::Events));
        steps.take("found or created", make(&session, target, &delivery)).await;
        let write = Rows::new(session, target, &delivery).rehearse();
        steps.take("test rows were written and rolled back", write).await;
    }
    steps.done()
}

async fn make(session: &Session, target: &Table, delivery: &Delivery) -> Result<(), Error> {
    session.run("start a transaction", BEGIN).await?;
    // Nobody wants to wait for the result of a connection test.
    session
        .run("start a transaction", "SET LOCAL lock_timeout = '5s'")
        .await?;
    table::make(session, target, delivery).await
}
