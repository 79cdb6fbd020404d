//! `BigQuery`, by its REST interface. Rows are loaded as Parquet into a table of the attempt's own, and one script moves
//! them, in a transaction, into the export's table together with the ledger's row.

mod client;
mod errors;
mod plan;
mod sql;
mod tables;
mod token;
mod upload;

use std::sync::Arc;

use async_trait::async_trait;
use hogql::{Model, Query};
use service::batch_exports::destination::BigQuery as Config;

use self::client::Client;
use self::sql::Names;
use self::tables::Table;
use self::upload::Loading;
use super::staging::{attempt_name, begin, private_key, stage_name};
use super::steps::{Plan, Steps};
use crate::{Deliver, Delivery, Error, ExportsDeps, Step, Upload, layout};

pub(super) fn open(config: &Config, deps: &ExportsDeps) -> Result<Box<dyn Deliver>, Error> {
    // BigQuery knows no passphrases.
    private_key(&config.private_key, None).map_err(|error| error.in_key("private_key"))?;
    Ok(Box::new(Dataset {
        names: Names::new(config)?,
        client: Arc::new(Client::new(config, deps)?),
        config: config.clone(),
    }))
}

/// A table in a dataset.
struct Dataset {
    config: Config,
    names: Names,
    client: Arc<Client>,
}

const TEST: Plan<'_> = &[
    ("sign in", "Get a token for the service account"),
    ("dataset", "Read the dataset"),
    ("table", "Read the table, if it exists"),
    ("write", "Create a table, write to it with a query, and delete it"),
];

#[async_trait]
impl Deliver for Dataset {
    fn layout(&self, model: Model) -> Query {
        layout::table(model)
    }

    async fn begin(&self, delivery: &Delivery) -> Result<Option<Box<dyn Upload>>, Error> {
        let loading = Loading::new(self.client.clone(), &self.config, &self.names, delivery);
        begin(loading, delivery).await
    }

    async fn test(&self) -> Vec<Step> {
        let mut steps = Steps::new(TEST);
        let token = self.client.sign_in();
        steps.take("the service account signed in", token).await;
        let dataset = self.client.locate(&self.config.dataset_id);
        steps.take("the dataset exists", dataset).await;
        let table = self.client.find(&self.config.table_id);
        steps.take("the table exists or can be created", table).await;
        let write = self.write_and_remove();
        steps.take("a table was created, written to and deleted", write).await;
        steps.done()
    }
}

impl Dataset {
    async fn write_and_remove(&self) -> Result<(), Error> {
        let name = stage_name(&attempt_name());
        self.client.create(&name, &Table::of_one_text()).await?;
        let written = self.client.run(&self.names.try_out(&name)).await;
        self.client.remove(&name).await;
        written
    }
}
