-- Whoever leaves two organizations at once, or leaves one while the other is deleted, must not end up in one that is gone: the
-- second waits for the first, and then sees what that has left. Statements of a function see what others committed before each.
CREATE OR REPLACE FUNCTION member_left() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM app_user WHERE id = OLD.user_id FOR NO KEY UPDATE;
    UPDATE organization SET member_count = member_count - 1 WHERE id = OLD.organization_id;
    UPDATE user_organizations SET count = count - 1
        WHERE user_id = OLD.user_id AND shard = organization_shard(OLD.organization_id);
    -- Whoever has left their current organization is moved to the newest of the others.
    UPDATE app_user SET current_organization_id =
        (SELECT m.organization_id FROM member m WHERE m.user_id = OLD.user_id ORDER BY m.organization_id DESC LIMIT 1)
        WHERE id = OLD.user_id AND current_organization_id = OLD.organization_id;
    RETURN NULL;
END $$;

UPDATE app_user SET current_organization_id =
    (SELECT m.organization_id FROM member m WHERE m.user_id = app_user.id ORDER BY m.organization_id DESC LIMIT 1)
    WHERE current_organization_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM member m
        WHERE m.user_id = app_user.id AND m.organization_id = app_user.current_organization_id);
