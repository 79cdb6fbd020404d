-- The instance, its users and organizations, and what belongs directly to an organization: teams, members, invites, domains.

-- Data about the whole instance. One row.
CREATE TABLE instance (
    id        SMALLINT PRIMARY KEY,
    -- Distinguishes this database from all others: the event store records which instance it belongs to.
    uuid      UUID,
    -- Identifies the key that secrets are encrypted with, and reveals nothing else about it.
    secret_id BYTEA NOT NULL
);

CREATE TABLE app_user (
    id                      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uuid                    UUID NOT NULL UNIQUE,
    distinct_id             TEXT NOT NULL,
    first_name              TEXT NOT NULL,
    last_name               TEXT NOT NULL,
    email                   TEXT NOT NULL,
    -- The normalized email address, used for comparison.
    email_key               TEXT NOT NULL UNIQUE,
    -- Names and email address in lower case.
    search_text             TEXT NOT NULL,
    is_email_verified       BOOLEAN NOT NULL,
    -- Operators run the instance. The first user is one, and can give the right to others.
    is_operator             BOOLEAN NOT NULL DEFAULT FALSE,
    hedgehog_config         JSONB NOT NULL,
    password_hash           TEXT,
    -- Encrypted.
    totp_secret             BYTEA,
    totp_confirmed_at       TIMESTAMPTZ,
    -- The time step of the last code that was used: each code works only once.
    totp_last_step          BIGINT,
    -- Kept up to date by the triggers on member.
    current_organization_id UUID,
    created_at              TIMESTAMPTZ NOT NULL,
    updated_at              TIMESTAMPTZ NOT NULL
);
-- Finds the few addresses that are not pure ASCII without scanning all users.
CREATE INDEX app_user_beyond_ascii ON app_user (id) WHERE octet_length(email_key) <> length(email_key);
CREATE INDEX app_user_operators ON app_user (id) WHERE is_operator;

CREATE TABLE organization (
    id                           UUID PRIMARY KEY,
    name                         TEXT NOT NULL,
    slug                         TEXT NOT NULL UNIQUE,
    plugins_access_level         SMALLINT NOT NULL,
    is_member_join_email_enabled BOOLEAN NOT NULL,
    enforce_2fa                  BOOLEAN NOT NULL,
    metadata                     TEXT NOT NULL,
    customer_id                  TEXT,
    -- Kept up to date by the triggers on member.
    member_count                 BIGINT NOT NULL DEFAULT 0,
    -- The user who created it: all organizations of one creator share the hourly limits. No foreign key, so that this
    -- still holds after the user is deleted. None if an operator of the instance did: those create them for others.
    created_by                   BIGINT,
    created_at                   TIMESTAMPTZ NOT NULL,
    updated_at                   TIMESTAMPTZ NOT NULL
);

CREATE INDEX organization_by_creator ON organization (created_by) WHERE created_by IS NOT NULL;

CREATE TABLE team (
    id              BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uuid            UUID NOT NULL,
    organization_id UUID NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    name            TEXT NOT NULL,
    api_token       TEXT NOT NULL UNIQUE,
    timezone        TEXT NOT NULL,
    created_at      TIMESTAMPTZ NOT NULL,
    updated_at      TIMESTAMPTZ NOT NULL
);
CREATE INDEX team_by_organization ON team (organization_id, id);

-- Deleted teams whose events have not been removed yet. Written in the same transaction as the deletion: a team that is
-- missing from its table was not necessarily deleted, because the table may come from an older backup than the events.
CREATE TABLE deleted_team (
    team_id    BIGINT PRIMARY KEY,
    deleted_at TIMESTAMPTZ NOT NULL
);

CREATE TABLE member (
    id              UUID NOT NULL,
    organization_id UUID NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    user_id         BIGINT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    level           SMALLINT NOT NULL,
    joined_at       TIMESTAMPTZ NOT NULL,
    updated_at      TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (organization_id, user_id)
);
-- The order members are listed in.
CREATE UNIQUE INDEX member_newest ON member (organization_id, id);
-- The order a user's organizations are listed in.
CREATE INDEX member_of_user ON member (user_id, organization_id);
-- Finds owners and administrators without reading all members.
CREATE INDEX member_by_level ON member (organization_id, level);

-- How many organizations a user belongs to: the sum of the shards, so that concurrent joins don't wait for one row.
CREATE TABLE user_organizations (
    user_id BIGINT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    shard   SMALLINT NOT NULL,
    count   BIGINT NOT NULL,
    PRIMARY KEY (user_id, shard)
);

-- Triggers maintain the counts and the current organization, so that no code path can forget them.
CREATE FUNCTION organization_shard(organization UUID) RETURNS SMALLINT LANGUAGE sql IMMUTABLE AS
    'SELECT (get_byte(uuid_send($1), 15) & 31)::smallint';

