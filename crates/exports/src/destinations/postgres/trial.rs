//! Tries what a run would need, and takes it back.

use hogql::Model;

use super::super::sql::{Limits, Plan, Session, Stage, Trial, sample};
use super::encode::Encoder;
use super::statements::{BEGIN, Shape};
use super::upload::Rows;
use super::{Postgres, table};
use crate::{Delivery, Error, Step, layout};

const PLAN: Plan = &[
    ("reach", "Connect to the server"),
    ("encrypt", "Encrypt the connection and verify the server"),
    ("sign_in", "Sign in to the database"),
    ("tables", "Find or create the schema, the table and the ledger"),
    ("write", "Write rows"),
];

pub(super) async fn run(postgres: &Postgres) -> Vec<Step> {
    let mut trial = Trial::new(PLAN);
    let opened = Session::open_by_stages(&postgres.place, &postgres.deps, Limits::default()).await;
    let session = match opened {
        Ok(session) => session,
        Err((stage, error)) => return trial.opened_to(stage).failed(&error),
    };
    trial = trial.opened_to(Stage::Done);
    let delivery = sample(&layout::table(Model::Events));
    if let Err(error) = make(&session, postgres, &delivery).await {
        return trial.failed(&error);
    }
    trial.passed("found or created");
    match write(session, postgres, &delivery).await {
        Ok(()) => trial.passed("test rows were written and rolled back"),
        Err(error) => return trial.failed(&error),
    }
    trial.done()
}

async fn make(session: &Session, postgres: &Postgres, delivery: &Delivery) -> Result<(), Error> {
    session.run("start a transaction", BEGIN).await?;
    // Nobody wants to wait for the result of a trial.
    session
        .run("start a transaction", "SET LOCAL lock_timeout = '5s'")
        .await?;
    table::make(session, &postgres.table, delivery).await
}

/// A COPY without rows asks for all the rights that one with rows does; the ledger gets a row.
async fn write(session: Session, postgres: &Postgres, delivery: &Delivery) -> Result<(), Error> {
    let columns = table::columns(&session, &postgres.table).await?;
    let encoder = Encoder::new(&delivery.schema, &columns)?;
    let shape = Shape::new(&postgres.table, delivery, encoder.names(), false)?;
    let rows = Rows::begin(session, delivery, shape, encoder).await?;
    rows.rehearse().await
}
