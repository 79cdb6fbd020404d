//! Delivers into a table of Amazon Redshift, which speaks PostgreSQL's protocol but has no ON CONFLICT, no advisory
//! locks and no COPY from the connection.

mod files;
mod insert;
mod source;
mod statements;
mod table;
mod trial;
mod upload;
mod values;

use std::sync::Arc;

use async_trait::async_trait;
use hogql::{Expr, Model, Query, Value};
use service::batch_exports::destination::{PropertiesType, Redshift as Config, RedshiftMode};

use super::files::Bucket;
use super::sql::{Endpoint, Limits, Session, Table};
use crate::{Deliver, Delivery, Error, ExportsDeps, Step, Upload, layout};
use files::Files;
use insert::Block;
use source::Source;
use statements::{BEGIN, Shape};
use upload::{LoadMethod, Rows};
use values::Values;

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
    Ok(Box::new(Redshift {
        place: Endpoint::new(&config.host, config.port, &config.database, secrets)?,
        deps: deps.clone(),
        table: Table::target(&config.schema, &config.table_name)?,
        json: config.properties_data_type,
        copy,
    }))
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

struct Redshift {
    place: Endpoint,
    deps: ExportsDeps,
    table: Table,
    /// What JSON is kept as in tables that we make.
    json: PropertiesType,
    /// The bucket through which rows go; none: they are inserted.
    copy: Option<(Arc<dyn Bucket>, Source)>,
}

impl Redshift {
    fn mode(&self, delivery: &Delivery) -> LoadMethod {
        match &self.copy {
            Some((bucket, source)) => LoadMethod::Copy(Box::new(Files::new(bucket.clone(), source.clone(), delivery))),
            None => LoadMethod::Insert(Block::default()),
        }
    }
}

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
        let mut session = Session::open(&self.place, &self.deps, Limits::default()).await?;
        session.columns = delivery
            .schema
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect();
        session.run("set a time limit", statements::LIMITS).await?;
        table::make_missing(&session, &self.table, delivery, self.json).await?;

        session.run("start a transaction", BEGIN).await?;
        // Before anything is read: what is seen from here on is what others have committed.
        let lock = statements::lock(&self.table);
        session.run("lock the table hedgerow_ledger", &lock).await?;
        let was_delivered = table::is_delivered(&session, &self.table, delivery).await?;
        if was_delivered && !delivery.is_resend {
            session.run("end a transaction", "ROLLBACK").await?;
            session.close().await;
            return Ok(None);
        }
        let columns = table::columns(&session, &self.table).await?;
        let values = Values::new(&delivery.schema, &columns)?;
        let shape = Shape::new(&self.table, delivery, values.names(), was_delivered)?;
        Ok(Some(Box::new(
            Rows::begin(session, delivery, shape, values, self.mode(delivery)).await?,
        )))
    }

    async fn test(&self) -> Vec<Step> {
        trial::run(self).await
    }
}
