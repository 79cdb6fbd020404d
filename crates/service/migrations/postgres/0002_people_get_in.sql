-- What is known of the whole instance. One row.
CREATE TABLE instance (
    id         SMALLINT PRIMARY KEY,
    secret_id  BYTEA NOT NULL            -- tells whether secrets were sealed with the key at hand, and nothing more
);

-- Signing in: the second factor.
ALTER TABLE app_user ADD COLUMN totp_secret BYTEA;              -- sealed
ALTER TABLE app_user ADD COLUMN totp_last_step BIGINT;          -- a code is good once

-- How often signing in failed, by address, whether it has an account or not: the lock tells nothing.
CREATE TABLE sign_in_failure (
    email_hash   BYTEA PRIMARY KEY,
    failures     BIGINT NOT NULL,
    last_at      TIMESTAMPTZ NOT NULL,
    locked_until TIMESTAMPTZ
);
CREATE INDEX sign_in_failure_by_age ON sign_in_failure (last_at);

CREATE TABLE backup_code (
    user_id   BIGINT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    code_hash BYTEA NOT NULL,
    PRIMARY KEY (user_id, code_hash)
);

ALTER TABLE session ADD COLUMN method TEXT NOT NULL DEFAULT 'password';
ALTER TABLE session ADD COLUMN has_second_factor BOOLEAN NOT NULL DEFAULT FALSE;
-- Whose identity provider vouched for the person: such a session acts in that organization only.
ALTER TABLE session ADD COLUMN organization_id UUID REFERENCES organization (id) ON DELETE CASCADE;
ALTER TABLE session ADD COLUMN address TEXT NOT NULL DEFAULT '';
ALTER TABLE session ADD COLUMN user_agent TEXT NOT NULL DEFAULT '';

-- A right password that still lacks its second factor. It is no session and opens nothing.
CREATE TABLE challenge (
    secret_hash BYTEA PRIMARY KEY,
    user_id     BIGINT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    tries       BIGINT NOT NULL,
    expires_at  TIMESTAMPTZ NOT NULL
);
CREATE INDEX challenge_by_expiry ON challenge (expires_at);
CREATE INDEX challenge_of_user ON challenge (user_id);
CREATE INDEX session_by_voucher ON session (organization_id);

CREATE TABLE password_reset (
    secret_hash BYTEA PRIMARY KEY,
    user_id     BIGINT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    expires_at  TIMESTAMPTZ NOT NULL
);
CREATE INDEX password_reset_of_user ON password_reset (user_id);

-- What gets an owner in when nothing else does. Each is good once.
CREATE TABLE recovery_code (
    organization_id UUID NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    user_id         BIGINT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    code_hash       BYTEA NOT NULL UNIQUE,
    created_at      TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (organization_id, user_id, code_hash)
);

CREATE INDEX recovery_code_of_user ON recovery_code (user_id);

CREATE TABLE invite (
    id                    UUID NOT NULL,
    organization_id       UUID NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    target_email          TEXT NOT NULL,
    first_name            TEXT NOT NULL,
    level                 SMALLINT NOT NULL,
    message               TEXT NOT NULL,
    secret_hash           BYTEA NOT NULL UNIQUE,   -- of the link that the inviter sees
    mail_hash             BYTEA UNIQUE,            -- of the link that only the mail holds: whoever has it has the mailbox
    emailing_attempt_made BOOLEAN NOT NULL,
    created_by            BIGINT REFERENCES app_user (id) ON DELETE SET NULL,
    created_at            TIMESTAMPTZ NOT NULL,
    updated_at            TIMESTAMPTZ NOT NULL,
    expires_at            TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, target_email)
);
CREATE UNIQUE INDEX invite_by_id ON invite (id);
CREATE INDEX invite_by_sender ON invite (created_by);

-- Mail that is to go out: written with the deed it tells of, sent after it.
CREATE TABLE mail (
    id              UUID PRIMARY KEY,
    recipient       TEXT NOT NULL,
    content         BYTEA NOT NULL,           -- sealed: it may hold a link that lets somebody in
    invite_id       UUID,
    attempts        BIGINT NOT NULL,
    next_attempt_at TIMESTAMPTZ,              -- null: given up
    last_error      TEXT,
    created_at      TIMESTAMPTZ NOT NULL
);
CREATE INDEX mail_due ON mail (next_attempt_at);
CREATE INDEX mail_of_invite ON mail (invite_id);

CREATE TABLE domain (
    id                       UUID NOT NULL,
    organization_id          UUID NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    domain                   TEXT NOT NULL,
    verification_challenge   TEXT NOT NULL,
    verified_at              TIMESTAMPTZ,
    checked_at               TIMESTAMPTZ,     -- when the record was last looked for
    lost_at                  TIMESTAMPTZ,     -- since when the record of a verified domain has been missing
    verification_error       JSONB,
    jit_provisioning_enabled BOOLEAN NOT NULL,
    sso_enforcement          TEXT NOT NULL,
    saml_entity_id           TEXT NOT NULL,
    saml_acs_url             TEXT NOT NULL,
    saml_x509_cert           TEXT NOT NULL,
    saml_metadata_url        TEXT NOT NULL,   -- where the three were read from, if they were
    saml_idp_initiated       BOOLEAN NOT NULL,
    oidc_issuer              TEXT NOT NULL,
    oidc_client_id           TEXT NOT NULL,
    oidc_client_secret       BYTEA,           -- sealed
    created_at               TIMESTAMPTZ NOT NULL,
    updated_at               TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, domain)
);
-- Whoever proves a domain has it; a claim without proof blocks nobody.
CREATE UNIQUE INDEX domain_verified ON domain (domain) WHERE verified_at IS NOT NULL;
CREATE UNIQUE INDEX domain_by_id ON domain (id);
CREATE INDEX domain_to_recheck ON domain (checked_at) WHERE verified_at IS NOT NULL;

-- A sign-in that was sent to an identity provider and is waited for, once.
CREATE TABLE sso_request (
    id              TEXT PRIMARY KEY,
    organization_id UUID,
    domain_id       UUID,
    method          TEXT NOT NULL,
    browser_hash    BYTEA NOT NULL,           -- whoever comes back must be the browser that was sent
    details         BYTEA NOT NULL,           -- sealed
    expires_at      TIMESTAMPTZ NOT NULL
);
CREATE INDEX sso_request_by_expiry ON sso_request (expires_at);

-- Assertions that were taken: each is good once, on every replica and after every restart.
CREATE TABLE sso_assertion (
    domain_id    UUID NOT NULL,
    assertion_id TEXT NOT NULL,
    expires_at   TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (domain_id, assertion_id)
);
CREATE INDEX sso_assertion_by_expiry ON sso_assertion (expires_at);

-- The last sign-ins through a domain, for whoever has to find out why one does not work.
CREATE TABLE sso_attempt (
    organization_id UUID NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    domain_id       UUID NOT NULL,
    id              UUID NOT NULL,
    method          TEXT NOT NULL,
    email           TEXT NOT NULL,
    rule            TEXT,                     -- null: the person got in
    detail          TEXT NOT NULL,
    address         TEXT NOT NULL,
    request_id      TEXT NOT NULL,
    created_at      TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (domain_id, id)
);
