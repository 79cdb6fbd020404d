//! Delivers into a table of PostgreSQL: an interval is one transaction, and a ledger beside the table remembers it.

mod encode;
mod statements;
mod table;
mod trial;
mod upload;

use async_trait::async_trait;
use hogql::{Model, Query};
use service::batch_exports::destination::Postgres as Config;
use tokio_postgres::types::Type;

use super::sql::{Endpoint, Limits, Session, Table};
use crate::{Deliver, Delivery, Error, ExportsDeps, Step, Upload, layout};
use encode::Encoder;
use statements::{BEGIN, Shape, delivery_lock};
use upload::Rows;

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
        let mut session = Session::open(&self.place, &self.deps, Limits::default()).await?;
        session.columns = delivery
            .schema
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect();
        table::make_missing(&session, &self.table, delivery).await?;

        session.run("start a transaction", BEGIN).await?;
        let lock = "SELECT pg_catalog.pg_advisory_xact_lock($1)";
        let key = delivery_lock(delivery);
        session
            .ask("wait for another delivery", lock, &[(&key, Type::INT8)])
            .await?;
        let was_delivered = table::is_delivered(&session, &self.table, delivery).await?;
        if was_delivered && !delivery.is_resend {
            session.run("end a transaction", "ROLLBACK").await?;
            session.close().await;
            return Ok(None);
        }
        let columns = table::columns(&session, &self.table).await?;
        let encoder = Encoder::new(&delivery.schema, &columns)?;
        let shape = Shape::new(&self.table, delivery, encoder.names(), was_delivered)?;
        Ok(Some(Box::new(Rows::begin(session, delivery, shape, encoder).await?)))
    }

    async fn test(&self) -> Vec<Step> {
        trial::run(self).await
    }
}
