//! Delivers into a table of Amazon Redshift, which speaks PostgreSQL's protocol but has no ON CONFLICT, no advisory
//! locks and no COPY from the connection.

mod column;
mod connection_test;
mod files;
mod insert;
mod source;
mod statements;
mod table;
mod target;
mod upload;
mod values;

use std::sync::Arc;

use async_trait::async_trait;
use hogql::{Expr, Model, Query, Value};
use service::batch_exports::destination::{Redshift as Config, RedshiftMode};

use self::source::Source;
use self::target::Target;
use super::files::Bucket;
use super::sql::{Endpoint, Limits, Session, Table};
use super::staging::begin;
use crate::{Deliver, Delivery, Error, ExportsDeps, Step, Upload, layout};

pub(super) fn open(config: &Config, deps: &ExportsDeps) -> Result<Box<dyn Deliver>, Error> {
    let copy = match (config.mode, &config.copy_inputs) {
        (RedshiftMode::Insert, _) => None,
        (RedshiftMode::Copy, Some(inputs)) => {
            let source = Source::new(inputs)?;
            let bucket = super::s3::bucket(&source.s3(), deps).map_err(in_copy_inputs)?;
            let bucket: Arc<dyn Bucket> = Arc::new(bucket);
            Some((bucket, source))
        }
        (RedshiftMode::Copy, None) => {
            return Err(Error::plain("mode COPY requires a staging bucket").in_key("copy_inputs"));
        }
    };
    let secrets = (&config.user, &config.password);
    Ok(Box::new(Redshift(Target {
        place: Endpoint::new(&config.host, config.port, &config.database, secrets)?,
        deps: deps.clone(),
        table: Table::target(&config.schema, &config.table_name)?,
        json: config.properties_data_type,
        copy,
    })))
}

/// What S3 calls otherwise.
fn in_copy_inputs(error: Error) -> Error {
    let key = match error.key {
        Some("bucket_name") => "copy_inputs__s3_bucket",
        Some("region") => "copy_inputs__region_name",
        Some("endpoint_url") => "copy_inputs__endpoint_url",
        _ => "copy_inputs",
    };
    error.in_key(key)
}

struct Redshift(Target);

#[async_trait]
impl Deliver for Redshift {
    /// As other databases have it, but elements are always empty there.
    fn layout(&self, model: Model) -> Query {
        let mut query = layout::table(model);
        for field in query.fields.iter_mut().filter(|field| field.alias == "elements") {
            field.expr = Expr::Value(Value::Text(String::new()));
        }
        query
    }

    async fn begin(&self, delivery: &Delivery) -> Result<Option<Box<dyn Upload>>, Error> {
        let session = Session::open(&self.0.place, &self.0.deps, Limits::default()).await?;
        let session = session.naming_columns(&delivery.schema);
        begin(self.0.attempt(session, delivery), delivery).await
    }

    async fn test(&self) -> Vec<Step> {
        connection_test::run(&self.0, &self.layout(Model::Events)).await
    }
}
