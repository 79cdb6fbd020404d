//! Backups: one folder with the database, the events beside it, and a manifest that tells whether they are whole and belong
//! together. The secret key is not in it, only what it is recognized by.

mod files;
mod make;
mod manifest;
mod postgres;
mod restore;

pub(crate) use self::make::Backup;
pub(crate) use self::restore::Restore;
