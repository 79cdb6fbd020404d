//! Google Cloud Storage, by its JSON API: uploads are resumable ones, which appear with their last byte.
//!
//! `object_store` speaks the XML API, which emulators do not; it is used for nothing but signing in.

mod bucket;
mod client;
mod session;

use service::batch_exports::destination::Gcs as Config;

use self::client::Gcs;
use super::files::Files;
use crate::{Deliver, Error, ExportsDeps};

pub(super) fn open(config: &Config, deps: &ExportsDeps) -> Result<Box<dyn Deliver>, Error> {
    Files::open(Gcs::new(config, deps)?, &config.files)
}
