-- Domains whose record is still looked for: the one that has waited longest comes next.
CREATE INDEX domain_awaited ON domain (checked_at) WHERE verified_at IS NULL;
