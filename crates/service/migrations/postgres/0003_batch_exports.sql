CREATE TABLE batch_export (
    id              UUID PRIMARY KEY,
    organization_id UUID NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    team_id         BIGINT NOT NULL REFERENCES team (id) ON DELETE CASCADE,
    name            TEXT NOT NULL,
    model           TEXT NOT NULL,
    frequency       TEXT NOT NULL,
    kind            TEXT NOT NULL,
    config          JSONB NOT NULL,              -- what may be shown
    secrets         BYTEA,                       -- the rest, sealed
    paused          BOOLEAN NOT NULL,
    last_paused_at  TIMESTAMPTZ,
    start_at        TIMESTAMPTZ,
    end_at          TIMESTAMPTZ,
    hogql_query     TEXT,
    -- Runs exist for everything before this moment that the schedule covers; the next begins here.
    scheduled_until TIMESTAMPTZ NOT NULL,
    -- When the next run is made; null while paused, and after the end.
    next_run_at     TIMESTAMPTZ,
    -- Runs that failed for good, one after the other.
    failures        BIGINT NOT NULL DEFAULT 0,
    created_at      TIMESTAMPTZ NOT NULL,
    updated_at      TIMESTAMPTZ NOT NULL
);
CREATE INDEX batch_export_by_organization ON batch_export (organization_id, created_at, id);
CREATE INDEX batch_export_of_team ON batch_export (team_id);
CREATE INDEX batch_export_due ON batch_export (next_run_at) WHERE next_run_at IS NOT NULL;

CREATE TABLE export_backfill (
    id              UUID PRIMARY KEY,
    organization_id UUID NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    batch_export_id UUID NOT NULL REFERENCES batch_export (id) ON DELETE CASCADE,
    start_at        TIMESTAMPTZ NOT NULL,
    end_at          TIMESTAMPTZ NOT NULL,
    status          TEXT NOT NULL,
    is_resend       BOOLEAN NOT NULL,
    -- Runs have been made for everything before this moment.
    scheduled_until TIMESTAMPTZ NOT NULL,
    total_runs      BIGINT NOT NULL,
    -- Intervals that were delivered already.
    skipped_runs    BIGINT NOT NULL,
    created_at      TIMESTAMPTZ NOT NULL,
    finished_at     TIMESTAMPTZ,
    updated_at      TIMESTAMPTZ NOT NULL
);
CREATE INDEX export_backfill_of_export ON export_backfill (batch_export_id, created_at, id);
CREATE INDEX export_backfill_of_organization ON export_backfill (organization_id);
CREATE INDEX export_backfill_open ON export_backfill (created_at) WHERE finished_at IS NULL;

-- One interval of one export. A second scheduler cannot make a second run of it.
CREATE TABLE export_run (
    id                  UUID PRIMARY KEY,
    organization_id     UUID NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    batch_export_id     UUID NOT NULL REFERENCES batch_export (id) ON DELETE CASCADE,
    backfill_id         UUID REFERENCES export_backfill (id) ON DELETE SET NULL,
    data_interval_start TIMESTAMPTZ NOT NULL,
    data_interval_end   TIMESTAMPTZ NOT NULL,
    status              TEXT NOT NULL,
    is_resend           BOOLEAN NOT NULL,
    records_completed   BIGINT,
    records_total_count BIGINT,
    bytes_exported      BIGINT,
    latest_error        TEXT,
    -- Runs to the same place take turns.
    place               TEXT NOT NULL,
    -- When somebody should take it: when it is due, and while it is held, when its holder is given up. Null at the end.
    due_at              TIMESTAMPTZ,
    worker              UUID,
    -- Goes up each time the run is taken; whoever took it earlier can no longer write.
    attempt             BIGINT NOT NULL,
    -- Since it was last queued: how often it was tried, and since when.
    tries               BIGINT NOT NULL,
    queued_at           TIMESTAMPTZ NOT NULL,
    created_at          TIMESTAMPTZ NOT NULL,
    finished_at         TIMESTAMPTZ,
    updated_at          TIMESTAMPTZ NOT NULL,
    UNIQUE (batch_export_id, data_interval_start, data_interval_end)
);
CREATE INDEX export_run_newest ON export_run (batch_export_id, created_at, id);
CREATE INDEX export_run_due ON export_run (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX export_run_of_backfill ON export_run (backfill_id) WHERE backfill_id IS NOT NULL;
CREATE INDEX export_run_of_organization ON export_run (organization_id);

CREATE TABLE export_log (
    id              UUID PRIMARY KEY,
    organization_id UUID NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    batch_export_id UUID NOT NULL REFERENCES batch_export (id) ON DELETE CASCADE,
    run_id          UUID REFERENCES export_run (id) ON DELETE CASCADE,
    level           TEXT NOT NULL,
    message         TEXT NOT NULL,
    created_at      TIMESTAMPTZ NOT NULL
);
CREATE INDEX export_log_of_run ON export_log (run_id, id);
CREATE INDEX export_log_of_export ON export_log (batch_export_id, id);
CREATE INDEX export_log_of_organization ON export_log (organization_id);
CREATE INDEX export_log_by_age ON export_log (created_at);
