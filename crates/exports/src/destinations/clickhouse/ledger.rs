//! Which intervals were delivered: a table beside the others.

use events::clickhouse::Statement;

use super::session::Session;
use crate::{Delivery, Error, Receipt};

const CREATE: &str = "CREATE TABLE IF NOT EXISTS hedgerow_ledger (
    export_id UUID,
    model String,
    interval_start DateTime64(6, 'UTC'),
    interval_end DateTime64(6, 'UTC'),
    run_id UUID,
    rows UInt64,
    bytes UInt64,
    delivered_at DateTime64(6, 'UTC') DEFAULT now64(6)
) ENGINE = MergeTree ORDER BY (export_id, model, interval_start, interval_end)";

const HAS: &str = "SELECT 1 FROM hedgerow_ledger WHERE export_id = {export:UUID} AND model = {model:String} \
    AND interval_start = fromUnixTimestamp64Micro({start:Int64}, 'UTC') \
    AND interval_end = fromUnixTimestamp64Micro({end:Int64}, 'UTC') LIMIT 1";

const WRITE: &str = "INSERT INTO hedgerow_ledger (export_id, model, interval_start, interval_end, run_id, rows, bytes) \
    SELECT {export:UUID}, {model:String}, fromUnixTimestamp64Micro({start:Int64}, 'UTC'), \
    fromUnixTimestamp64Micro({end:Int64}, 'UTC'), {run:UUID}, {rows:UInt64}, {bytes:UInt64}";

pub(super) async fn create(session: &Session) -> Result<(), Error> {
    session.sql("create the table hedgerow_ledger", CREATE.to_owned()).await
}

pub(super) async fn has(session: &Session, delivery: &Delivery) -> Result<bool, Error> {
    let rows = session.rows("read hedgerow_ledger", bound(HAS, delivery)).await?;
    Ok(!rows.is_empty())
}

pub(super) async fn write(session: &Session, delivery: &Delivery, receipt: Receipt) -> Result<(), Error> {
    let statement = bound(WRITE, delivery)
        .bind("run", delivery.run.0)
        .bind("rows", receipt.rows)
        .bind("bytes", receipt.bytes)
        .set("async_insert", 0);
    session.run("write into hedgerow_ledger", statement).await
}

fn bound(sql: &str, delivery: &Delivery) -> Statement {
    Statement::new(sql)
        .bind("export", delivery.export.0)
        .bind("model", delivery.model.name())
        .bind("start", delivery.start.timestamp_micros())
        .bind("end", delivery.end.timestamp_micros())
}
