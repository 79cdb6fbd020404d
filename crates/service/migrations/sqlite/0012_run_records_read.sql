-- Rows that a run has read and handed to its destination; what the destination acknowledged is records_completed.
ALTER TABLE export_run ADD COLUMN records_read INTEGER;
