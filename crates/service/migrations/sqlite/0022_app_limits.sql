-- What a configuration is told and what is said of an app, as it takes memory; what a version's code takes here. The sums over an
-- organization are read from the indexes alone.
ALTER TABLE pipeline_config ADD COLUMN size INTEGER NOT NULL DEFAULT 0;
UPDATE pipeline_config SET size = length(CAST(config AS BLOB)) + COALESCE(length(secrets), 0);
CREATE INDEX pipeline_config_by_size ON pipeline_config (organization_id, size);
ALTER TABLE pipeline_app ADD COLUMN size INTEGER NOT NULL DEFAULT 0;
UPDATE pipeline_app SET size = length(CAST(config_schema AS BLOB)) + length(CAST(capabilities AS BLOB))
    + length(CAST(metrics AS BLOB)) + length(CAST(public_jobs AS BLOB));
CREATE INDEX pipeline_app_by_size ON pipeline_app (organization_id, size);
ALTER TABLE pipeline_version ADD COLUMN size INTEGER NOT NULL DEFAULT 0;
UPDATE pipeline_version SET size = length(CAST(files AS BLOB)) + length(CAST(code AS BLOB)) + length(CAST(offers AS BLOB));
CREATE INDEX pipeline_version_by_size ON pipeline_version (app_id, number, created_at, size);

-- What a version has for browsers, apart from the rest: anybody may ask whether there is something.
CREATE TABLE pipeline_script (
    app_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    name   TEXT NOT NULL,                       -- site or frontend
    code   TEXT NOT NULL,
    PRIMARY KEY (app_id, number, name),
    FOREIGN KEY (app_id, number) REFERENCES pipeline_version (app_id, number) ON DELETE CASCADE
) STRICT;
INSERT INTO pipeline_script (app_id, number, name, code)
    SELECT app_id, number, 'site', json_extract(offers, '$.site') FROM pipeline_version
    WHERE json_type(offers, '$.site') = 'text';
INSERT INTO pipeline_script (app_id, number, name, code)
    SELECT app_id, number, 'frontend', json_extract(offers, '$.frontend') FROM pipeline_version
    WHERE json_type(offers, '$.frontend') = 'text';
UPDATE pipeline_version SET offers = json_remove(offers, '$.site', '$.frontend');

-- What a configuration's app keeps, has waiting and has said: counted where it is written, so that nobody has to add it up.
CREATE TABLE pipeline_usage (
    organization_id BLOB NOT NULL,
    config_id       INTEGER NOT NULL REFERENCES pipeline_config (id) ON DELETE CASCADE,
    storage_keys    INTEGER NOT NULL DEFAULT 0,
    storage_bytes   INTEGER NOT NULL DEFAULT 0,
    -- Of the jobs that wait.
    payload_bytes   INTEGER NOT NULL DEFAULT 0,
    -- At least as many as there are: those that went with age are still counted.
    log_lines       INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (organization_id, config_id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX pipeline_usage_of_config ON pipeline_usage (config_id);
INSERT INTO pipeline_usage (organization_id, config_id, storage_keys, storage_bytes, payload_bytes, log_lines)
    SELECT c.organization_id, c.id,
        (SELECT count(*) FROM pipeline_storage s WHERE s.config_id = c.id),
        (SELECT COALESCE(sum(length(CAST(s.key AS BLOB)) + length(CAST(s.value AS BLOB))), 0)
            FROM pipeline_storage s WHERE s.config_id = c.id),
        (SELECT COALESCE(sum(length(CAST(t.name AS BLOB)) + length(CAST(t.payload AS BLOB))), 0)
            FROM pipeline_task t WHERE t.config_id = c.id AND t.kind = 'job'),
        (SELECT count(*) FROM pipeline_log l WHERE l.config_id = c.id)
    FROM pipeline_config c;
