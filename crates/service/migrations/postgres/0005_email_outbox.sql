-- The email outbox: emails are written in the transaction of the change that causes them, and sent afterwards.
CREATE TABLE email_outbox (
    id              UUID PRIMARY KEY,
    -- The priority: 0 sign-in, 1 invite, 2 notice.
    class           BIGINT NOT NULL DEFAULT 2,
    -- The organization it is sent for, or the recipient if there is none. Sources of the same class take turns.
    source          TEXT NOT NULL DEFAULT '',
    -- The round in which the email's source gets its turn. Null while the email is being sent, waits for another attempt
    -- or was given up.
    position        BIGINT,
    recipient       TEXT NOT NULL,
    -- Encrypted, because it can contain a link that gives access.
    content         BYTEA NOT NULL,
    invite_id       UUID,
    attempts        BIGINT NOT NULL,
    -- Null: given up.
    next_attempt_at TIMESTAMPTZ,
    last_error      TEXT,
    created_at      TIMESTAMPTZ NOT NULL
);
CREATE INDEX email_outbox_of_invite ON email_outbox (invite_id);
CREATE INDEX email_outbox_queue ON email_outbox (class, position, id, source) WHERE position IS NOT NULL;
CREATE INDEX email_outbox_of_source ON email_outbox (class, source, position) WHERE position IS NOT NULL;
CREATE INDEX email_outbox_put_off ON email_outbox (next_attempt_at) WHERE position IS NULL;
