-- The instance, its users and organizations, and what belongs directly to an organization: teams, members, invites, domains.

-- Data about the whole instance. One row.
CREATE TABLE instance (
    id        INTEGER PRIMARY KEY,
    -- Distinguishes this database from all others: the event store records which instance it belongs to.
    uuid      BLOB,
    -- Identifies the key that secrets are encrypted with, and reveals nothing else about it.
    secret_id BLOB NOT NULL
) STRICT;

CREATE TABLE app_user (
    id                      INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid                    BLOB NOT NULL UNIQUE,
    distinct_id             TEXT NOT NULL,
    first_name              TEXT NOT NULL,
    last_name               TEXT NOT NULL,
    email                   TEXT NOT NULL,
    -- The normalized email address, used for comparison.
    email_key               TEXT NOT NULL UNIQUE,
    -- Names and email address in lower case.
    search_text             TEXT NOT NULL,
    is_email_verified       INTEGER NOT NULL,
    -- Operators run the instance. The first user is one, and can give the right to others.
    is_operator             INTEGER NOT NULL DEFAULT 0,
    hedgehog_config         TEXT NOT NULL,
    password_hash           TEXT,
    -- Encrypted.
    totp_secret             BLOB,
    totp_confirmed_at       TEXT,
    -- The time step of the last code that was used: each code works only once.
    totp_last_step          INTEGER,
    -- Kept up to date by the triggers on member.
    current_organization_id BLOB,
    created_at              TEXT NOT NULL,
    updated_at              TEXT NOT NULL
) STRICT;
-- Finds the few addresses that are not pure ASCII without scanning all users.
CREATE INDEX app_user_beyond_ascii ON app_user (id) WHERE length(CAST(email_key AS BLOB)) <> length(email_key);
CREATE INDEX app_user_operators ON app_user (id) WHERE is_operator = 1;

CREATE TABLE organization (
    id                           BLOB PRIMARY KEY,
    name                         TEXT NOT NULL,
    slug                         TEXT NOT NULL UNIQUE,
    plugins_access_level         INTEGER NOT NULL,
    is_member_join_email_enabled INTEGER NOT NULL,
    enforce_2fa                  INTEGER NOT NULL,
    metadata                     TEXT NOT NULL,
    customer_id                  TEXT,
    -- Kept up to date by the triggers on member.
    member_count                 INTEGER NOT NULL DEFAULT 0,
    -- The user who created it: all organizations of one creator share the hourly limits. No foreign key, so that this
    -- still holds after the user is deleted. None if an operator of the instance did: those create them for others.
    created_by                   INTEGER,
    created_at                   TEXT NOT NULL,
    updated_at                   TEXT NOT NULL
) STRICT;

CREATE INDEX organization_by_creator ON organization (created_by) WHERE created_by IS NOT NULL;

CREATE TABLE team (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid            BLOB NOT NULL,
    organization_id BLOB NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    name            TEXT NOT NULL,
    api_token       TEXT NOT NULL UNIQUE,
    timezone        TEXT NOT NULL,
    created_at      TEXT NOT NULL,
    updated_at      TEXT NOT NULL
) STRICT;
CREATE INDEX team_by_organization ON team (organization_id, id);

-- Deleted teams whose events have not been removed yet. Written in the same transaction as the deletion: a team that is
-- missing from its table was not necessarily deleted, because the table may come from an older backup than the events.
CREATE TABLE deleted_team (
    team_id    INTEGER PRIMARY KEY,
    deleted_at TEXT NOT NULL
) STRICT;

CREATE TABLE member (
    id              BLOB NOT NULL,
    organization_id BLOB NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    user_id         INTEGER NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    level           INTEGER NOT NULL,
    joined_at       TEXT NOT NULL,
    updated_at      TEXT NOT NULL,
    PRIMARY KEY (organization_id, user_id)
) STRICT, WITHOUT ROWID;
-- The order members are listed in.
CREATE UNIQUE INDEX member_newest ON member (organization_id, id);
-- The order a user's organizations are listed in.
CREATE INDEX member_of_user ON member (user_id, organization_id);
-- Finds owners and administrators without reading all members.
CREATE INDEX member_by_level ON member (organization_id, level);

-- How many organizations a user belongs to. SQLite has one writer at a time, so the shard is always 0.
CREATE TABLE user_organizations (
    user_id INTEGER NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    shard   INTEGER NOT NULL,
    count   INTEGER NOT NULL,
    PRIMARY KEY (user_id, shard)
) STRICT, WITHOUT ROWID;

