//! Tries what a run would need, and takes it back.

use hogql::Query;

use super::statements::{BEGIN, LIMITS};
use super::table;
use super::target::Target;
use crate::destinations::sql::{Session, open_in_steps, sample};
use crate::destinations::steps::{Plan, Steps};
use crate::{Delivery, Error, Step};

const PLAN: Plan<'_> = &[
    ("reach", "Connect to the cluster"),
    ("encrypt", "Encrypt the connection and verify the cluster"),
    ("sign_in", "Sign in to the database"),
    ("tables", "Find or create the schema, the table and the ledger"),
    ("write", "Write rows, and files to the staging bucket if there is one"),
];

pub(super) async fn run(target: &Target, layout: &Query) -> Vec<Step> {
    let mut steps = Steps::new(PLAN);
    if let Some(session) = open_in_steps(&mut steps, &target.place, &target.deps).await {
        let delivery = sample(layout);
        steps.take("found or created", make(&session, target, &delivery)).await;
        let write = target.attempt(session, &delivery).rehearse();
        steps.take("test rows were written and rolled back", write).await;
    }
    steps.done()
}

/// Tables that are made within a transaction go with it.
async fn make(session: &Session, target: &Target, delivery: &Delivery) -> Result<(), Error> {
    session.run("set a time limit", LIMITS).await?;
    session.run("start a transaction", BEGIN).await?;
    table::make_missing(session, &target.table, delivery, target.json).await
}
