//! Snowflake, by the protocol of its drivers. Rows go to a temporary stage as Parquet, from there into a table of the
//! attempt's own, and then, in one transaction, into the export's table together with the ledger's row.

mod answer;
mod arrow_rows;
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

use self::errors::is_missing;
use self::session::Session;
use self::sql::Names;
use self::upload::{Loading, clear};
use super::staging::{attempt_name, begin, stage_name};
use super::steps::{Plan, Steps};
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
        let session = self.sign_in().await?;
        begin(Loading::new(session, &self.config, &self.names, delivery), delivery).await
    }

    async fn test(&self) -> Vec<Step> {
        let mut steps = Steps::new(TEST);
        let sign_in = Session::sign_in(&self.http, &self.base, &self.config);
        let Some(mut session) = steps.take("signed in", sign_in).await else {
            return steps.done();
        };
        let warehouse = self.use_warehouse(&mut session);
        steps.take("the role and the warehouse can be used", warehouse).await;
        let schema = self.use_schema(&mut session);
        steps.take("the schema can be used", schema).await;
        let write = self.write_and_remove(&mut session);
        steps.take("a table was created, written to and deleted", write).await;
        session.close().await;
        steps.done()
    }
}

const TEST: Plan<'_> = &[
    ("sign in", "Connect to the account and sign in"),
    ("warehouse", "Use the role and the warehouse"),
    ("schema", "Use the database and the schema"),
    (
        "write",
        "Create a table and a stage, write to them, delete them, and read the export's table",
    ),
];

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

    async fn write_and_remove(&self, session: &mut Session) -> Result<(), Error> {
        let look = session.run(&self.names.look(&self.config.table_name)).await;
        if let Err(error) = look
            && !is_missing(&error)
        {
            return Err(error);
        }
        let attempt = attempt_name();
        let table = stage_name(&attempt);
        for statement in self.names.try_out(&table) {
            if let Err(error) = session.run(&statement).await {
                clear(session, &self.names, &attempt).await;
                return Err(error);
            }
        }
        Ok(())
    }
}
