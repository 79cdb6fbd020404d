-- The version of the app that a configuration was approved with, and runs. Its own organization's move along with the app.
ALTER TABLE pipeline_config ADD COLUMN version BIGINT NOT NULL DEFAULT 0;
UPDATE pipeline_config SET version = (SELECT a.version FROM pipeline_app a WHERE a.id = pipeline_config.app_id);
CREATE INDEX pipeline_config_of_version ON pipeline_config (app_id, version);

-- What was said of a version's code: by the code itself, or by its owners. Null where nobody said anything else than the code.
ALTER TABLE pipeline_version ADD COLUMN manifest TEXT;
UPDATE pipeline_version SET manifest = (
    SELECT jsonb_build_object('config_schema', a.config_schema, 'capabilities', a.capabilities, 'metrics', a.metrics,
        'public_jobs', a.public_jobs, 'written', a.written)::text
    FROM pipeline_app a WHERE a.id = pipeline_version.app_id AND a.version = pipeline_version.number);
