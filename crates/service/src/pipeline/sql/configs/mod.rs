//! What a caller asks for names the organization; the workers' statements go over all of them.

mod delivery;
mod read;
mod row;
mod settle;
mod write;

pub(in crate::pipeline) use delivery::{due, hold, keep, lock_jobs_until, save_jobs_until};
pub(in crate::pipeline) use read::{
    any, count, count_of_others, find, lock, lock_organization, page, page_of_enabled, size_of_all,
};
pub(in crate::pipeline) use settle::{
    Configs, concerned, lock_all_of_app, next_with_secrets, of_others, schedule, settle, unschedule,
};
pub(in crate::pipeline) use write::{delete, insert, save, save_values};
