//! The columns of a run. A new one is named, bound and counted in this file, once each.

/// What a run has from the start, in the order of [`bind_fixed`].
macro_rules! fixed {
    ($table:literal) => {
        $crate::db::columns::columns!(
            $table => id, organization_id, batch_export_id, data_interval_start, data_interval_end, destination_key,
            created_at
        )
    };
}

/// Binds what [`fixed`] names.
macro_rules! bind_fixed {
    ($query:expr, $bind:ident, $run:expr) => {
        $query
            .$bind($run.id)
            .$bind($run.organization_id)
            .$bind($run.batch_export)
            .$bind($run.data_interval_start)
            .$bind($run.data_interval_end)
            .$bind(&$run.destination_key)
            .$bind($run.created_at)
    };
}

/// What changes, in the order of [`bind_changing`].
macro_rules! changing {
    ($table:literal) => {
        $crate::db::columns::columns!(
            $table => backfill_id, status, is_resend, records_completed, records_total_count, records_read, bytes_exported,
            latest_error, due_at, worker, attempt, tries, queued_at, started_at, finished_at, updated_at
        )
    };
}

/// The parameters of what [`changing`] names, after the ID.
macro_rules! changing_parameters {
    () => {
        "$2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17"
    };
}

/// Binds what [`changing`] names.
macro_rules! bind_changing {
    ($query:expr, $bind:ident, $run:expr) => {
        $query
            .$bind($run.backfill)
            .$bind($run.status.as_str())
            .$bind($run.is_resend)
            .$bind($run.records_completed)
            .$bind($run.records_total_count)
            .$bind($run.records_read)
            .$bind($run.bytes_exported)
            .$bind(&$run.latest_error)
            .$bind($run.due_at)
            .$bind($run.worker)
            .$bind($run.attempt)
            .$bind($run.tries)
            .$bind($run.queued_at)
            .$bind($run.started_at)
            .$bind($run.finished_at)
            .$bind($run.updated_at)
    };
}

/// All of them, of runs that the statement calls `r`.
macro_rules! columns {
    () => {
        concat!(
            $crate::batch_exports::sql::runs::row::fixed!("r."),
            ", ",
            $crate::batch_exports::sql::runs::row::changing!("r.")
        )
    };
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT ",
            $crate::batch_exports::sql::runs::row::columns!(),
            " FROM export_run r ",
            $rest
        )
    };
}

pub(super) use {bind_changing, bind_fixed, changing, changing_parameters, columns, fixed, select};
