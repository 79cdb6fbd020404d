//! What a destination does. Each kind has a folder of its own below `destinations`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use hogql::{Model, Query};
use outbound::{Dialer, Http, Roots};
use serde::Serialize;
use service::{ExportId, OrganizationId, RunId, Time};

use crate::Error;

/// Of a response to a test: most say whether something is there.
const MAX_OF_TEST: usize = 1024 * 1024;

/// The ways out that destinations may take.
#[derive(Debug, Clone)]
pub struct ExportsDeps {
    pub http: Http,
    pub dialer: Dialer,
    pub roots: Roots,
    /// The folder below which files may be written; none: the operator allows no files.
    pub export_root: Option<PathBuf>,
}

impl ExportsDeps {
    /// The same for one organization: its files are in a folder of its own, and its look-ups of names count together.
    #[must_use]
    pub fn of(&self, organization: OrganizationId) -> Self {
        let export_root = self.export_root.as_ref();
        Self {
            export_root: export_root.map(|root| root.join(organization.to_string())),
            dialer: self.dialer.of(organization.0.as_u128()),
            http: self.http.clone().of(organization.0.as_u128()),
            ..self.clone()
        }
    }

    /// The same for a test: whoever tests one server after the other must not be able to keep connections to all of them, nor long answers
    /// of many servers.
    #[must_use]
    pub fn of_test(&self, organization: OrganizationId) -> Self {
        Self {
            http: self
                .http
                .clone()
                .of_programs(organization.0.as_u128())
                .never_more_than(MAX_OF_TEST),
            ..self.of(organization)
        }
    }
}

/// One interval of one export, on its way.
#[derive(Debug, Clone)]
pub struct Delivery {
    pub export: ExportId,
    pub run: RunId,
    pub team: i64,
    pub model: Model,
    /// `[start, end)`, by ingestion time.
    pub start: Time,
    pub end: Time,
    /// What every batch looks like.
    pub schema: SchemaRef,
    /// The columns are those of the export's own query rather than of [`Deliver::layout`].
    pub is_custom: bool,
    /// The interval was delivered before and is asked for again: what is there is replaced.
    pub is_resend: bool,
    /// How many of the first rows are at the destination already, and are not written again.
    pub resumed_after: Receipt,
    /// What is at the destination before the commit; only those write it whose rows cannot be taken back.
    pub acknowledged: Acknowledged,
}

/// What a destination has acknowledged so far, for good. Every clone counts the same.
#[derive(Debug, Clone, Default)]
pub struct Acknowledged(Arc<(AtomicU64, AtomicU64)>);

impl Acknowledged {
    pub(crate) fn add(&self, receipt: Receipt) {
        self.0.0.fetch_add(receipt.rows, Ordering::Relaxed);
        self.0.1.fetch_add(receipt.bytes, Ordering::Relaxed);
    }

    pub fn read(&self) -> Receipt {
        Receipt {
            rows: self.0.0.load(Ordering::Relaxed),
            bytes: self.0.1.load(Ordering::Relaxed),
        }
    }
}

/// A destination.
#[async_trait]
pub trait Deliver: Send + Sync {
    /// The columns it wants of a model, unless the export has a query of its own.
    fn layout(&self, model: Model) -> Query;

    /// Opens a delivery. Nothing is visible at the destination before [`Upload::commit`].
    ///
    /// None: an earlier attempt has committed this interval, and it is not to be sent again.
    async fn begin(&self, delivery: &Delivery) -> Result<Option<Box<dyn Upload>>, Error>;

    /// Whether a delivery goes on where an earlier attempt ended: what was acknowledged stays, and is not written again.
    fn resumes(&self) -> bool {
        false
    }

    /// Tries, step by step, what a run would need. Leaves nothing behind.
    async fn test(&self) -> Vec<Step>;
}

/// A delivery in progress. Dropped without an end it may leave traces that nobody reads and the next attempt clears away.
#[async_trait]
pub trait Upload: Send {
    async fn write(&mut self, rows: RecordBatch) -> Result<(), Error>;

    /// Makes all of it visible, at once wherever the destination can.
    async fn commit(self: Box<Self>) -> Result<Receipt, Error>;

    /// Takes everything back.
    async fn abort(self: Box<Self>);
}

/// What was delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Receipt {
    pub rows: u64,
    /// As the destination got them: packed, if they were.
    pub bytes: u64,
}

/// One thing that was tried.
#[derive(Debug, Clone, Serialize)]
pub struct Step {
    pub name: &'static str,
    pub description: String,
    pub verdict: Verdict,
    /// What was seen, and what would help.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Verdict {
    Passed,
    Failed,
    /// Not tried: something before it failed, or it was a dry run.
    Skipped,
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::IpAddr;
    use std::sync::Mutex;

    use outbound::{Policy, Resolve};

    use super::*;

    /// Notes for whom names are looked up.
    #[derive(Default)]
    struct Callers(Mutex<Vec<u128>>);

    #[async_trait]
    impl Resolve for Callers {
        async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
            Err(io::Error::other("nothing is looked up here"))
        }

        fn of(&self, caller: u128) -> Option<Arc<dyn Resolve>> {
            self.0.lock().unwrap().push(caller);
            None
        }
    }

    #[test]
    fn whatever_an_organization_uses_names_are_looked_up_for_it() {
        let callers = Arc::new(Callers::default());
        let dialer = Dialer::with_names(Policy::default(), callers.clone());
        let deps = ExportsDeps {
            http: Http::new(dialer.clone(), &Roots::public()).unwrap(),
            dialer,
            roots: Roots::public(),
            export_root: None,
        };
        let _own = deps.of(OrganizationId(uuid::Uuid::from_u128(7)));
        assert_eq!(*callers.0.lock().unwrap(), [7, 7], "over HTTP and otherwise");
    }
}
