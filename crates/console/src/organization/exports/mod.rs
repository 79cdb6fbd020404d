//! Batch exports: where they go, when they run, and how their runs fared.

mod backfill;
mod backfill_new;
mod backfills;
mod calendar;
mod calendar_style;
mod connection_test;
mod deletion;
mod edit;
mod export;
mod export_form;
mod figures;
mod form;
mod form_values;
mod inputs;
mod kinds;
mod labels;
mod list;
mod month;
mod new;
mod pausing;
mod preview;
mod progress;
mod run;
mod runs;
mod runs_chart;
mod status;
mod test;
mod values;

pub(super) use labels::{State, latest_failure};

use axum::Router;

use crate::state::Console;

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .merge(runs::routes())
        .merge(run::routes())
        .merge(pausing::routes())
        .merge(backfills::routes())
        .merge(backfill_new::routes())
        .merge(backfill::routes())
        .merge(list::routes())
        .merge(kinds::routes())
        .merge(new::routes())
        .merge(export::routes())
        .merge(edit::routes())
        .merge(test::routes())
        .merge(preview::routes())
        .merge(deletion::routes())
}
