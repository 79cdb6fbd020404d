CREATE TABLE pipeline_app (
    id              BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    organization_id UUID NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    collection      TEXT NOT NULL,
    plugin_type     TEXT NOT NULL,
    name            TEXT NOT NULL,
    description     TEXT NOT NULL,
    url             TEXT,
    -- Encrypted.
    private_token   BYTEA,
    icon            TEXT,
    config_schema   JSONB NOT NULL,
    tag             TEXT,
    latest_tag      TEXT,
    is_global       BOOLEAN NOT NULL,
    capabilities    JSONB NOT NULL,
    metrics         JSONB NOT NULL,
    public_jobs     JSONB NOT NULL,
    -- The fields that were edited by hand: new code does not overwrite them.
    overrides       JSONB NOT NULL,
    -- The hosts that the app declares to send requests to. Null: it declares none.
    hosts           JSONB,
    -- The number of the current version. 0: the app has no code.
    version         BIGINT NOT NULL,
    -- Bytes it takes in memory, which count toward the organization's limit.
    size            BIGINT NOT NULL DEFAULT 0,
    -- When to check for a newer tag. Null: there is nothing to check.
    next_check_at   TIMESTAMPTZ,
    created_at      TIMESTAMPTZ NOT NULL,
    updated_at      TIMESTAMPTZ NOT NULL
);
CREATE INDEX pipeline_app_by_organization ON pipeline_app (organization_id, collection, id);
CREATE INDEX pipeline_app_global ON pipeline_app (collection, id) WHERE is_global;
CREATE INDEX pipeline_app_to_check ON pipeline_app (next_check_at) WHERE next_check_at IS NOT NULL;
-- Sums up the sizes of an organization's apps from the index alone.
CREATE INDEX pipeline_app_by_size ON pipeline_app (organization_id, size);

-- The code of an app, current and past. It may be 256 MB for an organization, refers to its app without a foreign key, and is
-- deleted after it, one version at a time (deleted_app). Ids of apps are never used again.
CREATE TABLE pipeline_version (
    app_id     BIGINT NOT NULL,
    number     BIGINT NOT NULL,
    tag        TEXT,
    -- SHA-256 over all files.
    sha256     TEXT,
    -- Bytes it takes in the database.
    size       BIGINT NOT NULL DEFAULT 0,
    -- What the code itself declares, without the scripts for browsers.
    metadata   TEXT NOT NULL,
    -- What the app declared as of this version, with edits by hand. Null: the same as metadata.
    manifest   TEXT,
    created_at TIMESTAMPTZ NOT NULL,
    -- The source files, and the compiled code. They are large, and SQLite reads past them to get at later columns.
    files      TEXT NOT NULL,
    code       TEXT NOT NULL,
    PRIMARY KEY (app_id, number)
);
-- Sums up the sizes of an app's versions from the index alone.
CREATE INDEX pipeline_version_by_size ON pipeline_version (app_id, number, created_at, size);

-- The scripts of a version that run in browsers. Apart from the other code, because anybody can ask whether there are any.
CREATE TABLE pipeline_script (
    app_id BIGINT NOT NULL,
    number BIGINT NOT NULL,
    -- site or frontend.
    name   TEXT NOT NULL,
    code   TEXT NOT NULL,
    PRIMARY KEY (app_id, number, name),
    FOREIGN KEY (app_id, number) REFERENCES pipeline_version (app_id, number) ON DELETE CASCADE
);

