-- Whether the secret of a key was told on the word of an organization's identity provider. It never acts as an owner's.
ALTER TABLE api_key ADD COLUMN is_vouched BOOLEAN NOT NULL DEFAULT FALSE;
