-- Addresses that are not all ASCII are few, and found without looking at all the others.
CREATE INDEX app_user_beyond_ascii ON app_user (id) WHERE octet_length(email_key) <> length(email_key);
