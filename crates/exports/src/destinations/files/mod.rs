//! What all destinations that hold files share: names, the delivery itself, manifests, and object stores.
//!
//! Files are sent as they are made but appear only with the commit, and the manifest last of all: an interval that has
//! a manifest is complete, and one that has none is delivered again, under the same names.

mod answer;
mod bucket;
mod connection_test;
mod connector;
mod names;
mod objects;
mod upload;

use std::sync::Arc;

use async_trait::async_trait;
use hogql::{Model, Query};
use service::batch_exports::destination::FileOptions;

use crate::formats::{Format, Packer};
use crate::manifest::EarlierManifest;
use crate::{Deliver, Delivery, Error, Step, Upload, layout};

pub(super) use answer::Words;
pub(super) use bucket::{Bucket, Keys, Unfinished};
pub(super) use connector::{Guarded, answer};
pub use names::check_prefix;
pub(super) use objects::{Objects, few_retries};

use names::Names;
use upload::Sending;

/// A destination that holds files, wherever they are.
pub(super) struct Files {
    bucket: Arc<dyn Bucket>,
    options: FileOptions,
}

impl Files {
    pub(super) fn open(bucket: impl Bucket + 'static, options: &FileOptions) -> Result<Box<dyn Deliver>, Error> {
        check_prefix(&options.prefix)?;
        Ok(Box::new(Self {
            bucket: Arc::new(bucket),
            options: options.clone(),
        }))
    }

    /// The files that an earlier attempt left as complete. Another's manifest is not to be touched.
    async fn earlier(&self, delivery: &Delivery, names: &Names) -> Result<Option<Vec<String>>, Error> {
        let Some(text) = self.bucket.read(&names.manifest()).await? else {
            return Ok(None);
        };
        match serde_json::from_slice::<EarlierManifest>(&text) {
            Ok(earlier) if earlier.hedgerow.export == delivery.export.0 => {
                let mut keys = Keys::default();
                keys.add(earlier.files.into_iter().filter(|key| names.is_beside(key)))?;
                Ok(Some(keys.all()))
            }
            _ => Err(Error::plain(
                "another export already delivered this interval to the same location; use a different prefix for each export, \
                 or delete the other's files and their manifest",
            )),
        }
    }
}

#[async_trait]
impl Deliver for Files {
    fn layout(&self, model: Model) -> Query {
        layout::files(model)
    }

    async fn begin(&self, delivery: &Delivery) -> Result<Option<Box<dyn Upload>>, Error> {
        let names = Names::new(&self.options, delivery)?;
        let earlier = self.earlier(delivery, &names).await?;
        if earlier.is_some() && !delivery.is_resend {
            return Ok(None);
        }
        self.bucket.sweep(names.beginning()).await?;
        let notes = [
            ("hedgerow.export", delivery.export.0.to_string()),
            ("hedgerow.model", delivery.model.name().to_owned()),
            ("hedgerow.interval_start", names::iso(delivery.start)),
            ("hedgerow.interval_end", names::iso(delivery.end)),
        ];
        let packer = Packer::new(Format::of(&self.options), delivery.schema.clone(), &notes)?;
        let sending = Sending::new(self.bucket.clone(), names, packer, delivery, earlier);
        Ok(Some(Box::new(sending)))
    }

    async fn test(&self) -> Vec<Step> {
        connection_test::steps(&*self.bucket, &self.options.prefix).await
    }
}
