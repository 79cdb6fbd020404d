-- How users authenticate: identities, sessions, API keys, second factors, single sign-on, and limits that protect accounts.

-- Accounts at identity providers.
CREATE TABLE user_identity (
    id         UUID PRIMARY KEY,
    user_id    BIGINT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    provider   TEXT NOT NULL,
    subject    TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    UNIQUE (provider, subject)
);
CREATE INDEX user_identity_by_user ON user_identity (user_id);

CREATE TABLE session (
    id                UUID PRIMARY KEY,
    user_id           BIGINT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    -- The organization whose identity provider authenticated the user: such a session has access to it only.
    organization_id   UUID REFERENCES organization (id) ON DELETE CASCADE,
    secret_hash       BYTEA NOT NULL UNIQUE,
    method            TEXT NOT NULL DEFAULT 'password',
    has_second_factor BOOLEAN NOT NULL DEFAULT FALSE,
    address           TEXT NOT NULL DEFAULT '',
    user_agent        TEXT NOT NULL DEFAULT '',
    created_at        TIMESTAMPTZ NOT NULL,
    -- When the user last confirmed their identity; null: not since they signed in.
    authenticated_at  TIMESTAMPTZ,
    last_used_at      TIMESTAMPTZ NOT NULL,
    expires_at        TIMESTAMPTZ NOT NULL
);
CREATE INDEX session_of_user ON session (user_id);
CREATE INDEX session_by_expiry ON session (expires_at);
CREATE INDEX session_of_organization ON session (organization_id);

CREATE TABLE api_key (
    id                   UUID PRIMARY KEY,
    user_id              BIGINT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    label                TEXT NOT NULL,
    mask_value           TEXT NOT NULL,
    secret_hash          BYTEA NOT NULL UNIQUE,
    scopes               JSONB NOT NULL,
    -- The scopes that were ever used: the others can be removed.
    used_scopes          JSONB NOT NULL DEFAULT '[]',
    scoped_organizations JSONB NOT NULL,
    scoped_teams         JSONB NOT NULL,
    -- Whether the key was created or rolled in a session that an organization's identity provider authenticated. Such a
    -- key never has an owner's rights.
    is_from_idp_session  BOOLEAN NOT NULL DEFAULT FALSE,
    created_at           TIMESTAMPTZ NOT NULL,
    updated_at           TIMESTAMPTZ NOT NULL,
    last_used_at         TIMESTAMPTZ,
    last_rolled_at       TIMESTAMPTZ,
    expires_at           TIMESTAMPTZ
);
CREATE INDEX api_key_of_user ON api_key (user_id, id);

-- A sign-in with a correct password that still needs its second factor. It is not a session and gives no access.
CREATE TABLE challenge (
    secret_hash BYTEA PRIMARY KEY,
    user_id     BIGINT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    tries       BIGINT NOT NULL,
    expires_at  TIMESTAMPTZ NOT NULL
);
CREATE INDEX challenge_by_expiry ON challenge (expires_at);
CREATE INDEX challenge_of_user ON challenge (user_id);

-- Codes that replace the second factor. Each works once.
CREATE TABLE backup_code (
    user_id   BIGINT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    code_hash BYTEA NOT NULL,
    PRIMARY KEY (user_id, code_hash)
);

-- Codes that let an owner sign in when single sign-on fails. Each works once.
CREATE TABLE recovery_code (
    organization_id UUID NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    user_id         BIGINT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    code_hash       BYTEA NOT NULL UNIQUE,
    created_at      TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (organization_id, user_id, code_hash)
);
CREATE INDEX recovery_code_of_user ON recovery_code (user_id);

-- Requests for a password reset link. Whether the account exists is only looked up after the response.
CREATE TABLE password_reset_request (
    id         UUID PRIMARY KEY,
    -- Encrypted, so that the table does not list the addresses people try.
    email      BYTEA NOT NULL,
    request_id TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL
);

CREATE TABLE password_reset (
    secret_hash BYTEA PRIMARY KEY,
    user_id     BIGINT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    expires_at  TIMESTAMPTZ NOT NULL
);
CREATE INDEX password_reset_of_user ON password_reset (user_id);

-- Failed sign-ins by email address, whether it has an account or not: so a lock does not reveal that one exists.
CREATE TABLE sign_in_failure (
    email_hash   BYTEA PRIMARY KEY,
    failures     BIGINT NOT NULL,
    last_at      TIMESTAMPTZ NOT NULL,
    locked_until TIMESTAMPTZ
);
CREATE INDEX sign_in_failure_by_age ON sign_in_failure (last_at);

-- Networks that accounts were signed in from: hashes of account and network together, so that the table does not list who
-- was where.
CREATE TABLE known_network (
    hash    BYTEA PRIMARY KEY,
    last_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX known_network_by_age ON known_network (last_at);

-- Counters of the current hour, so that hourly limits hold across all replicas.
CREATE TABLE hourly_count (
    action    TEXT NOT NULL,
    -- What is limited: a user, an organization, a network or the instance.
    subject   TEXT NOT NULL,
    starts_at TIMESTAMPTZ NOT NULL,
    used      BIGINT NOT NULL,
    PRIMARY KEY (action, subject)
);

-- Sign-ins that were redirected to an identity provider and have not returned. Each can be completed once.
CREATE TABLE sso_request (
    id              TEXT PRIMARY KEY,
    organization_id UUID,
    domain_id       UUID,
    method          TEXT NOT NULL,
    -- Only the browser that was redirected can complete the sign-in.
    browser_hash    BYTEA NOT NULL,
    -- Encrypted.
    details         BYTEA NOT NULL,
    expires_at      TIMESTAMPTZ NOT NULL
);
CREATE INDEX sso_request_by_expiry ON sso_request (expires_at);

-- SAML assertions that were accepted. Each works once, on all replicas and across restarts.
CREATE TABLE sso_assertion (
    domain_id    UUID NOT NULL,
    assertion_id TEXT NOT NULL,
    expires_at   TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (domain_id, assertion_id)
);
CREATE INDEX sso_assertion_by_expiry ON sso_assertion (expires_at);

-- Recent sign-ins through a domain, for troubleshooting.
CREATE TABLE sso_attempt (
    organization_id UUID NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    domain_id       UUID NOT NULL,
    id              UUID NOT NULL,
    method          TEXT NOT NULL,
    email           TEXT NOT NULL,
    -- The rule that refused the sign-in; null: it succeeded.
    rule            TEXT,
    detail          TEXT NOT NULL,
    -- Whether it came with a valid response of the identity provider. Attempts that anybody can cause don't displace these:
    -- each kind has its own limit.
    is_from_idp     BOOLEAN NOT NULL DEFAULT TRUE,
    address         TEXT NOT NULL,
    request_id      TEXT NOT NULL,
    created_at      TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (domain_id, id)
);
