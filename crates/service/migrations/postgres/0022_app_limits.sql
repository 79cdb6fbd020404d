-- What a configuration is told and what is said of an app, as it takes memory; what a version's code takes here. The sums over an
-- organization are read from the indexes alone.
ALTER TABLE pipeline_config ADD COLUMN size BIGINT NOT NULL DEFAULT 0;
UPDATE pipeline_config SET size = octet_length(config::text) + COALESCE(octet_length(secrets), 0);
CREATE INDEX pipeline_config_by_size ON pipeline_config (organization_id, size);
ALTER TABLE pipeline_app ADD COLUMN size BIGINT NOT NULL DEFAULT 0;
UPDATE pipeline_app SET size = octet_length(config_schema::text) + octet_length(capabilities::text)
    + octet_length(metrics::text) + octet_length(public_jobs::text);
CREATE INDEX pipeline_app_by_size ON pipeline_app (organization_id, size);
ALTER TABLE pipeline_version ADD COLUMN size BIGINT NOT NULL DEFAULT 0;
UPDATE pipeline_version SET size = octet_length(files) + octet_length(code) + octet_length(offers);
CREATE INDEX pipeline_version_by_size ON pipeline_version (app_id, number, created_at, size);

-- What a version has for browsers, apart from the rest: anybody may ask whether there is something.
CREATE TABLE pipeline_script (
    app_id BIGINT NOT NULL,
    number BIGINT NOT NULL,
    name   TEXT NOT NULL,                       -- site or frontend
    code   TEXT NOT NULL,
    PRIMARY KEY (app_id, number, name),
    FOREIGN KEY (app_id, number) REFERENCES pipeline_version (app_id, number) ON DELETE CASCADE
);
INSERT INTO pipeline_script (app_id, number, name, code)
    SELECT app_id, number, 'site', offers::json ->> 'site' FROM pipeline_version
    WHERE (offers::json ->> 'site') IS NOT NULL;
INSERT INTO pipeline_script (app_id, number, name, code)
    SELECT app_id, number, 'frontend', offers::json ->> 'frontend' FROM pipeline_version
    WHERE (offers::json ->> 'frontend') IS NOT NULL;
UPDATE pipeline_version SET offers = (offers::jsonb - 'site' - 'frontend')::text;

-- What a configuration's app keeps, has waiting and has said: counted where it is written, so that nobody has to add it up.
CREATE TABLE pipeline_usage (
    organization_id UUID NOT NULL,
    config_id       BIGINT NOT NULL REFERENCES pipeline_config (id) ON DELETE CASCADE,
    storage_keys    BIGINT NOT NULL DEFAULT 0,
    storage_bytes   BIGINT NOT NULL DEFAULT 0,
    -- Of the jobs that wait.
    payload_bytes   BIGINT NOT NULL DEFAULT 0,
    -- At least as many as there are: those that went with age are still counted.
    log_lines       BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (organization_id, config_id)
);
CREATE UNIQUE INDEX pipeline_usage_of_config ON pipeline_usage (config_id);
INSERT INTO pipeline_usage (organization_id, config_id, storage_keys, storage_bytes, payload_bytes, log_lines)
    SELECT c.organization_id, c.id,
        (SELECT count(*) FROM pipeline_storage s WHERE s.config_id = c.id),
        (SELECT COALESCE(sum(octet_length(s.key) + octet_length(s.value)), 0) FROM pipeline_storage s WHERE s.config_id = c.id),
        (SELECT COALESCE(sum(octet_length(t.name) + octet_length(t.payload)), 0)
            FROM pipeline_task t WHERE t.config_id = c.id AND t.kind = 'job'),
        (SELECT count(*) FROM pipeline_log l WHERE l.config_id = c.id)
    FROM pipeline_config c;
