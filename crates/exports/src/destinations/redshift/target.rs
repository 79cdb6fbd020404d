//! Where rows go, and by which way.

use std::sync::Arc;

use service::batch_exports::destination::PropertiesType;

use super::files::Files;
use super::insert::Block;
use super::source::Source;
use super::upload::{LoadMethod, Rows};
use crate::destinations::files::Bucket;
use crate::destinations::sql::{Endpoint, Session, Table};
use crate::{Delivery, ExportsDeps};

pub(super) struct Target {
    pub(super) place: Endpoint,
    pub(super) deps: ExportsDeps,
    pub(super) table: Table,
    /// What JSON is kept as in tables that we make.
    pub(super) json: PropertiesType,
    /// The bucket through which rows go; none: they are inserted.
    pub(super) copy: Option<(Arc<dyn Bucket>, Source)>,
}

impl Target {
    /// An attempt at a delivery.
    pub(super) fn attempt(&self, session: Session, delivery: &Delivery) -> Rows {
        let method = match &self.copy {
            Some((bucket, source)) => LoadMethod::Copy(Box::new(Files::new(bucket.clone(), source.clone(), delivery))),
            None => LoadMethod::Insert(Block::default()),
        };
        Rows::new(session, &self.table, self.json, method, delivery)
    }
}
