//! Runs are asked for below an export that was found for the caller; workers' statements go over all of them.

mod claims;
mod coverage;
mod read;
mod retention;
mod row;
mod write;

pub(in crate::batch_exports) use claims::{due_organizations, is_due, keep, lock_due, note_cancelled};
pub(in crate::batch_exports) use coverage::{covered_until, first_failed, last_start, overlapping, stretches};
pub(in crate::batch_exports) use read::{any_failed, find, latest, lock, newest, open_of_backfill, page};
pub(in crate::batch_exports) use retention::{delete_old, made_at, old};
pub(in crate::batch_exports) use write::{insert_new, save};
