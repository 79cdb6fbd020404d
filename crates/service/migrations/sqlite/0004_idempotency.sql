-- Requests with an Idempotency-Key and their responses: a repeated request gets the first response.
CREATE TABLE idempotency (
    user_id    INTEGER NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    route      TEXT NOT NULL,
    token      TEXT NOT NULL,
    body_hash  BLOB NOT NULL,
    -- running, committed or answered.
    state      TEXT NOT NULL,
    status     INTEGER,
    headers    TEXT,
    body       BLOB,
    created_at TEXT NOT NULL,
    PRIMARY KEY (user_id, route, token)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_by_age ON idempotency (created_at);
