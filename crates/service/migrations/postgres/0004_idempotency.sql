-- Requests with an Idempotency-Key and their responses: a repeated request gets the first response.
CREATE TABLE idempotency (
    user_id    BIGINT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    route      TEXT NOT NULL,
    token      TEXT NOT NULL,
    body_hash  BYTEA NOT NULL,
    -- running, committed or answered.
    state      TEXT NOT NULL,
    status     SMALLINT,
    headers    JSONB,
    body       BYTEA,
    created_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (user_id, route, token)
);
CREATE INDEX idempotency_by_age ON idempotency (created_at);
