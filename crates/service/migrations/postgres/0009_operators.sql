-- Who runs the instance: the first user does, and gives the right to others.
ALTER TABLE app_user ADD COLUMN is_operator BOOLEAN NOT NULL DEFAULT FALSE;
UPDATE app_user SET is_operator = TRUE WHERE id = (SELECT min(id) FROM app_user);
CREATE INDEX app_user_operators ON app_user (id) WHERE is_operator;
