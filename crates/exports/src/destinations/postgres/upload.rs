//! What an attempt at a delivery asks of PostgreSQL, step by step: rows by binary COPY, all in one transaction.

use std::time::Duration;

use arrow_array::RecordBatch;
use async_trait::async_trait;
use bytes::{BufMut, BytesMut};
use tokio_postgres::types::Type;

use super::encode::Encoder;
use super::statements::{BEGIN, Shape, delivery_lock};
use super::table;
use crate::destinations::sql::{Copy, Session, Table, TableWrite};
use crate::destinations::staging::{Attempt, ClaimTime, LedgerEntry};
use crate::{Delivery, Error, Receipt};

/// How much is put together before it is sent.
const PIECE: usize = 256 * 1024;
/// The size of one COPY: the server reports errors only at its end.
const COPY: u64 = 32 * 1024 * 1024;
/// The signature, no flags, no extension.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// How rows are written, and how they get from the stage into the table.
pub(super) struct Plan {
    shape: Shape,
    encoder: Encoder,
}

pub(super) struct Rows {
    session: Session,
    table: Table,
    delivery: Delivery,
    copy: Option<Copy>,
    /// Of the COPY that is open.
    sent: u64,
    buffer: BytesMut,
    bytes: u64,
}

impl Rows {
    pub(super) fn new(session: Session, table: &Table, delivery: &Delivery) -> Self {
        Self {
            session,
            table: table.clone(),
            delivery: delivery.clone(),
            copy: None,
            sent: 0,
            buffer: BytesMut::new(),
            bytes: 0,
        }
    }

    /// Goes all the way but for the commit, without a row, in the transaction that is open.
    ///
    /// A COPY without rows asks for all the rights that one with rows does; the ledger gets a row.
    pub(super) async fn rehearse(mut self) -> Result<(), Error> {
        let plan = self.plan(false).await?;
        self.create_stage(&plan).await?;
        self.buffer.put_slice(HEADER);
        self.send(&plan.shape).await?;
        self.finish().await?;
        self.remember(&plan.shape, 0).await?;
        self.session.run("roll back", "ROLLBACK").await?;
        self.session.close().await;
        Ok(())
    }

    async fn send(&mut self, shape: &Shape) -> Result<(), Error> {
        let mut copy = match self.copy.take() {
            Some(copy) => copy,
            None => self.session.copy(&shape.copy()).await?,
        };
        let piece = self.buffer.split().freeze();
        self.sent += piece.len() as u64;
        self.bytes += piece.len() as u64;
        self.session.send(&mut copy, piece).await?;
        self.copy = Some(copy);
        if self.sent >= COPY {
            self.finish().await?;
        }
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), Error> {
        self.sent = 0;
        if let Some(mut copy) = self.copy.take() {
            let mut end = BytesMut::new();
            end.put_i16(-1);
            self.session.send(&mut copy, end.freeze()).await?;
            self.session.finish(&mut copy).await?;
        }
        Ok(())
    }

    async fn remember(&mut self, shape: &Shape, rows: u64) -> Result<(), Error> {
        let Delivery { export, run, model, .. } = &self.delivery;
        let rows = i64::try_from(rows).unwrap_or(i64::MAX);
        let parameters: &[_] = &[
            (&export.0.to_string() as _, Type::TEXT),
            (&model.name() as _, Type::TEXT),
            (&self.delivery.start as _, Type::TIMESTAMPTZ),
            (&self.delivery.end as _, Type::TIMESTAMPTZ),
            (&run.0.to_string() as _, Type::TEXT),
            (&rows as _, Type::INT8),
        ];
        let sql = shape.remember();
        self.session
            .change("write into hedgerow_ledger", &sql, parameters)
            .await?;
        Ok(())
    }
}

#[async_trait]
impl Attempt for Rows {
    type Plan = Plan;

    const CLAIM: ClaimTime = ClaimTime::BeforeLedger;

    async fn prepare(&mut self) -> Result<(), Error> {
        table::make_missing(&self.session, &self.table, &self.delivery).await
    }

    async fn claim(&mut self) -> Result<(), Error> {
        self.session.run("start a transaction", BEGIN).await?;
        let lock = "SELECT pg_catalog.pg_advisory_xact_lock($1)";
        let key = delivery_lock(&self.delivery);
        self.session
            .ask("wait for another delivery", lock, &[(&key, Type::INT8)])
            .await
            .map(drop)
    }

    async fn ledger_entry(&mut self) -> Result<LedgerEntry, Error> {
        let is_delivered = table::is_delivered(&self.session, &self.table, &self.delivery).await?;
        Ok(LedgerEntry::delivered(is_delivered))
    }

    async fn leave(&mut self) -> Result<(), Error> {
        self.session.run("end a transaction", "ROLLBACK").await
    }

    async fn plan(&mut self, was_delivered: bool) -> Result<Plan, Error> {
        let columns = table::columns(&self.session, &self.table).await?;
        let encoder = Encoder::new(&self.delivery.schema, &columns)?;
        let write = TableWrite::new(&self.table, &self.delivery, encoder.names(), was_delivered)?;
        Ok(Plan {
            shape: Shape(write),
            encoder,
        })
    }

    async fn create_stage(&mut self, plan: &Plan) -> Result<(), Error> {
        match plan.shape.stage() {
            Some(sql) => self.session.run("create a temporary table", &sql).await,
            None => Ok(()),
        }
    }

    async fn write(&mut self, plan: &mut Plan, rows: RecordBatch) -> Result<(), Error> {
        let mut next = 0;
        while next < rows.num_rows() {
            if self.buffer.is_empty() && self.copy.is_none() {
                self.buffer.put_slice(HEADER);
            }
            next = plan.encoder.encode(&rows, next, PIECE, &mut self.buffer)?;
            if self.buffer.len() >= PIECE {
                self.send(&plan.shape).await?;
            }
        }
        Ok(())
    }

    async fn flush(&mut self, plan: &mut Plan) -> Result<(), Error> {
        if !self.buffer.is_empty() {
            self.send(&plan.shape).await?;
        }
        self.finish().await
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    async fn commit(&mut self, plan: &Plan, receipt: Receipt) -> Result<(), Error> {
        if let Some(sql) = plan.shape.unstage() {
            self.session.run("insert rows into the table", &sql).await?;
        }
        self.remember(&plan.shape, receipt.rows).await?;
        self.session.run("commit the rows", "COMMIT").await?;
        plan.encoder.report(&self.delivery);
        Ok(())
    }

    /// If it does not work out, the end of the connection takes everything back as well.
    async fn roll_back(&mut self) {
        // Ends the COPY as failed.
        self.copy = None;
        let _ = tokio::time::timeout(Duration::from_secs(5), self.session.run("roll back", "ROLLBACK")).await;
    }

    async fn close(self) {
        let Self { session, copy, .. } = self;
        drop(copy);
        session.close().await;
    }
}
