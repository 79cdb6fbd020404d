-- When the attempt under way began, or the last one: how fast it goes is counted from there.
ALTER TABLE export_run ADD COLUMN started_at TEXT;
