//! Snowflake, by the protocol of its drivers. Rows go to a temporary stage as Parquet, from there into a table of the
//! attempt's own, and then, in one transaction, into the export's table together with the ledger's row.

mod answer;
mod errors;
mod key;
mod session;
mod sql;
mod stage;
mod upload;

use std::time::Duration;

use async_trait::async_trait;
use hogql::{Model, Query};
use outbound::Http;
use service::batch_exports::destination::{Snowflake as Config, SnowflakeAuthentication};

use self::answer::Outcome;
use self::errors::is_missing;
use self::session::Session;
use self::sql::Names;
use self::upload::{Loading, Plan};
use super::staging::{Claim, Column, FILE_SIZE, Spool, Steps, WriteMode, columns, stage_name};
use crate::{Deliver, Delivery, Error, ExportsDeps, Step, Upload, layout};

/// The server holds an answer back for up to 45 seconds before it says that it is still busy.
const EXCHANGE_TIME: Duration = Duration::from_secs(90);

pub(super) fn open(config: &Config, deps: &ExportsDeps) -> Result<Box<dyn Deliver>, Error> {
    let base = base_url(config)?;
    let names = Names::new(config)?;
    sql::word("warehouse", &config.warehouse).map_err(|error| error.in_key("warehouse"))?;
    if let Some(role) = &config.role {
        sql::word("role", role).map_err(|error| error.in_key("role"))?;
    }
    if config.authentication_type == SnowflakeAuthentication::Keypair {
        key::check(config)?;
    }
    Ok(Box::new(Warehouse {
        config: config.clone(),
        http: deps.http.clone().within(EXCHANGE_TIME),
        base,
        names,
    }))
}

/// A table in an account.
struct Warehouse {
    config: Config,
    http: Http,
    base: String,
    names: Names,
}

/// Where the account is. Its identifier becomes part of a host name, so it must look like one.
fn base_url(config: &Config) -> Result<String, Error> {
    if let Some(url) = &config.endpoint_url {
        return Ok(url.trim_end_matches('/').to_owned());
    }
    let account = &config.account;
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "._-".contains(char);
    if account.is_empty() || !account.chars().all(is_plain) {
        return Err(Error::plain(
            "the account must be an identifier such as myorg-myaccount, without https:// and snowflakecomputing.com",
        )
        .in_key("account"));
    }
    // An underscore cannot be part of a host name; Snowflake answers to a hyphen in its place.
    let host = account.to_ascii_lowercase().replace('_', "-");
    Ok(format!("https://{host}.snowflakecomputing.com"))
}

#[async_trait]
impl Deliver for Warehouse {
    fn layout(&self, model: Model) -> Query {
        layout::table(model)
    }

    async fn begin(&self, delivery: &Delivery) -> Result<Option<Box<dyn Upload>>, Error> {
        let mut session = self.sign_in().await?;
        let begun = self.begin_in(&mut session, delivery).await;
        match begun {
            Ok(Some(plan)) => {
                let spool = Spool::new(&delivery.schema, &plan.staged, FILE_SIZE);
                Ok(Some(Box::new(Loading::new(session, self.names.clone(), plan, spool))))
            }
            Ok(None) => {
                session.close().await;
                Ok(None)
            }
            Err(error) => {
                session.close().await;
                Err(error)
            }
        }
    }

    async fn test(&self) -> Vec<Step> {
        let mut steps = Steps::default();
        let sign_in = Session::sign_in(&self.http, &self.base, &self.config);
        let session = steps
            .take("sign in", "Connect to the account and sign in", "signed in", sign_in)
            .await;
        let Some(mut session) = session else {
            steps.skip("warehouse", WAREHOUSE_STEP);
            steps.skip("schema", SCHEMA_STEP);
            steps.skip("write", WRITE_STEP);
            return steps.done();
        };
        let warehouse = self.use_warehouse(&mut session);
        steps
            .take(
                "warehouse",
                WAREHOUSE_STEP,
                "the role and the warehouse can be used",
                warehouse,
            )
            .await;
        let schema = self.use_schema(&mut session);
        steps
            .take("schema", SCHEMA_STEP, "the schema can be used", schema)
            .await;
        let write = self.write_and_remove(&mut session);
        steps
            .take(
                "write",
                WRITE_STEP,
                "a table was created, written to and deleted",
                write,
            )
            .await;
        session.close().await;
        steps.done()
    }
}

const WAREHOUSE_STEP: &str = "Use the role and the warehouse";
const SCHEMA_STEP: &str = "Use the database and the schema";
const WRITE_STEP: &str = "Create a table and a stage, write to them, delete them, and read the export's table";