CREATE FUNCTION member_joined() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE organization SET member_count = member_count + 1 WHERE id = NEW.organization_id;
    INSERT INTO user_organizations (user_id, shard, count)
        VALUES (NEW.user_id, organization_shard(NEW.organization_id), 1)
        ON CONFLICT (user_id, shard) DO UPDATE SET count = user_organizations.count + 1;
    UPDATE app_user SET current_organization_id = NEW.organization_id
        WHERE id = NEW.user_id AND current_organization_id IS NULL;
    RETURN NULL;
END $$;
CREATE TRIGGER member_joined AFTER INSERT ON member FOR EACH ROW EXECUTE FUNCTION member_joined();

-- Locks the user first. Otherwise somebody who leaves two organizations at the same time, or leaves one while the other
-- is deleted, could end up in one that no longer exists. The second transaction waits for the first and then sees what
-- it committed, because each statement of a function takes a new snapshot.
CREATE FUNCTION member_left() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM app_user WHERE id = OLD.user_id FOR NO KEY UPDATE;
    UPDATE organization SET member_count = member_count - 1 WHERE id = OLD.organization_id;
    UPDATE user_organizations SET count = count - 1
        WHERE user_id = OLD.user_id AND shard = organization_shard(OLD.organization_id);
    -- A user who leaves their current organization is moved to the newest of the others.
    UPDATE app_user SET current_organization_id =
        (SELECT m.organization_id FROM member m WHERE m.user_id = OLD.user_id ORDER BY m.organization_id DESC LIMIT 1)
        WHERE id = OLD.user_id AND current_organization_id = OLD.organization_id;
    RETURN NULL;
END $$;
CREATE TRIGGER member_left AFTER DELETE ON member FOR EACH ROW EXECUTE FUNCTION member_left();

CREATE TABLE invite (
    id                    UUID NOT NULL,
    organization_id       UUID NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    target_email          TEXT NOT NULL,
    first_name            TEXT NOT NULL,
    level                 SMALLINT NOT NULL,
    message               TEXT NOT NULL,
    -- Hash of the token in the link that the inviter sees.
    secret_hash           BYTEA NOT NULL UNIQUE,
    -- Hash of the token in the link that only the email contains: it proves access to the mailbox.
    mail_hash             BYTEA UNIQUE,
    emailing_attempt_made BOOLEAN NOT NULL,
    created_by            BIGINT REFERENCES app_user (id) ON DELETE SET NULL,
    -- Who resent it last: resending creates a new link, which only they have seen.
    sent_by               BIGINT REFERENCES app_user (id) ON DELETE SET NULL,
    -- While one request creates the account, others are refused before they hash a password.
    claimed_until         TIMESTAMPTZ,
    created_at            TIMESTAMPTZ NOT NULL,
    updated_at            TIMESTAMPTZ NOT NULL,
    expires_at            TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, target_email)
);
CREATE UNIQUE INDEX invite_by_id ON invite (id);
CREATE INDEX invite_by_sender ON invite (created_by);
CREATE INDEX invite_by_last_sender ON invite (sent_by);

CREATE TABLE domain (
    id                       UUID NOT NULL,
    organization_id          UUID NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    domain                   TEXT NOT NULL,
    verification_challenge   TEXT NOT NULL,
    verified_at              TIMESTAMPTZ,
    -- When the DNS record was last checked.
    checked_at               TIMESTAMPTZ,
    -- Since when the DNS record of a verified domain has been missing.
    lost_at                  TIMESTAMPTZ,
    verification_error       JSONB,
    jit_provisioning_enabled BOOLEAN NOT NULL,
    sso_enforcement          TEXT NOT NULL,
    saml_entity_id           TEXT NOT NULL,
    saml_acs_url             TEXT NOT NULL,
    saml_x509_cert           TEXT NOT NULL,
    -- Where the three columns above were imported from; empty if they were entered by hand.
    saml_metadata_url        TEXT NOT NULL,
    saml_idp_initiated       BOOLEAN NOT NULL,
    oidc_issuer              TEXT NOT NULL,
    oidc_client_id           TEXT NOT NULL,
    -- Encrypted.
    oidc_client_secret       BYTEA,
    created_at               TIMESTAMPTZ NOT NULL,
    updated_at               TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, domain)
);
-- Only one organization can verify a domain. An unverified claim blocks nobody.
CREATE UNIQUE INDEX domain_verified ON domain (domain) WHERE verified_at IS NOT NULL;
CREATE UNIQUE INDEX domain_by_id ON domain (id);
CREATE INDEX domain_to_recheck ON domain (checked_at) WHERE verified_at IS NOT NULL;
-- New domains whose DNS record is still checked, without reading past those that are too old for it.
CREATE INDEX domain_unverified ON domain (created_at, checked_at) WHERE verified_at IS NULL;
