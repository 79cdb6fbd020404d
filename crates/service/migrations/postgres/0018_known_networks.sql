-- From where accounts were signed in to: hashes of account and network together, as the table shall not list who was where.
CREATE TABLE known_network (
    hash    BYTEA PRIMARY KEY,
    last_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX known_network_by_age ON known_network (last_at);

-- Who last saw the link of an invite: whoever sends it again gets another one.
ALTER TABLE invite ADD COLUMN sent_by BIGINT REFERENCES app_user (id) ON DELETE SET NULL;
CREATE INDEX invite_by_last_sender ON invite (sent_by);
