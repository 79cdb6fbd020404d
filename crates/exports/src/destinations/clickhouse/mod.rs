//! Delivers into a table of ClickHouse, which has no transactions: an interval is put together in a stage, a table of the
//! same structure, and its partitions are then moved over. Moving again what was moved does nothing, so a commit that was
//! broken off is finished by whoever comes next.

mod commit;
mod connection_test;
mod error;
mod ledger;
mod names;
mod session;
mod target;
mod upload;

use async_trait::async_trait;
use events::clickhouse::Client;
use hogql::{Column, Model, Query};
use secrecy::ExposeSecret;
use service::batch_exports::destination::ClickHouse as Config;
use url::Url;

use self::names::{Names, checked};
use self::session::Session;
use self::upload::Stage;
use super::staging::begin;
use crate::{Deliver, Delivery, Error, ExportsDeps, Step, Upload, layout};

pub(super) fn open(config: &Config, deps: &ExportsDeps) -> Result<Box<dyn Deliver>, Error> {
    let url = Url::parse(&config.url)
        .map_err(|_| Error::plain("enter a valid URL, such as https://clickhouse.example.com:8443").in_key("url"))?;
    deps.http
        .policy()
        .check_url(&url)
        .map_err(|refusal| Error::from(outbound::HttpError::Refused(refusal)).in_key("url"))?;
    let (user, password) = (config.user.expose_secret(), config.password.expose_secret());
    let client = Client::new(deps.http.clone(), url, user, password, &config.database).map_err(|cause| {
        Error::permanent("the user and the password must not contain control characters", cause).in_key("user")
    })?;
    Ok(Box::new(ClickHouse {
        session: Session::new(client),
        table: checked(&config.table_name).map_err(|error| error.in_key("table_name"))?,
    }))
}

struct ClickHouse {
    session: Session,
    table: String,
}

#[async_trait]
impl Deliver for ClickHouse {
    fn layout(&self, model: Model) -> Query {
        let mut query = layout::files(model);
        if model == Model::Events {
            query.fields.extend(Query::of(model, &[Column::TeamId]).fields);
        }
        query
    }

    async fn begin(&self, delivery: &Delivery) -> Result<Option<Box<dyn Upload>>, Error> {
        let names = Names::new(&self.table, delivery);
        let target = target::prepare(&self.session, &self.table, delivery).await?;
        begin(Stage::new(self.session.clone(), names, target, delivery), delivery).await
    }

    async fn test(&self) -> Vec<Step> {
        connection_test::run(&self.session, &self.table, &self.layout(Model::Events)).await
    }
}
