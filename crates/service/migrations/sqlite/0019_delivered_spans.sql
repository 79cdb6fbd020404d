-- What runs have delivered that are no longer kept, as spans that neither touch nor overlap.
CREATE TABLE export_delivered (
    batch_export_id BLOB NOT NULL REFERENCES batch_export (id) ON DELETE CASCADE,
    starts_at       TEXT NOT NULL,
    ends_at         TEXT NOT NULL,
    PRIMARY KEY (batch_export_id, starts_at)
) STRICT, WITHOUT ROWID;

-- Runs of a backfill that are no longer kept.
ALTER TABLE export_backfill ADD COLUMN forgotten_runs INTEGER NOT NULL DEFAULT 0;
-- How many runs of a backfill are not over is asked every second.
CREATE INDEX export_run_open_of_backfill ON export_run (backfill_id) WHERE backfill_id IS NOT NULL AND due_at IS NOT NULL;
