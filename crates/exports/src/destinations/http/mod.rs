//! Sends events to an HTTP endpoint, as batches that PostHog's own takes.
//!
//! What was sent cannot be taken back: a delivery that is tried again goes on behind the last request that was acknowledged. A
//! request whose answer was lost is sent again, with the same `Idempotency-Key` and the same uuids, by which the receiver
//! tells its events from new ones.

mod batch;
mod send;

use arrow_array::RecordBatch;
use async_trait::async_trait;
use hogql::{Column, Model, Query};
use service::RunId;
use service::batch_exports::destination::Http as Config;

use super::steps::{Plan, Steps};
use crate::{Acknowledged, Deliver, Delivery, Error, ExportsDeps, Receipt, Step, Upload};
use batch::{Batch, Columns};
use send::Receiver;

const PLAN: Plan<'_> = &[("url", "URL allowed"), ("send", "Send an empty batch")];

#[expect(clippy::unnecessary_wraps, reason = "others can fail to open")]
pub(super) fn open(config: &Config, deps: &ExportsDeps) -> Result<Box<dyn Deliver>, Error> {
    Ok(Box::new(Http {
        receiver: Receiver::new(config, deps),
    }))
}

struct Http {
    receiver: Receiver,
}

#[async_trait]
impl Deliver for Http {
    fn layout(&self, model: Model) -> Query {
        let columns = [
            Column::Uuid,
            Column::DistinctId,
            Column::Timestamp,
            Column::Event,
            Column::Properties,
            Column::ElementsChain,
        ];
        let columns: Vec<_> = columns.into_iter().filter(|column| column.is_of(model)).collect();
        Query::of(model, &columns)
    }

    async fn begin(&self, delivery: &Delivery) -> Result<Option<Box<dyn Upload>>, Error> {
        if delivery.model != Model::Events {
            return Err(Error::plain(
                "HTTP supports events only; export persons to another type of destination",
            ));
        }
        Ok(Some(Box::new(Sending {
            receiver: self.receiver.clone(),
            columns: Columns::of(&delivery.schema)?,
            batch: Batch::new(self.receiver.token()),
            run: delivery.run,
            acknowledged: {
                delivery.acknowledged.add(delivery.resumed_after);
                delivery.acknowledged.clone()
            },
        })))
    }

    fn resumes(&self) -> bool {
        true
    }

    async fn test(&self) -> Vec<Step> {
        let mut steps = Steps::new(PLAN);
        steps.take("", async { self.receiver.check() }).await;
        let empty = Batch::new(self.receiver.token()).close();
        let send = self.receiver.try_once(empty);
        steps.take("the endpoint accepted it", send).await;
        steps.done()
    }
}

/// A delivery in progress. Requests go out as they fill.
struct Sending {
    receiver: Receiver,
    columns: Columns,
    batch: Batch,
    run: RunId,
    acknowledged: Acknowledged,
}

impl Sending {
    async fn send(&mut self) -> Result<(), Error> {
        let full = std::mem::replace(&mut self.batch, Batch::new(self.receiver.token()));
        let rows = full.events();
        let body = full.close();
        let bytes = body.len() as u64;
        // Requests end where rows make them full, so a repeated attempt cuts the same ones behind the same row.
        let key = format!("{}-{}", self.run, self.acknowledged.read().rows);
        self.receiver.send(body, &key).await?;
        self.acknowledged.add(Receipt { rows, bytes });
        Ok(())
    }
}

#[async_trait]
impl Upload for Sending {
    async fn write(&mut self, rows: RecordBatch) -> Result<(), Error> {
        let rows = self.columns.read(&rows);
        for row in 0..rows.len() {
            self.batch.add(&rows.event(row)?);
            if self.batch.is_full() {
                self.send().await?;
            }
        }
        Ok(())
    }

    async fn commit(mut self: Box<Self>) -> Result<Receipt, Error> {
        if self.batch.events() > 0 {
            self.send().await?;
        }
        Ok(self.acknowledged.read())
    }

    async fn abort(self: Box<Self>) {}
}