impl Warehouse {
    /// A session that stands in the right place.
    async fn sign_in(&self) -> Result<Session, Error> {
        let mut session = Session::sign_in(&self.http, &self.base, &self.config).await?;
        let placed = async {
            self.use_warehouse(&mut session).await?;
            self.use_schema(&mut session).await
        };
        if let Err(error) = placed.await {
            session.close().await;
            return Err(error);
        }
        Ok(session)
    }

    async fn use_warehouse(&self, session: &mut Session) -> Result<(), Error> {
        if let Some(role) = &self.config.role {
            let role = sql::word("role", role)?;
            let refused = |error| {
                errors::about(
                    error,
                    "the role cannot be used; check its name, and that it was granted to the user",
                )
            };
            session.run(&format!("USE ROLE {role}")).await.map_err(refused)?;
        }
        let warehouse = sql::word("warehouse", &self.config.warehouse)?;
        let refused = |error| {
            errors::about(
                error,
                "the warehouse cannot be used; check its name, and grant USAGE on it to the role",
            )
        };
        session
            .run(&format!("USE WAREHOUSE {warehouse}"))
            .await
            .map_err(refused)?;
        Ok(())
    }

    async fn use_schema(&self, session: &mut Session) -> Result<(), Error> {
        let refused = |error| {
            errors::about(
                error,
                "the database or the schema cannot be used; check their names, which are case-sensitive, and grant USAGE on both to the role",
            )
        };
        session.run(&self.names.use_schema()).await.map_err(refused)?;
        Ok(())
    }

    /// Claims the interval. None: it was committed before.
    async fn begin_in(&self, session: &mut Session, delivery: &Delivery) -> Result<Option<Plan>, Error> {
        let staged = columns(&delivery.schema, |name| sql::renamed(name, delivery.is_custom));
        sql::check_columns(&staged)?;
        let claim = Claim::new(delivery, &self.config.table_name);
        self.ensure_ledger(session).await?;
        let entry = session.run(&self.names.ledger_entry(&claim)).await?.rows()?;
        let earlier = entry
            .first()
            .map(|row| (row.first().cloned().flatten(), row.get(1).cloned().flatten()));
        if let Some((_, Some(_))) = earlier
            && !claim.is_resend
        {
            return Ok(None);
        }
        let table = self.table(session, &staged).await?;
        let existing = table.column_names();
        let written: Vec<Column> = staged
            .iter()
            .filter(|column| existing.contains(&column.name))
            .cloned()
            .collect();
        let mode = WriteMode::of(delivery, &written)?;
        session.run(&self.names.claim(&claim)).await?;
        if let Some((Some(attempt), _)) = earlier {
            self.clear(session, &attempt).await;
        }
        session.run(&self.names.create_stage_table(&claim, &staged)).await?;
        session.run(&sql::create_stage(&claim)).await?;
        Ok(Some(Plan {
            claim,
            mode,
            staged,
            written,
            variants: table.variant_names(),
        }))
    }

    /// A role that may not create tables can still write into those that somebody made for it.
    async fn ensure_ledger(&self, session: &mut Session) -> Result<(), Error> {
        match session.run(&self.names.look(super::staging::LEDGER)).await {
            Err(error) if is_missing(&error) => session.run(&self.names.create_ledger()).await.map(drop),
            other => other.map(drop),
        }
    }

    /// The table's columns; it is made if it is not there.
    async fn table(&self, session: &mut Session, columns: &[Column]) -> Result<Outcome, Error> {
        let look = self.names.look(&self.config.table_name);
        match session.run(&look).await {
            Err(error) if is_missing(&error) => {
                session.run(&self.names.create_table(columns)).await?;
                session.run(&look).await
            }
            other => other,
        }
    }

    /// What an attempt left behind that did not come to its end.
    async fn clear(&self, session: &mut Session, attempt: &str) {
        if super::staging::is_attempt(attempt) {
            let drop_table = self.names.drop_table(&stage_name(attempt));
            if let Err(error) = session.run(&drop_table).await {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "a stage table was left behind"
                );
            }
        }
    }

    async fn write_and_remove(&self, session: &mut Session) -> Result<(), Error> {
        let look = session.run(&self.names.look(&self.config.table_name)).await;
        if let Err(error) = look
            && !is_missing(&error)
        {
            return Err(error);
        }
        let attempt = uuid::Uuid::now_v7().simple().to_string();
        let table = stage_name(&attempt);
        for statement in self.names.try_out(&table) {
            if let Err(error) = session.run(&statement).await {
                self.clear(session, &attempt).await;
                return Err(error);
            }
        }
        Ok(())
    }
}
