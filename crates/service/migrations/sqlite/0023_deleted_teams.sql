-- Teams that were deleted and whose events are still there. Written together with the deletion: that a team is not in its
-- table does not prove that it was deleted, because the table may come from an older backup than the events.
CREATE TABLE deleted_team (
    team_id    INTEGER PRIMARY KEY,
    deleted_at TEXT NOT NULL
) STRICT;
