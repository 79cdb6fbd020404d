-- Who runs the instance: the first user does, and gives the right to others.
ALTER TABLE app_user ADD COLUMN is_operator INTEGER NOT NULL DEFAULT 0;
UPDATE app_user SET is_operator = 1 WHERE id = (SELECT min(id) FROM app_user);
CREATE INDEX app_user_operators ON app_user (id) WHERE is_operator = 1;
