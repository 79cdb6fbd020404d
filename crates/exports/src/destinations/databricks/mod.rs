//! Databricks, by the interfaces for statements and for files. Rows go to a volume as Parquet, from there into a table of
//! the attempt's own, and one MERGE brings them into the export's table; a second statement writes the ledger.
//!
//! Delta has no transaction over two tables, so the MERGE alone has to be safe to repeat: it is, by the events' ids and by
//! the persons' versions.

mod client;
mod errors;
mod sql;
mod upload;

use std::sync::Arc;

use async_trait::async_trait;
use hogql::{Column as Source, Model, Query};
use service::batch_exports::destination::Databricks as Config;

use self::client::Client;
use self::errors::is_missing;
use self::sql::Names;
use self::upload::{Loading, Plan};
use super::staging::{Claim, Column, FILE_SIZE, Spool, Steps, WriteMode, columns, is_attempt};
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

const SIGN_IN_STEP: &str = "Connect to the workspace and sign in";
const WAREHOUSE_STEP: &str = "Run a statement on the SQL warehouse";
const TABLE_STEP: &str = "Read the table, if it exists";
const WRITE_STEP: &str = "Create a table and a volume, write to them, and delete them";

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
        let staged = columns(&delivery.schema, str::to_owned);
        sql::check_columns(&staged)?;
        let claim = Claim::new(delivery, &self.config.table_name);
        self.client.run(&self.names.create_ledger()).await?;
        let rows = self.client.run(&self.names.ledger_entry(&claim)).await?;
        let entry = rows.into_iter().next().map(|row| {
            let mut cells = row.into_iter();
            (cells.next().flatten(), cells.next().flatten())
        });
        if let Some((_, Some(_))) = entry
            && !claim.is_resend
        {
            return Ok(None);
        }
        let plan = self.plan(delivery, claim, &staged).await?;
        self.client.run(&self.names.claim(&plan.claim)).await?;
        if let Some(attempt) = entry
            .and_then(|(attempt, _)| attempt)
            .filter(|attempt| is_attempt(attempt))
        {
            upload::clear(&self.client, &self.names, &attempt).await;
        }
        self.client.run(&self.names.create_stage(&plan.claim, &staged)).await?;
        self.client.run(&self.names.create_volume(&plan.claim.attempt)).await?;
        let spool = Spool::new(&delivery.schema, &staged, FILE_SIZE);
        Ok(Some(Box::new(Loading::new(
            self.client.clone(),
            self.names.clone(),
            plan,
            spool,
        ))))
    }

    async fn test(&self) -> Vec<Step> {
        let mut steps = Steps::default();
        let signed_in = self.client.sign_in();
        steps.take("sign in", SIGN_IN_STEP, "signed in", signed_in).await;
        let select = self.client.run("SELECT 1");
        steps
            .take("warehouse", WAREHOUSE_STEP, "the warehouse responds", select)
            .await;
        let table = self.table();
        steps
            .take("table", TABLE_STEP, "the table exists or can be created", table)
            .await;
        let write = self.write_and_remove();
        steps
            .take(
                "write",
                WRITE_STEP,
                "a table and a volume were created, written to and deleted",
                write,
            )
            .await;
        steps.done()
    }
}

impl Workspace {
    /// The table's columns with their types; none if there is no table.
    async fn table(&self) -> Result<Option<Vec<(String, String)>>, Error> {
        let rows = match self.client.run(&self.names.describe()).await {
            Err(error) if is_missing(&error) => return Ok(None),
            other => other?,
        };
        let pair = |row: Vec<Option<String>>| {
            let mut cells = row.into_iter();
            Some((cells.next().flatten()?, cells.next().flatten()?))
        };
        // After the columns comes, behind an empty line, how they are partitioned.
        let is_column = |pair: &(String, String)| !pair.0.is_empty() && !pair.0.starts_with('#');
        Ok(Some(rows.into_iter().map_while(pair).take_while(is_column).collect()))
    }

    async fn plan(&self, delivery: &Delivery, claim: Claim, staged: &[Column]) -> Result<Plan, Error> {
        let table = if let Some(table) = self.table().await? {
            table
        } else {
            let create = self
                .names
                .create_table(staged, self.config.use_variant_type, delivery.is_custom);
            self.client.run(&create).await?;
            self.table().await?.unwrap_or_default()
        };
        let has = |name: &str| table.iter().any(|(column, _)| column.eq_ignore_ascii_case(name));
        let evolves = self.config.use_automatic_schema_evolution;
        let written: Vec<Column> = staged
            .iter()
            .filter(|column| evolves || has(&column.name))
            .cloned()
            .collect();
        let mode = WriteMode::of(delivery, &written)?;
        if mode != WriteMode::Persons && !written.iter().any(|column| column.name == "uuid") {
            return Err(Error::plain(
                "Databricks cannot write rows and the ledger in one transaction, so rows need a uuid to be delivered exactly once; add uuid to the query",
            ));
        }
        let is_variant = |column: &Column| {
            let found = table.iter().find(|(name, _)| name.eq_ignore_ascii_case(&column.name));
            found.map_or(self.config.use_variant_type, |(_, kind)| {
                kind.eq_ignore_ascii_case("variant")
            })
        };
        Ok(Plan {
            variants: written
                .iter()
                .filter(|column| is_variant(column))
                .map(|column| column.name.clone())
                .collect(),
            is_stamped: has(sql::INGESTED) && !delivery.is_custom,
            claim,
            mode,
            written,
            evolves,
        })
    }

    async fn write_and_remove(&self) -> Result<(), Error> {
        let attempt = uuid::Uuid::now_v7().simple().to_string();
        let written = async {
            for statement in self.names.try_out(&attempt) {
                self.client.run(&statement).await?;
            }
            self.client
                .put(&self.names.path(&attempt, "test"), "a test of Hedgerow".into())
                .await
        };
        let written = written.await;
        upload::clear(&self.client, &self.names, &attempt).await;
        written
    }
}
