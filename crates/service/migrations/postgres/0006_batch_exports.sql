CREATE TABLE batch_export (
    id              UUID PRIMARY KEY,
    organization_id UUID NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    team_id         BIGINT NOT NULL REFERENCES team (id) ON DELETE CASCADE,
    name            TEXT NOT NULL,
    model           TEXT NOT NULL,
    frequency       TEXT NOT NULL,
    kind            TEXT NOT NULL,
    -- The settings that can be shown.
    config          JSONB NOT NULL,
    -- The other settings, encrypted.
    secrets         BYTEA,
    paused          BOOLEAN NOT NULL,
    last_paused_at  TIMESTAMPTZ,
    start_at        TIMESTAMPTZ,
    end_at          TIMESTAMPTZ,
    hogql_query     TEXT,
    -- All scheduled runs before this time have been created; the next interval starts here.
    scheduled_until TIMESTAMPTZ NOT NULL,
    -- When the next run is created. Null while paused, and after the end date.
    next_run_at     TIMESTAMPTZ,
    -- Consecutive runs that failed permanently.
    failures        BIGINT NOT NULL DEFAULT 0,
    created_at      TIMESTAMPTZ NOT NULL,
    updated_at      TIMESTAMPTZ NOT NULL
);
CREATE INDEX batch_export_by_organization ON batch_export (organization_id, created_at, id);
CREATE INDEX batch_export_of_team ON batch_export (team_id);
CREATE INDEX batch_export_due ON batch_export (next_run_at) WHERE next_run_at IS NOT NULL;

-- Backfills, runs, logs and delivered intervals of an export may be millions of rows. They refer to it without a foreign key:
-- when it is deleted, they are deleted afterwards, some at a time (deleted_export). Ids of exports are never used again.
CREATE TABLE export_backfill (
    id              UUID PRIMARY KEY,
    organization_id UUID NOT NULL,
    batch_export_id UUID NOT NULL,
    start_at        TIMESTAMPTZ NOT NULL,
    end_at          TIMESTAMPTZ NOT NULL,
    status          TEXT NOT NULL,
    is_resend       BOOLEAN NOT NULL,
    -- All runs before this time have been created.
    scheduled_until TIMESTAMPTZ NOT NULL,
    total_runs      BIGINT NOT NULL,
    -- Intervals that had already been delivered.
    skipped_runs    BIGINT NOT NULL,
    -- Runs that retention has deleted.
    pruned_runs     BIGINT NOT NULL DEFAULT 0,
    created_at      TIMESTAMPTZ NOT NULL,
    finished_at     TIMESTAMPTZ,
    updated_at      TIMESTAMPTZ NOT NULL
);
CREATE INDEX export_backfill_of_export ON export_backfill (batch_export_id, created_at, id);
-- Organizations take turns at their backfills, in each the oldest first.
CREATE INDEX export_backfill_open ON export_backfill (organization_id, created_at, id) WHERE finished_at IS NULL;

-- One run for each interval of an export. The unique key makes concurrent schedulers harmless.
CREATE TABLE export_run (
    id                  UUID PRIMARY KEY,
    organization_id     UUID NOT NULL,
    batch_export_id     UUID NOT NULL,
    backfill_id         UUID,
    data_interval_start TIMESTAMPTZ NOT NULL,
    data_interval_end   TIMESTAMPTZ NOT NULL,
    status              TEXT NOT NULL,
    is_resend           BOOLEAN NOT NULL,
    -- Rows that were read and passed to the destination.
    records_read        BIGINT,
    -- Rows that the destination has acknowledged.
    records_completed   BIGINT,
    records_total_count BIGINT,
    bytes_exported      BIGINT,
    latest_error        TEXT,
    -- Identifies the destination. Runs to the same one take turns, so that a broken one delays no others.
    destination_key     TEXT NOT NULL,
    -- When a worker can claim the run. While it is claimed, when its lease expires. Null once it has finished.
    due_at              TIMESTAMPTZ,
    worker              UUID,
    -- Incremented with each claim. A worker whose lease has expired can no longer write.
    attempt             BIGINT NOT NULL,
    -- Attempts since it was last queued.
    tries               BIGINT NOT NULL,
    queued_at           TIMESTAMPTZ NOT NULL,
    -- When the current or the last attempt started: throughput is computed from it.
    started_at          TIMESTAMPTZ,
    created_at          TIMESTAMPTZ NOT NULL,
    finished_at         TIMESTAMPTZ,
    updated_at          TIMESTAMPTZ NOT NULL,
    UNIQUE (batch_export_id, data_interval_start, data_interval_end)
);
CREATE INDEX export_run_newest ON export_run (batch_export_id, created_at, id);
CREATE INDEX export_run_due ON export_run (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX export_run_of_backfill ON export_run (backfill_id) WHERE backfill_id IS NOT NULL;
-- Organizations take turns: finds the next one that has runs due without reading all of them.
CREATE INDEX export_run_by_turn ON export_run (organization_id, due_at, id) WHERE due_at IS NOT NULL;
-- The unfinished runs of a backfill are counted every second.
CREATE INDEX export_run_open_of_backfill ON export_run (backfill_id) WHERE backfill_id IS NOT NULL AND due_at IS NOT NULL;

CREATE TABLE export_log (
    id              UUID PRIMARY KEY,
    organization_id UUID NOT NULL,
    batch_export_id UUID NOT NULL,
    run_id          UUID REFERENCES export_run (id) ON DELETE CASCADE,
    level           TEXT NOT NULL,
    message         TEXT NOT NULL,
    created_at      TIMESTAMPTZ NOT NULL
);
CREATE INDEX export_log_by_age ON export_log (created_at);
-- The order logs are read in: those of an export, and those of one of its runs.
CREATE INDEX export_log_of_export ON export_log (batch_export_id, created_at, id);
CREATE INDEX export_log_of_run ON export_log (run_id, batch_export_id, created_at, id);

-- The intervals delivered by runs that retention has deleted, merged: they neither touch nor overlap.
CREATE TABLE export_delivered (
    batch_export_id UUID NOT NULL,
    starts_at       TIMESTAMPTZ NOT NULL,
    ends_at         TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (batch_export_id, starts_at)
);

-- Deleted exports whose rows in other tables have not been removed yet.
CREATE TABLE deleted_export (
    batch_export_id UUID PRIMARY KEY
);
CREATE FUNCTION batch_export_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO deleted_export (batch_export_id) VALUES (OLD.id);
    RETURN NULL;
END
$$;
CREATE TRIGGER batch_export_deleted AFTER DELETE ON batch_export FOR EACH ROW EXECUTE FUNCTION batch_export_deleted();
