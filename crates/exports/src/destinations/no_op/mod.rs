//! Takes everything and keeps nothing: for trying out what an export would read.

use arrow_array::RecordBatch;
use async_trait::async_trait;
use hogql::{Model, Query};
use service::batch_exports::destination::NoOp;

use crate::{Deliver, Delivery, Error, ExportsDeps, Receipt, Step, Upload, layout};

#[expect(clippy::unnecessary_wraps, reason = "others can fail to open")]
pub(super) fn open(_: &NoOp, _: &ExportsDeps) -> Result<Box<dyn Deliver>, Error> {
    Ok(Box::new(Discard))
}

struct Discard;

#[async_trait]
impl Deliver for Discard {
    fn layout(&self, model: Model) -> Query {
        layout::files(model)
    }

    async fn begin(&self, _: &Delivery) -> Result<Option<Box<dyn Upload>>, Error> {
        Ok(Some(Box::new(Counting::default())))
    }

    async fn test(&self) -> Vec<Step> {
        Vec::new()
    }
}

#[derive(Default)]
struct Counting(Receipt);

#[async_trait]
impl Upload for Counting {
    async fn write(&mut self, rows: RecordBatch) -> Result<(), Error> {
        self.0.rows += rows.num_rows() as u64;
        Ok(())
    }

    async fn commit(self: Box<Self>) -> Result<Receipt, Error> {
        Ok(self.0)
    }

    async fn abort(self: Box<Self>) {}
}
