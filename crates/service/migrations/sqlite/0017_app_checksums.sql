-- SHA-256 over all files of a version; null: it was kept before there were checksums.
ALTER TABLE pipeline_version ADD COLUMN sha256 TEXT;
