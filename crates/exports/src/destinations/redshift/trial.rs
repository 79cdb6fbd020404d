//! Tries what a run would need, and takes it back.

use super::super::sql::{Limits, Plan, Session, Stage, Trial, sample};
use super::statements::{BEGIN, LIMITS, Shape};
use super::upload::Rows;
use super::values::Values;
use super::{Redshift, table};
use crate::{Deliver, Delivery, Error, Step};

const PLAN: Plan = &[
    ("reach", "Connect to the cluster"),
    ("encrypt", "Encrypt the connection and verify the cluster"),
    ("sign_in", "Sign in to the database"),
    ("tables", "Find or create the schema, the table and the ledger"),
    ("write", "Write rows, and files to the staging bucket if there is one"),
];

pub(super) async fn run(redshift: &Redshift) -> Vec<Step> {
    let mut trial = Trial::new(PLAN);
    let opened = Session::open_by_stages(&redshift.place, &redshift.deps, Limits::default()).await;
    let session = match opened {
        Ok(session) => session,
        Err((stage, error)) => return trial.opened_to(stage).failed(&error),
    };
    trial = trial.opened_to(Stage::Done);
    let delivery = sample(&redshift.layout(hogql::Model::Events));
    if let Err(error) = make(&session, redshift, &delivery).await {
        return trial.failed(&error);
    }
    trial.passed("found or created");
    match write(session, redshift, &delivery).await {
        Ok(()) => trial.passed("test rows were written and rolled back"),
        Err(error) => return trial.failed(&error),
    }
    trial.done()
}

/// Tables that are made within a transaction go with it.
async fn make(session: &Session, redshift: &Redshift, delivery: &Delivery) -> Result<(), Error> {
    session.run("set a time limit", LIMITS).await?;
    session.run("start a transaction", BEGIN).await?;
    table::make_missing(session, &redshift.table, delivery, redshift.json).await
}

async fn write(session: Session, redshift: &Redshift, delivery: &Delivery) -> Result<(), Error> {
    let columns = table::columns(&session, &redshift.table).await?;
    let values = Values::new(&delivery.schema, &columns)?;
    let shape = Shape::new(&redshift.table, delivery, values.names(), false)?;
    let mode = redshift.mode(delivery);
    Rows::begin(session, delivery, shape, values, mode)
        .await?
        .rehearse()
        .await
}
