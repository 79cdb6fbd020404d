-- Whoever creates many organizations has one share of the hourly limits for all of them. No reference: it stays theirs.
ALTER TABLE organization ADD COLUMN founded_by INTEGER;
