//! What destinations share that hold rows in tables: the protocol of a delivery, claims in a ledger, rows as Parquet files on their
//! way to a stage, waiting for what runs elsewhere, and signed tokens.

mod backoff;
mod claim;
mod columns;
mod jwt;
mod protocol;
mod remote_work;
mod spool;
mod write_mode;

pub(super) use backoff::Backoff;
pub(super) use claim::{Claim, LEDGER, LedgerEntry, attempt_name, stage_name};
pub(super) use columns::{Column, columns};
pub(super) use jwt::private_key;
pub(super) use protocol::{Attempt, ClaimTime, StagedRows, begin, overtaken};
pub(super) use remote_work::RemoteWork;
pub(super) use spool::{FILE_SIZE, ParquetFile, Spool};
pub(super) use write_mode::{PERSON_COLUMNS, WriteMode};
