CREATE TABLE app_user (
    id                      INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid                    BLOB NOT NULL UNIQUE,
    distinct_id             TEXT NOT NULL,
    first_name              TEXT NOT NULL,
    last_name               TEXT NOT NULL,
    email                   TEXT NOT NULL,
    email_key               TEXT NOT NULL UNIQUE,      -- the address as it is compared
    search_text             TEXT NOT NULL,             -- names and address in lower case
    is_email_verified       INTEGER NOT NULL,
    hedgehog_config         TEXT NOT NULL,
    password_hash           TEXT,
    totp_confirmed_at       TEXT,
    current_organization_id BLOB,
    created_at              TEXT NOT NULL,
    updated_at              TEXT NOT NULL
) STRICT;

CREATE TABLE user_identity (
    id         BLOB PRIMARY KEY,
    user_id    INTEGER NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    provider   TEXT NOT NULL,
    subject    TEXT NOT NULL,
    created_at TEXT NOT NULL,
    UNIQUE (provider, subject)
) STRICT;
CREATE INDEX user_identity_by_user ON user_identity (user_id);

CREATE TABLE organization (
    id                           BLOB PRIMARY KEY,
    name                         TEXT NOT NULL,
    slug                         TEXT NOT NULL UNIQUE,
    plugins_access_level         INTEGER NOT NULL,
    is_member_join_email_enabled INTEGER NOT NULL,
    enforce_2fa                  INTEGER NOT NULL,
    metadata                     TEXT NOT NULL,
    customer_id                  TEXT,
    member_count                 INTEGER NOT NULL DEFAULT 0,
    created_at                   TEXT NOT NULL,
    updated_at                   TEXT NOT NULL
) STRICT;

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

CREATE TABLE member (
    id              BLOB NOT NULL,
    organization_id BLOB NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    user_id         INTEGER NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    level           INTEGER NOT NULL,
    joined_at       TEXT NOT NULL,
    updated_at      TEXT NOT NULL,
    PRIMARY KEY (organization_id, user_id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX member_newest ON member (organization_id, id);           -- the order members are listed in
CREATE INDEX member_of_user ON member (user_id, organization_id);      -- the order organizations are listed in

CREATE TABLE api_key (
    id                   BLOB PRIMARY KEY,
    user_id              INTEGER NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    label                TEXT NOT NULL,
    mask_value           TEXT NOT NULL,
    secret_hash          BLOB NOT NULL UNIQUE,
    scopes               TEXT NOT NULL,
    scoped_organizations TEXT NOT NULL,
    scoped_teams         TEXT NOT NULL,
    created_at           TEXT NOT NULL,
    updated_at           TEXT NOT NULL,
    last_used_at         TEXT,
    last_rolled_at       TEXT,
    expires_at           TEXT
) STRICT;
CREATE INDEX api_key_of_user ON api_key (user_id, id);

-- No foreign keys: what happened stays known after the things it happened to are gone.
-- Ids are time-ordered, so the key is the order it is read in. What concerns no organization has the nil id.
CREATE TABLE activity (
    organization_id BLOB NOT NULL,
    id              BLOB NOT NULL,
    user_id         INTEGER,
    key_id          BLOB,
    scope           TEXT NOT NULL,
    item_id         TEXT NOT NULL,
    activity        TEXT NOT NULL,
    name            TEXT NOT NULL,
    changes         TEXT NOT NULL,
    request_id      TEXT NOT NULL,
    created_at      TEXT NOT NULL,
    PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX activity_of_item ON activity (organization_id, item_id, id);

CREATE TABLE idempotency (
    user_id     INTEGER NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    route       TEXT NOT NULL,
    token       TEXT NOT NULL,
    body_hash   BLOB NOT NULL,
    state       TEXT NOT NULL,          -- running, committed, answered
    status      INTEGER,
    headers     TEXT,
    body        BLOB,
    created_at  TEXT NOT NULL,
    PRIMARY KEY (user_id, route, token)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_by_age ON idempotency (created_at);

CREATE TABLE session (
    id           BLOB PRIMARY KEY,
    user_id      INTEGER NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    secret_hash  BLOB NOT NULL UNIQUE,
    created_at   TEXT NOT NULL,
    last_used_at TEXT NOT NULL,
    expires_at   TEXT NOT NULL
) STRICT;
CREATE INDEX session_of_user ON session (user_id);
CREATE INDEX session_by_expiry ON session (expires_at);

-- How many organizations a user belongs to. One writer at a time needs one shard only.
CREATE TABLE user_organizations (
    user_id INTEGER NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    shard   INTEGER NOT NULL,
    count   INTEGER NOT NULL,
    PRIMARY KEY (user_id, shard)
) STRICT, WITHOUT ROWID;

-- The counts are kept by the database itself: no way into or out of an organization can forget them.
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
    -- Whoever has left their current organization is moved to the newest of the others.
    UPDATE app_user SET current_organization_id =
        (SELECT m.organization_id FROM member m WHERE m.user_id = OLD.user_id ORDER BY m.organization_id DESC LIMIT 1)
        WHERE id = OLD.user_id AND current_organization_id = OLD.organization_id;
END;
