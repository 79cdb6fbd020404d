//! What batch exports, their runs and backfills are. Everything else here is about them, and they know nothing of it.

mod backfill;
mod export;
mod input;
mod log;
mod run;

pub use backfill::{Backfill, BackfillPlan, BackfillRequest, BackfillStatus};
pub(crate) use export::ExportSelection;
pub use export::{BatchExport, ExportName, ExportSeen};
pub use input::{DestinationInput, ExportPatch, ExportRest, ModelInput, NewExport};
pub use log::{LogEntry, LogFilter, LogLevel};
pub(super) use run::{Limits, Old, Stretch};
pub use run::{Progress, Run, RunFilter, RunStatus};
