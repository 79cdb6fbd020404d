//! How servers are called.

pub(super) const FLOOR: &str = "bare handler";
pub(super) const SQLITE: &str = "Hedgerow, SQLite";
pub(super) const POSTGRES: &str = "Hedgerow, PostgreSQL";
pub(super) const DJANGO: &str = "Django REST framework";
pub(super) const BETTER_AUTH: &str = "better-auth";
pub(super) const POCKETBASE: &str = "PocketBase";

/// What `--only` calls a peer, its folder in `bench/peers`, and its name in the report.
pub(super) const PEERS: [(&str, &str); 3] = [
    ("pocketbase", POCKETBASE),
    ("django", DJANGO),
    ("better-auth", BETTER_AUTH),
];