-- Triggers maintain the counts and the current organization, so that no code path can forget them.
CREATE TRIGGER member_joined AFTER INSERT ON member FOR EACH ROW BEGIN
    UPDATE organization SET member_count = member_count + 1 WHERE id = NEW.organization_id;
    INSERT INTO user_organizations (user_id, shard, count) VALUES (NEW.user_id, 0, 1)
        ON CONFLICT (user_id, shard) DO UPDATE SET count = user_organizations.count + 1;
    UPDATE app_user SET current_organization_id = NEW.organization_id
        WHERE id = NEW.user_id AND current_organization_id IS NULL;
END;

CREATE TRIGGER member_left AFTER DELETE ON member FOR EACH ROW BEGIN
    UPDATE organization SET member_count = member_count - 1 WHERE id = OLD.organization_id;
    UPDATE user_organizations SET count = count - 1 WHERE user_id = OLD.user_id AND shard = 0;
    -- A user who leaves their current organization is moved to the newest of the others.
    UPDATE app_user SET current_organization_id =
        (SELECT m.organization_id FROM member m WHERE m.user_id = OLD.user_id ORDER BY m.organization_id DESC LIMIT 1)
        WHERE id = OLD.user_id AND current_organization_id = OLD.organization_id;
END;

CREATE TABLE invite (
    id                    BLOB NOT NULL,
    organization_id       BLOB NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    target_email          TEXT NOT NULL,
    first_name            TEXT NOT NULL,
    level                 INTEGER NOT NULL,
    message               TEXT NOT NULL,
    -- Hash of the token in the link that the inviter sees.
    secret_hash           BLOB NOT NULL UNIQUE,
    -- Hash of the token in the link that only the email contains: it proves access to the mailbox.
    mail_hash             BLOB UNIQUE,
    emailing_attempt_made INTEGER NOT NULL,
    created_by            INTEGER REFERENCES app_user (id) ON DELETE SET NULL,
    -- Who resent it last: resending creates a new link, which only they have seen.
    sent_by               INTEGER REFERENCES app_user (id) ON DELETE SET NULL,
    -- While one request creates the account, others are refused before they hash a password.
    claimed_until         TEXT,
    created_at            TEXT NOT NULL,
    updated_at            TEXT NOT NULL,
    expires_at            TEXT NOT NULL,
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, target_email)
) STRICT;
CREATE UNIQUE INDEX invite_by_id ON invite (id);
CREATE INDEX invite_by_sender ON invite (created_by);
CREATE INDEX invite_by_last_sender ON invite (sent_by);

CREATE TABLE domain (
    id                       BLOB NOT NULL,
    organization_id          BLOB NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    domain                   TEXT NOT NULL,
    verification_challenge   TEXT NOT NULL,
    verified_at              TEXT,
    -- When the DNS record was last checked.
    checked_at               TEXT,
    -- Since when the DNS record of a verified domain has been missing.
    lost_at                  TEXT,
    verification_error       TEXT,
    jit_provisioning_enabled INTEGER NOT NULL,
    sso_enforcement          TEXT NOT NULL,
    saml_entity_id           TEXT NOT NULL,
    saml_acs_url             TEXT NOT NULL,
    saml_x509_cert           TEXT NOT NULL,
    -- Where the three columns above were imported from; empty if they were entered by hand.
    saml_metadata_url        TEXT NOT NULL,
    saml_idp_initiated       INTEGER NOT NULL,
    oidc_issuer              TEXT NOT NULL,
    oidc_client_id           TEXT NOT NULL,
    -- Encrypted.
    oidc_client_secret       BLOB,
    created_at               TEXT NOT NULL,
    updated_at               TEXT NOT NULL,
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, domain)
) STRICT;
-- Only one organization can verify a domain. An unverified claim blocks nobody.
CREATE UNIQUE INDEX domain_verified ON domain (domain) WHERE verified_at IS NOT NULL;
CREATE UNIQUE INDEX domain_by_id ON domain (id);
CREATE INDEX domain_to_recheck ON domain (checked_at) WHERE verified_at IS NOT NULL;
-- New domains whose DNS record is still checked, without reading past those that are too old for it.
CREATE INDEX domain_unverified ON domain (created_at, checked_at) WHERE verified_at IS NULL;
