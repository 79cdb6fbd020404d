-- The email outbox: emails are written in the transaction of the change that causes them, and sent afterwards.
CREATE TABLE email_outbox (
    id              BLOB PRIMARY KEY,
    -- The priority: 0 sign-in, 1 invite, 2 notice.
    class           INTEGER NOT NULL DEFAULT 2,
    -- The organization it is sent for, or the recipient if there is none. Sources of the same class take turns.
    source          TEXT NOT NULL DEFAULT '',
    -- The round in which the email's source gets its turn. Null while the email is being sent, waits for another attempt
    -- or was given up.
    position        INTEGER,
    recipient       TEXT NOT NULL,
    -- Encrypted, because it can contain a link that gives access.
    content         BLOB NOT NULL,
    invite_id       BLOB,
    attempts        INTEGER NOT NULL,
    -- Null: given up.
    next_attempt_at TEXT,
    last_error      TEXT,
    created_at      TEXT NOT NULL
) STRICT;
CREATE INDEX email_outbox_of_invite ON email_outbox (invite_id);
CREATE INDEX email_outbox_queue ON email_outbox (class, position, id, source) WHERE position IS NOT NULL;
CREATE INDEX email_outbox_of_source ON email_outbox (class, source, position) WHERE position IS NOT NULL;
CREATE INDEX email_outbox_put_off ON email_outbox (next_attempt_at) WHERE position IS NULL;
