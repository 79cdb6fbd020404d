-- Tells this database from all others: the store of events remembers whose it is.
ALTER TABLE instance ADD COLUMN uuid BLOB;
