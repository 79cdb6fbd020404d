//! Databricks, by the interfaces for statements and for files. Rows go to a volume as Parquet, from there into a table of
//! the attempt's own, and one MERGE brings them into the export's table; a second statement writes the ledger.
//!
//! Delta has no transaction over two tables, so the MERGE alone has to be safe to repeat: it is, by the events' ids and by
//! the persons' versions.

mod client;
mod errors;
mod plan;
mod sql;
mod table;
mod upload;

use std::sync::Arc;

use async_trait::async_trait;
use hogql::{Column as Source, Model, Query};
use service::batch_exports::destination::Databricks as Config;

use self::client::Client;
use self::sql::Names;
use self::upload::Loading;
use super::staging::{attempt_name, begin};
use super::steps::{Plan, Steps};
use crate::{Deliver, Delivery, Error, ExportsDeps, Step, Upload, layout};

pub(super) fn open(config: &Config, deps: &ExportsDeps) -> Result<Box<dyn Deliver>, Error> {
    Ok(Box::new(Workspace {
        names: Names::new(config)?,
        client: Arc::new(Client::new(config, deps)?),
        config: config.clone(),
    }))
}

/// A table in a catalog.
struct Workspace {
    config: Config,
    names: Names,
    client: Arc<Client>,
}

const TEST: Plan<'_> = &[
    ("sign in", "Connect to the workspace and sign in"),
    ("warehouse", "Run a statement on the SQL warehouse"),
    ("table", "Read the table, if it exists"),
    ("write", "Create a table and a volume, write to them, and delete them"),
];

#[async_trait]
impl Deliver for Workspace {
    fn layout(&self, model: Model) -> Query {
        match model {
            Model::Persons => layout::table(model),
            Model::Events => Query::of(
                model,
                &[
                    Source::Uuid,
                    Source::Event,
                    Source::Properties,
                    Source::DistinctId,
                    Source::TeamId,
                    Source::Timestamp,
                ],
            ),
        }
    }

    async fn begin(&self, delivery: &Delivery) -> Result<Option<Box<dyn Upload>>, Error> {
        let loading = Loading::new(self.client.clone(), &self.config, &self.names, delivery);
        begin(loading, delivery).await
    }

    async fn test(&self) -> Vec<Step> {
        let mut steps = Steps::new(TEST);
        steps.take("signed in", self.client.sign_in()).await;
        let select = self.client.run("SELECT 1");
        steps.take("the warehouse responds", select).await;
        let table = table::columns(&self.client, &self.names);
        steps.take("the table exists or can be created", table).await;
        let write = self.write_and_remove();
        let seen = "a table and a volume were created, written to and deleted";
        steps.take(seen, write).await;
        steps.done()
    }
}

impl Workspace {
    async fn write_and_remove(&self) -> Result<(), Error> {
        let attempt = attempt_name();
        let written = async {
            for statement in self.names.try_out(&attempt) {
                self.client.run(&statement).await?;
            }
            self.client
                .put(&self.names.path(&attempt, "test"), "a test of Hedgerow".into())
                .await
        };
        let written = written.await;
        table::clear(&self.client, &self.names, &attempt).await;
        written
    }
}
