-- SQLite has one writer at a time, so nobody leaves two organizations at once. What earlier versions left behind is put right.
UPDATE app_user SET current_organization_id =
    (SELECT m.organization_id FROM member m WHERE m.user_id = app_user.id ORDER BY m.organization_id DESC LIMIT 1)
    WHERE current_organization_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM member m
        WHERE m.user_id = app_user.id AND m.organization_id = app_user.current_organization_id);
