//! Delivers into a table of PostgreSQL: an interval is one transaction, and a ledger beside the table remembers it.

mod connection_test;
mod encode;
mod statements;
mod table;
mod upload;

use async_trait::async_trait;
use hogql::{Model, Query};
use service::batch_exports::destination::Postgres as Config;

use self::upload::Rows;
use super::sql::{Endpoint, Limits, Session, Table};
use super::staging::begin;
use crate::{Deliver, Delivery, Error, ExportsDeps, Step, Upload, layout};

pub(super) fn open(config: &Config, deps: &ExportsDeps) -> Result<Box<dyn Deliver>, Error> {
    let secrets = (&config.user, &config.password);
    let mut place = Endpoint::new(&config.host, config.port, &config.database, secrets)?;
    if config.has_self_signed_cert {
        place = place.unverified();
    }
    Ok(Box::new(Postgres {
        place,
        deps: deps.clone(),
        table: Table::target(&config.schema, &config.table_name)?,
    }))
}

struct Postgres {
    place: Endpoint,
    deps: ExportsDeps,
    table: Table,
}

#[async_trait]
impl Deliver for Postgres {
    fn layout(&self, model: Model) -> Query {
        layout::table(model)
    }

    async fn begin(&self, delivery: &Delivery) -> Result<Option<Box<dyn Upload>>, Error> {
        let session = Session::open(&self.place, &self.deps, Limits::default()).await?;
        let session = session.naming_columns(&delivery.schema);
        begin(Rows::new(session, &self.table, delivery), delivery).await
    }

    async fn test(&self) -> Vec<Step> {
        connection_test::run(&self.place, &self.deps, &self.table).await
    }
}
