CREATE TABLE pipeline_app (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    organization_id BLOB NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    collection      TEXT NOT NULL,
    plugin_type     TEXT NOT NULL,
    name            TEXT NOT NULL,
    description     TEXT NOT NULL,
    url             TEXT,
    private_token   BLOB,                       -- sealed
    icon            TEXT,
    config_schema   TEXT NOT NULL,
    tag             TEXT,
    latest_tag      TEXT,
    is_global       INTEGER NOT NULL,
    capabilities    TEXT NOT NULL,
    metrics         TEXT NOT NULL,
    public_jobs     TEXT NOT NULL,
    -- What somebody wrote by hand: code does not change it.
    written         TEXT NOT NULL,
    -- Which code it has; 0 is none.
    version         INTEGER NOT NULL,
    -- When somebody should look for a newer tag; null where there is nothing to look at.
    next_check_at   TEXT,
    created_at      TEXT NOT NULL,
    updated_at      TEXT NOT NULL
) STRICT;
CREATE INDEX pipeline_app_by_organization ON pipeline_app (organization_id, collection, id);
CREATE INDEX pipeline_app_global ON pipeline_app (collection, id) WHERE is_global = 1;
CREATE INDEX pipeline_app_to_check ON pipeline_app (next_check_at) WHERE next_check_at IS NOT NULL;

-- The code of an app, as it was and as it is.
CREATE TABLE pipeline_version (
    app_id     INTEGER NOT NULL REFERENCES pipeline_app (id) ON DELETE CASCADE,
    number     INTEGER NOT NULL,
    tag        TEXT,
    files      TEXT NOT NULL,                   -- as written
    code       TEXT NOT NULL,                   -- as run
    offers     TEXT NOT NULL,                   -- what was found in it
    created_at TEXT NOT NULL,
    PRIMARY KEY (app_id, number)
) STRICT;

CREATE TABLE pipeline_config (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    organization_id BLOB NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    app_id          INTEGER NOT NULL REFERENCES pipeline_app (id) ON DELETE CASCADE,
    team_id         INTEGER NOT NULL REFERENCES team (id) ON DELETE CASCADE,
    enabled         INTEGER NOT NULL,
    sort_order      INTEGER NOT NULL,
    config          TEXT NOT NULL,              -- what may be shown
    secrets         BLOB,                       -- the rest, sealed
    -- What a page that loads a frontend app shows to get it. Not a secret, but not to be guessed.
    web_token       TEXT NOT NULL,
    -- Every event before this moment was handed over, and so many of those at this very moment.
    delivered_until TEXT NOT NULL,
    delivered_count INTEGER NOT NULL,
    -- When somebody may take it: while it is held, when its holder is given up. Null while it is off.
    due_at          TEXT,
    worker          BLOB,
    -- Goes up each time it is taken; whoever took it earlier can no longer write.
    attempt         INTEGER NOT NULL,
    -- How often the next event was tried, and how many failed one after the other.
    tries           INTEGER NOT NULL,
    failures        INTEGER NOT NULL,
    latest_error    TEXT,
    created_at      TEXT NOT NULL,
    updated_at      TEXT NOT NULL
) STRICT;
CREATE INDEX pipeline_config_of_app ON pipeline_config (app_id, id);
CREATE INDEX pipeline_config_of_team ON pipeline_config (team_id, enabled);
CREATE INDEX pipeline_config_of_organization ON pipeline_config (organization_id, enabled);
CREATE INDEX pipeline_config_due ON pipeline_config (due_at) WHERE due_at IS NOT NULL;

-- What an app does without an event: on a schedule, or because it asked for it.
CREATE TABLE pipeline_task (
    id              BLOB PRIMARY KEY,
    organization_id BLOB NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    config_id       INTEGER NOT NULL REFERENCES pipeline_config (id) ON DELETE CASCADE,
    kind            TEXT NOT NULL,              -- schedule or job
    name            TEXT NOT NULL,
    payload         TEXT NOT NULL,
    due_at          TEXT NOT NULL,
    worker          BLOB,
    attempt         INTEGER NOT NULL,
    created_at      TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX pipeline_task_schedule ON pipeline_task (config_id, name) WHERE kind = 'schedule';
CREATE INDEX pipeline_task_of_config ON pipeline_task (config_id);
CREATE INDEX pipeline_task_of_organization ON pipeline_task (organization_id);
CREATE INDEX pipeline_task_due ON pipeline_task (due_at);

-- What apps keep for themselves.
CREATE TABLE pipeline_storage (
    config_id  INTEGER NOT NULL REFERENCES pipeline_config (id) ON DELETE CASCADE,
    key        TEXT NOT NULL,
    value      TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (config_id, key)
) STRICT;

CREATE TABLE pipeline_log (
    id              BLOB PRIMARY KEY,
    organization_id BLOB NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    config_id       INTEGER NOT NULL REFERENCES pipeline_config (id) ON DELETE CASCADE,
    source          TEXT NOT NULL,
    level           TEXT NOT NULL,
    message         TEXT NOT NULL,
    created_at      TEXT NOT NULL
) STRICT;
CREATE INDEX pipeline_log_of_config ON pipeline_log (config_id, created_at, id);
CREATE INDEX pipeline_log_of_organization ON pipeline_log (organization_id);
CREATE INDEX pipeline_log_by_age ON pipeline_log (created_at);
