-- The team that an entry is about, if it is about one team's things: keys can be limited to teams.
ALTER TABLE activity ADD COLUMN team_id INTEGER;
