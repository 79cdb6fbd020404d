//! Batch exports: what goes where, how often, and how far it has got.
//!
//! An export covers time without gaps: [`BatchExport::scheduled_until`] moves on from boundary to boundary, and each step
//! makes one run. Backfills make runs for what no run has covered yet. A run is one interval of one export, and there is
//! never a second one of it.

mod backfills;
mod cases;
mod checked;
mod coverage;
pub mod destination;
mod interval;
mod limits;
mod logs;
mod pausing;
mod retention;
mod rules;
mod runs;
mod schedule;
mod sql;
mod types;
mod work;

pub use checked::DestinationCheck;
pub use coverage::{Coverage, Covered};
pub use interval::{Interval, Span};
pub use schedule::Scheduled;
pub(crate) use types::ExportSelection;
pub use types::{
    Backfill, BackfillPlan, BackfillRequest, BackfillStatus, BatchExport, DestinationInput, ExportName, ExportPatch,
    ExportRest, ExportSeen, LogEntry, LogFilter, LogLevel, ModelInput, NewExport, Progress, Run, RunFilter, RunStatus,
};
pub use work::{Choice, Job, Outcome};
