//! A folder on this server, below the one that its operator set aside.

mod folder;

use service::batch_exports::destination::File as Config;

use super::files::Files;
use crate::{Deliver, Error, ExportsDeps, check_prefix};
use folder::Folder;

pub(super) fn open(config: &Config, deps: &ExportsDeps) -> Result<Box<dyn Deliver>, Error> {
    let Some(root) = &deps.export_root else {
        return Err(Error::plain(
            "local folders are disabled on this server; its operator can set HEDGEROW_EXPORT_ROOT to enable them",
        ));
    };
    check_prefix(&config.folder)
        .map_err(|error| Error::plain(error.sentence.replacen("the prefix", "the folder", 1)).in_key("folder"))?;
    Files::open(Folder::new(root, &config.folder), &config.files)
}
