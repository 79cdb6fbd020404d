//! `BigQuery`, by its REST interface. Rows are loaded as Parquet into a table of the attempt's own, and one script moves
//! them, in a transaction, into the export's table together with the ledger's row.

mod client;
mod errors;
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
use self::upload::{Loading, Plan};
use super::staging::{
    Claim, Column, FILE_SIZE, LEDGER, Spool, Steps, WriteMode, columns, is_attempt, private_key, stage_name,
};
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

const SIGN_IN_STEP: &str = "Get a token for the service account";
const DATASET_STEP: &str = "Read the dataset";
const TABLE_STEP: &str = "Read the table, if it exists";
const WRITE_STEP: &str = "Create a table, write to it with a query, and delete it";

#[async_trait]
impl Deliver for Dataset {
    fn layout(&self, model: Model) -> Query {
        layout::table(model)
    }

    async fn begin(&self, delivery: &Delivery) -> Result<Option<Box<dyn Upload>>, Error> {
        let staged = columns(&delivery.schema, str::to_owned);
        sql::check_columns(&staged)?;
        self.client.locate(&self.config.dataset_id).await?;
        self.client.ensure(LEDGER, &tables::ledger()).await?;
        let claim = Claim::new(delivery, &self.config.table_id);
        let rows = self.client.rows(&self.names.ledger_entry(&claim)).await?;
        let entry = rows.into_iter().next().map(|row| {
            let mut cells = row.into_iter();
            (cells.next().flatten(), cells.next().flatten())
        });
        if let Some((_, Some(_))) = entry
            && !claim.is_resend
        {
            return Ok(None);
        }
        let wanted = tables::table(&staged, self.config.use_json_type, delivery.is_custom);
        let table = self.client.ensure(&self.config.table_id, &wanted).await?;
        let written: Vec<Column> = staged
            .iter()
            .filter(|column| table.has(&column.name))
            .cloned()
            .collect();
        let mode = WriteMode::of(delivery, &written)?;
        self.client.run(&self.names.claim(&claim)).await?;
        if let Some(attempt) = entry
            .and_then(|(attempt, _)| attempt)
            .filter(|attempt| is_attempt(attempt))
        {
            self.client.remove(&stage_name(&attempt)).await;
        }
        self.client
            .create(&stage_name(&claim.attempt), &tables::stage(&staged))
            .await?;
        let spool = Spool::new(&delivery.schema, &staged, FILE_SIZE);
        let plan = Plan {
            claim,
            mode,
            written,
            table,
            is_custom: delivery.is_custom,
        };
        Ok(Some(Box::new(Loading::new(
            self.client.clone(),
            self.names.clone(),
            plan,
            spool,
        ))))
    }

    async fn test(&self) -> Vec<Step> {
        let mut steps = Steps::default();
        let token = self.client.sign_in();
        steps
            .take("sign in", SIGN_IN_STEP, "the service account signed in", token)
            .await;
        let dataset = self.client.locate(&self.config.dataset_id);
        steps.take("dataset", DATASET_STEP, "the dataset exists", dataset).await;
        let table = self.client.find(&self.config.table_id);
        steps
            .take("table", TABLE_STEP, "the table exists or can be created", table)
            .await;
        let write = self.write_and_remove();
        steps
            .take(
                "write",
                WRITE_STEP,
                "a table was created, written to and deleted",
                write,
            )
            .await;
        steps.done()
    }
}

impl Dataset {
    async fn write_and_remove(&self) -> Result<(), Error> {
        let name = stage_name(&uuid::Uuid::now_v7().simple().to_string());
        self.client.create(&name, &Table::of_one_text()).await?;
        let written = self.client.run(&self.names.try_out(&name)).await;
        self.client.remove(&name).await;
        written
    }
}
