-- The activity log. No foreign keys: entries outlive what they refer to.
-- IDs are time-ordered, so the primary key is the order entries are read in. Entries that concern no organization have the
-- nil UUID as organization_id.
CREATE TABLE activity (
    organization_id UUID NOT NULL,
    id              UUID NOT NULL,
    -- The team that the entry is about, if it is about one: API keys can be limited to teams.
    team_id         BIGINT,
    user_id         BIGINT,
    key_id          UUID,
    scope           TEXT NOT NULL,
    item_id         TEXT NOT NULL,
    activity        TEXT NOT NULL,
    name            TEXT NOT NULL,
    changes         JSONB NOT NULL,
    request_id      TEXT NOT NULL,
    created_at      TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (organization_id, id)
);
CREATE INDEX activity_of_item ON activity (organization_id, item_id, id);
