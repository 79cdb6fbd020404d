-- The hosts that an app says it reaches; null: it does not say.
ALTER TABLE pipeline_app ADD COLUMN hosts TEXT;
-- The hosts that a configuration is limited to; null: it is not.
ALTER TABLE pipeline_config ADD COLUMN allowed_hosts TEXT;

-- Where a configuration's app has sent requests, or tried to.
CREATE TABLE pipeline_reached_host (
    config_id  INTEGER NOT NULL REFERENCES pipeline_config (id) ON DELETE CASCADE,
    host       TEXT NOT NULL,
    is_allowed INTEGER NOT NULL,
    first_at   TEXT NOT NULL,
    last_at    TEXT NOT NULL,
    PRIMARY KEY (config_id, host)
) STRICT;
