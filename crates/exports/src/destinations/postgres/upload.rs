//! A delivery under way: rows by binary COPY, all in one transaction.

use arrow::array::RecordBatch;
use async_trait::async_trait;
use bytes::{BufMut, BytesMut};
use tokio_postgres::types::Type;

use super::super::sql::{Copy, Session};
use super::encode::Encoder;
use super::statements::Shape;
use crate::{Delivery, Error, Receipt, Upload};

/// How much is put together before it is sent.
const PIECE: usize = 256 * 1024;
/// After so much the COPY is ended and another begun, because only at its end does the server tell what is wrong.
const COPY: u64 = 32 * 1024 * 1024;
/// The signature, no flags, no extension.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

pub(super) struct Rows {
    session: Session,
    delivery: Delivery,
    shape: Shape,
    encoder: Encoder,
    copy: Option<Copy>,
    /// Of the COPY that is open.
    sent: u64,
    buffer: BytesMut,
    receipt: Receipt,
}

impl Rows {
    pub(super) async fn begin(
        session: Session,
        delivery: &Delivery,
        shape: Shape,
        encoder: Encoder,
    ) -> Result<Self, Error> {
        if let Some(sql) = shape.stage() {
            session.run("create a temporary table", &sql).await?;
        }
        Ok(Self {
            session,
            delivery: delivery.clone(),
            shape,
            encoder,
            copy: None,
            sent: 0,
            buffer: BytesMut::new(),
            receipt: Receipt::default(),
        })
    }

    /// Goes all the way but for the commit, without a row.
    pub(super) async fn rehearse(mut self) -> Result<(), Error> {
        self.buffer.put_slice(HEADER);
        self.send().await?;
        self.finish().await?;
        self.remember().await?;
        self.session.run("roll back", "ROLLBACK").await?;
        self.session.close().await;
        Ok(())
    }

    async fn send(&mut self) -> Result<(), Error> {
        let mut copy = match self.copy.take() {
            Some(copy) => copy,
            None => self.session.copy(&self.shape.copy()).await?,
        };
        let piece = self.buffer.split().freeze();
        self.sent += piece.len() as u64;
        self.receipt.bytes += piece.len() as u64;
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

    async fn remember(&self) -> Result<(), Error> {
        let Delivery { export, run, model, .. } = &self.delivery;
        let rows = i64::try_from(self.receipt.rows).unwrap_or(i64::MAX);
        let parameters: &[_] = &[
            (&export.0.to_string() as _, Type::TEXT),
            (&model.name() as _, Type::TEXT),
            (&self.delivery.start as _, Type::TIMESTAMPTZ),
            (&self.delivery.end as _, Type::TIMESTAMPTZ),
            (&run.0.to_string() as _, Type::TEXT),
            (&rows as _, Type::INT8),
        ];
        let sql = self.shape.remember();
        self.session
            .change("write into hedgerow_ledger", &sql, parameters)
            .await?;
        Ok(())
    }
}

#[async_trait]
impl Upload for Rows {
    async fn write(&mut self, rows: RecordBatch) -> Result<(), Error> {
        let mut next = 0;
        while next < rows.num_rows() {
            if self.buffer.is_empty() && self.copy.is_none() {
                self.buffer.put_slice(HEADER);
            }
            next = self.encoder.encode(&rows, next, PIECE, &mut self.buffer)?;
            if self.buffer.len() >= PIECE {
                self.send().await?;
            }
        }
        self.receipt.rows += rows.num_rows() as u64;
        Ok(())
    }

    async fn commit(mut self: Box<Self>) -> Result<Receipt, Error> {
        if !self.buffer.is_empty() {
            self.send().await?;
        }
        self.finish().await?;
        if let Some(sql) = self.shape.unstage() {
            self.session.run("insert rows into the table", &sql).await?;
        }
        self.remember().await?;
        self.session.run("commit the rows", "COMMIT").await?;
        self.encoder.report(&self.delivery);
        let receipt = self.receipt;
        self.session.close().await;
        Ok(receipt)
    }

    async fn abort(self: Box<Self>) {
        let Self { session, copy, .. } = *self;
        // Ends the COPY as failed.
        drop(copy);
        // If it does not work out, the end of the connection takes everything back as well.
        let _ = tokio::time::timeout(std::time::Duration::from_secs(5), session.run("roll back", "ROLLBACK")).await;
        session.close().await;
    }
}