CREATE TABLE pipeline_config (
    id              BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    organization_id UUID NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    app_id          BIGINT NOT NULL REFERENCES pipeline_app (id) ON DELETE CASCADE,
    team_id         BIGINT NOT NULL REFERENCES team (id) ON DELETE CASCADE,
    -- The version of the app that was approved and runs. Configurations of the app's own organization follow the app.
    version         BIGINT NOT NULL DEFAULT 0,
    enabled         BOOLEAN NOT NULL,
    sort_order      BIGINT NOT NULL,
    -- The settings that can be shown.
    config          JSONB NOT NULL,
    -- The other settings, encrypted.
    secrets         BYTEA,
    -- Bytes it takes in memory, which count toward the organization's limit for configurations.
    size            BIGINT NOT NULL DEFAULT 0,
    -- The hosts that the configuration is limited to. Null: no limit.
    allowed_hosts   JSONB,
    -- What a web page sends to load a frontend app. Not a secret, but unguessable.
    web_token       TEXT NOT NULL,
    -- All events before this time were delivered, and this many of those at exactly this time.
    delivered_until TIMESTAMPTZ NOT NULL,
    delivered_count BIGINT NOT NULL,
    -- When a worker can claim it. While it is claimed, when its lease expires. Null while it is disabled.
    due_at          TIMESTAMPTZ,
    worker          UUID,
    -- Incremented with each claim. A worker whose lease has expired can no longer write.
    attempt         BIGINT NOT NULL,
    -- Attempts at the next event.
    tries           BIGINT NOT NULL,
    -- Consecutive events that failed.
    failures        BIGINT NOT NULL,
    latest_error    TEXT,
    -- Each queued job advances this time. A job that is queued while it is too far in the future has to wait.
    jobs_until      TIMESTAMPTZ,
    created_at      TIMESTAMPTZ NOT NULL,
    updated_at      TIMESTAMPTZ NOT NULL
);
CREATE INDEX pipeline_config_of_app ON pipeline_config (app_id, id);
CREATE INDEX pipeline_config_of_team ON pipeline_config (team_id, enabled);
CREATE INDEX pipeline_config_of_organization ON pipeline_config (organization_id, enabled);
CREATE INDEX pipeline_config_due ON pipeline_config (due_at) WHERE due_at IS NOT NULL;
-- Organizations take turns: finds the next one that has configurations due without reading all of them.
CREATE INDEX pipeline_config_by_turn ON pipeline_config (organization_id, due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX pipeline_config_of_version ON pipeline_config (app_id, version);
-- Sums up the sizes of an organization's configurations from the index alone.
CREATE INDEX pipeline_config_by_size ON pipeline_config (organization_id, size);

-- What apps run besides handling events: scheduled tasks, and jobs that they queue themselves.
CREATE TABLE pipeline_task (
    id              UUID PRIMARY KEY,
    organization_id UUID NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    config_id       BIGINT NOT NULL REFERENCES pipeline_config (id) ON DELETE CASCADE,
    -- schedule or job.
    kind            TEXT NOT NULL,
    name            TEXT NOT NULL,
    payload         TEXT NOT NULL,
    due_at          TIMESTAMPTZ NOT NULL,
    worker          UUID,
    attempt         BIGINT NOT NULL,
    created_at      TIMESTAMPTZ NOT NULL
);
CREATE UNIQUE INDEX pipeline_task_schedule ON pipeline_task (config_id, name) WHERE kind = 'schedule';
CREATE INDEX pipeline_task_due ON pipeline_task (due_at);
-- Organizations take turns: finds the next one that has tasks due without reading all of them.
CREATE INDEX pipeline_task_by_turn ON pipeline_task (organization_id, due_at);
CREATE INDEX pipeline_task_of_config ON pipeline_task (config_id, due_at, id);
-- The tasks that are running.
CREATE INDEX pipeline_task_held ON pipeline_task (organization_id, config_id, due_at) WHERE worker IS NOT NULL;

-- Key-value storage of apps. Like logs, it may be millions of rows, refers to its configuration without a foreign key, and is
-- deleted after it, some rows at a time (deleted_config). Ids of configurations are never used again.
CREATE TABLE pipeline_storage (
    config_id  BIGINT NOT NULL,
    key        TEXT NOT NULL,
    value      TEXT NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (config_id, key)
);

CREATE TABLE pipeline_log (
    id              UUID PRIMARY KEY,
    organization_id UUID NOT NULL,
    config_id       BIGINT NOT NULL,
    source          TEXT NOT NULL,
    level           TEXT NOT NULL,
    message         TEXT NOT NULL,
    created_at      TIMESTAMPTZ NOT NULL
);
CREATE INDEX pipeline_log_of_config ON pipeline_log (config_id, created_at, id);
CREATE INDEX pipeline_log_by_age ON pipeline_log (created_at);

-- Hosts that a configuration's app has sent requests to, or tried to. Deleted after it, as storage is.
CREATE TABLE pipeline_reached_host (
    config_id  BIGINT NOT NULL,
    host       TEXT NOT NULL,
    is_allowed BOOLEAN NOT NULL,
    first_at   TIMESTAMPTZ NOT NULL,
    last_at    TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (config_id, host)
);

-- Storage, queued jobs and log lines of a configuration, counted when they are written, so that limits don't need to add
-- them up.
CREATE TABLE pipeline_usage (
    organization_id UUID NOT NULL,
    config_id       BIGINT NOT NULL REFERENCES pipeline_config (id) ON DELETE CASCADE,
    storage_keys    BIGINT NOT NULL DEFAULT 0,
    storage_bytes   BIGINT NOT NULL DEFAULT 0,
    -- Of queued jobs.
    payload_bytes   BIGINT NOT NULL DEFAULT 0,
    -- An upper bound: lines that retention has deleted are still counted.
    log_lines       BIGINT NOT NULL DEFAULT 0,
    -- Hosts that apps requested beyond those that are listed.
    unlisted_hosts  BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (organization_id, config_id)
);
CREATE UNIQUE INDEX pipeline_usage_of_config ON pipeline_usage (config_id);

-- Deleted configurations whose storage, logs and hosts have not been removed yet.
CREATE TABLE deleted_config (
    config_id BIGINT PRIMARY KEY
);
CREATE FUNCTION pipeline_config_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO deleted_config (config_id) VALUES (OLD.id);
    RETURN NULL;
END
$$;
CREATE TRIGGER pipeline_config_deleted AFTER DELETE ON pipeline_config FOR EACH ROW EXECUTE FUNCTION pipeline_config_deleted();

-- Deleted apps whose code has not been removed yet.
CREATE TABLE deleted_app (
    app_id BIGINT PRIMARY KEY
);
CREATE FUNCTION pipeline_app_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO deleted_app (app_id) VALUES (OLD.id);
    RETURN NULL;
END
$$;
CREATE TRIGGER pipeline_app_deleted AFTER DELETE ON pipeline_app FOR EACH ROW EXECUTE FUNCTION pipeline_app_deleted();
