-- Mail that is ready to be sent has a position; whatever is taken, put off or given up has none. Resets and the like go before
-- invites, and these before notices. Within a class sources take turns: positions count the turns.
ALTER TABLE mail ADD COLUMN class INTEGER NOT NULL DEFAULT 2;
ALTER TABLE mail ADD COLUMN source TEXT NOT NULL DEFAULT '';   -- an organization, or the recipient where there is none
ALTER TABLE mail ADD COLUMN position INTEGER;
DROP INDEX mail_due;
CREATE INDEX mail_queue ON mail (class, position, id, source) WHERE position IS NOT NULL;
CREATE INDEX mail_of_source ON mail (class, source, position) WHERE position IS NOT NULL;
CREATE INDEX mail_put_off ON mail (next_attempt_at) WHERE position IS NULL;

-- Sign-ins that came with a provider's valid word, and those that anybody can bring about, do not push each other out.
ALTER TABLE sso_attempt ADD COLUMN is_vouched INTEGER NOT NULL DEFAULT 1;

-- Owners and administrators are found without reading all members.
CREATE INDEX member_by_level ON member (organization_id, level);
