-- What people and organizations did in the present hour, so that limits hold on all replicas.
CREATE TABLE hourly_count (
    action    TEXT NOT NULL,
    subject   TEXT NOT NULL,               -- whom it is counted for: a user, an organization, a network, the instance
    starts_at TEXT NOT NULL,
    used      INTEGER NOT NULL,
    PRIMARY KEY (action, subject)
) STRICT;

-- Somebody asked for a link to set a new password. Whether there is an account is found out after the answer.
CREATE TABLE password_reset_request (
    id         BLOB PRIMARY KEY,
    email      BLOB NOT NULL,          -- encrypted: what people try is not listed
    request_id TEXT NOT NULL,
    created_at TEXT NOT NULL
) STRICT;

-- While one request creates the account of an invite, others need not hash their passwords.
ALTER TABLE invite ADD COLUMN claimed_until TEXT;

-- When the person last proved who they are: by signing in, or by confirming it since.
ALTER TABLE session ADD COLUMN proven_at TEXT;
