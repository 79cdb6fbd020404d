CREATE TABLE app_user (
    id                      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uuid                    UUID NOT NULL UNIQUE,
    distinct_id             TEXT NOT NULL,
    first_name              TEXT NOT NULL,
    last_name               TEXT NOT NULL,
    email                   TEXT NOT NULL,
    email_key               TEXT NOT NULL UNIQUE,      -- the address as it is compared
    search_text             TEXT NOT NULL,             -- names and address in lower case
    is_email_verified       BOOLEAN NOT NULL,
    hedgehog_config         JSONB NOT NULL,
    password_hash           TEXT,
    totp_confirmed_at       TIMESTAMPTZ,
    current_organization_id UUID,
    created_at              TIMESTAMPTZ NOT NULL,
    updated_at              TIMESTAMPTZ NOT NULL
);

CREATE TABLE user_identity (
    id         UUID PRIMARY KEY,
    user_id    BIGINT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    provider   TEXT NOT NULL,
    subject    TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    UNIQUE (provider, subject)
);
CREATE INDEX user_identity_by_user ON user_identity (user_id);

CREATE TABLE organization (
    id                           UUID PRIMARY KEY,
    name                         TEXT NOT NULL,
    slug                         TEXT NOT NULL UNIQUE,
    plugins_access_level         SMALLINT NOT NULL,
    is_member_join_email_enabled BOOLEAN NOT NULL,
    enforce_2fa                  BOOLEAN NOT NULL,
    metadata                     TEXT NOT NULL,
    customer_id                  TEXT,
    member_count                 BIGINT NOT NULL DEFAULT 0,
    created_at                   TIMESTAMPTZ NOT NULL,
    updated_at                   TIMESTAMPTZ NOT NULL
);

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

CREATE TABLE member (
    id              UUID NOT NULL,
    organization_id UUID NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    user_id         BIGINT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    level           SMALLINT NOT NULL,
    joined_at       TIMESTAMPTZ NOT NULL,
    updated_at      TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (organization_id, user_id)
);
CREATE UNIQUE INDEX member_newest ON member (organization_id, id);           -- the order members are listed in
CREATE INDEX member_of_user ON member (user_id, organization_id);      -- the order organizations are listed in

CREATE TABLE api_key (
    id                   UUID PRIMARY KEY,
    user_id              BIGINT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    label                TEXT NOT NULL,
    mask_value           TEXT NOT NULL,
    secret_hash          BYTEA NOT NULL UNIQUE,
    scopes               JSONB NOT NULL,
    scoped_organizations JSONB NOT NULL,
    scoped_teams         JSONB NOT NULL,
    created_at           TIMESTAMPTZ NOT NULL,
    updated_at           TIMESTAMPTZ NOT NULL,
    last_used_at         TIMESTAMPTZ,
    last_rolled_at       TIMESTAMPTZ,
    expires_at           TIMESTAMPTZ
);
CREATE INDEX api_key_of_user ON api_key (user_id, id);

-- No foreign keys: what happened stays known after the things it happened to are gone.
-- Ids are time-ordered, so the key is the order it is read in. What concerns no organization has the nil id.
CREATE TABLE activity (
    organization_id UUID NOT NULL,
    id              UUID NOT NULL,
    user_id         BIGINT,
    key_id          UUID,
    scope           TEXT NOT NULL,
    item_id         TEXT NOT NULL,
    activity        TEXT NOT NULL,
    name            TEXT NOT NULL,
    changes         JSONB NOT NULL,
    request_id      TEXT NOT NULL,
    created_at      TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (organization_id, id)
);
CREATE INDEX activity_of_item ON activity (organization_id, item_id, id);

CREATE TABLE idempotency (
    user_id     BIGINT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    route       TEXT NOT NULL,
    token       TEXT NOT NULL,
    body_hash   BYTEA NOT NULL,
    state       TEXT NOT NULL,          -- running, committed, answered
    status      SMALLINT,
    headers     JSONB,
    body        BYTEA,
    created_at  TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (user_id, route, token)
);
CREATE INDEX idempotency_by_age ON idempotency (created_at);

CREATE TABLE session (
    id           UUID PRIMARY KEY,
    user_id      BIGINT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    secret_hash  BYTEA NOT NULL UNIQUE,
    created_at   TIMESTAMPTZ NOT NULL,
    last_used_at TIMESTAMPTZ NOT NULL,
    expires_at   TIMESTAMPTZ NOT NULL
);
CREATE INDEX session_of_user ON session (user_id);
CREATE INDEX session_by_expiry ON session (expires_at);

-- How many organizations a user belongs to: the sum of the shards, so that many joins at once need not
-- queue for one row.
CREATE TABLE user_organizations (
    user_id BIGINT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    shard   SMALLINT NOT NULL,
    count   BIGINT NOT NULL,
    PRIMARY KEY (user_id, shard)
);

-- The counts are kept by the database itself: no way into or out of an organization can forget them.
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

CREATE FUNCTION member_left() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE organization SET member_count = member_count - 1 WHERE id = OLD.organization_id;
    UPDATE user_organizations SET count = count - 1
        WHERE user_id = OLD.user_id AND shard = organization_shard(OLD.organization_id);
    -- Whoever has left their current organization is moved to the newest of the others.
    UPDATE app_user SET current_organization_id =
        (SELECT m.organization_id FROM member m WHERE m.user_id = OLD.user_id ORDER BY m.organization_id DESC LIMIT 1)
        WHERE id = OLD.user_id AND current_organization_id = OLD.organization_id;
    RETURN NULL;
END $$;
CREATE TRIGGER member_left AFTER DELETE ON member FOR EACH ROW EXECUTE FUNCTION member_left();
