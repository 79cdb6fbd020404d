-- What a key was ever used for: what it may do besides, it does not need.
ALTER TABLE api_key ADD COLUMN used_scopes TEXT NOT NULL DEFAULT '[]';
