-- Addresses that are not all ASCII are few, and found without looking at all the others.
CREATE INDEX app_user_beyond_ascii ON app_user (id) WHERE length(CAST(email_key AS BLOB)) <> length(email_key);

-- New domains whose record is still looked for. Those that nobody waits for any more are not walked past.
DROP INDEX domain_awaited;
CREATE INDEX domain_awaited ON domain (created_at, checked_at) WHERE verified_at IS NULL;

-- The order logs are read in: all of an export's, and those of one of its runs.
DROP INDEX export_log_of_export;
CREATE INDEX export_log_of_export ON export_log (batch_export_id, created_at, id);
DROP INDEX export_log_of_run;
CREATE INDEX export_log_of_run ON export_log (run_id, batch_export_id, created_at, id);
