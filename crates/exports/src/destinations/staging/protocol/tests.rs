//! The order of the steps, and what follows from each outcome.

use std::sync::{Arc, Mutex};

use arrow_array::StringArray;
use arrow_schema::{DataType, Field, Schema};
use chrono::DateTime;
use hogql::Model;
use service::{ExportId, RunId};
use uuid::Uuid;

use super::*;

const EARLIER: &str = "0123456789abcdef0123456789abcdef";
const OURS: &str = "ours";

/// When the attempts of a test claim their interval.
trait Time: Send + 'static {
    const CLAIM: ClaimTime;
    const NAME: Option<&'static str> = None;
    const RECHECKS_CLAIM: bool = false;
}

struct Locking;
struct Naming;
struct NamingAndChecking;
struct Renaming;

impl Time for Locking {
    const CLAIM: ClaimTime = ClaimTime::BeforeLedger;
}

impl Time for Naming {
    const CLAIM: ClaimTime = ClaimTime::AfterPlan;
    const NAME: Option<&'static str> = Some(OURS);
}

impl Time for NamingAndChecking {
    const CLAIM: ClaimTime = ClaimTime::AfterPlan;
    const NAME: Option<&'static str> = Some(OURS);
    const RECHECKS_CLAIM: bool = true;
}

impl Time for Renaming {
    const CLAIM: ClaimTime = ClaimTime::BeforeCommit;
}

/// A destination that writes down its steps. What it is told outlives the attempt.
#[derive(Clone)]
struct Table(Arc<Mutex<Inner>>);

struct Inner {
    steps: Vec<String>,
    entry: LedgerEntry,
    staged: StagedRows,
    /// The step that fails, for good.
    failing: Option<&'static str>,
}

struct RecordingAttempt<T>(Table, std::marker::PhantomData<T>);

impl Table {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Inner {
            steps: Vec::new(),
            entry: LedgerEntry::default(),
            staged: StagedRows::Exactly(Some(2)),
            failing: None,
        })))
    }

    fn set(&self, change: impl FnOnce(&mut Inner)) {
        change(&mut self.0.lock().unwrap());
    }

    fn attempt<T: Time>(&self) -> RecordingAttempt<T> {
        RecordingAttempt(self.clone(), std::marker::PhantomData)
    }

    fn note(&self, step: &str) -> Result<(), Error> {
        let mut inner = self.0.lock().unwrap();
        inner.steps.push(step.to_owned());
        match inner.failing {
            Some(failing) if failing == step => Err(Error::plain(format!("{step} failed"))),
            _ => Ok(()),
        }
    }

    /// The steps since the last time.
    fn steps(&self) -> String {
        std::mem::take(&mut self.0.lock().unwrap().steps).join(" ")
    }
}

#[async_trait]
impl<T: Time + Sync> Attempt for RecordingAttempt<T> {
    type Plan = ();

    const CLAIM: ClaimTime = T::CLAIM;
    const RECHECKS_CLAIM: bool = T::RECHECKS_CLAIM;

    fn name(&self) -> Option<&str> {
        T::NAME
    }

    async fn prepare(&mut self) -> Result<(), Error> {
        self.0.note("prepare")
    }

    async fn finish_earlier(&mut self) -> Result<(), Error> {
        self.0.note("finish_earlier")
    }

    async fn claim(&mut self) -> Result<(), Error> {
        if let Some(name) = T::NAME {
            self.0.set(|inner| inner.entry.attempt = Some(name.to_owned()));
        }
        self.0.note("claim")
    }

    async fn ledger_entry(&mut self) -> Result<LedgerEntry, Error> {
        self.0.note("ledger")?;
        Ok(self.0.0.lock().unwrap().entry.clone())
    }

    async fn leave(&mut self) -> Result<(), Error> {
        self.0.note("leave")
    }

    async fn plan(&mut self, was_delivered: bool) -> Result<(), Error> {
        self.0.note(if was_delivered { "plan_resend" } else { "plan" })
    }

    async fn clear_earlier(&mut self, attempt: Option<&str>) -> Result<(), Error> {
        self.0.note(&format!("clear_earlier({})", attempt.unwrap_or_default()))
    }

    async fn create_stage(&mut self, (): &()) -> Result<(), Error> {
        self.0.note("create_stage")
    }

    async fn write(&mut self, (): &mut (), _: RecordBatch) -> Result<(), Error> {
        self.0.note("write")
    }

    async fn flush(&mut self, (): &mut ()) -> Result<(), Error> {
        self.0.note("flush")
    }

    fn bytes(&self) -> u64 {
        7
    }

    async fn count(&mut self, (): &()) -> Result<StagedRows, Error> {
        self.0.note("count")?;
        Ok(self.0.0.lock().unwrap().staged)
    }

    async fn commit(&mut self, (): &(), receipt: Receipt) -> Result<(), Error> {
        assert_eq!(receipt, Receipt { rows: 2, bytes: 7 });
        self.0.note("commit")
    }

    async fn clear(&mut self) {
        self.0.note("clear").unwrap();
    }

    async fn roll_back(&mut self) {
        self.0.note("roll_back").unwrap();
    }

    async fn close(self) {
        self.0.note("close").unwrap();
    }
}

fn delivery(is_resend: bool) -> Delivery {
    Delivery {
        export: ExportId(Uuid::nil()),
        run: RunId(Uuid::nil()),
        team: 1,
        model: Model::Events,
        start: DateTime::UNIX_EPOCH,
        end: DateTime::UNIX_EPOCH,
        schema: Arc::new(Schema::new(vec![Field::new("event", DataType::Utf8, true)])),
        is_custom: false,
        is_resend,
        resumed_after: Receipt::default(),
        acknowledged: crate::Acknowledged::default(),
    }
}

fn rows() -> RecordBatch {
    let texts = Arc::new(StringArray::from(vec!["a", "b"]));
    RecordBatch::try_new(delivery(false).schema, vec![texts]).unwrap()
}

async fn opened<T: Time + Sync>(table: &Table) -> Box<dyn Upload> {
    begin(table.attempt::<T>(), &delivery(false)).await.unwrap().unwrap()
}

async fn begun<T: Time + Sync>(table: &Table) -> Box<dyn Upload> {
    let mut upload = opened::<T>(table).await;
    upload.write(rows()).await.unwrap();
    upload
}

async fn delivered<T: Time + Sync>(table: &Table) -> Result<Receipt, Error> {
    begun::<T>(table).await.commit().await
}

#[tokio::test]
async fn an_interval_is_claimed_when_its_destination_says() {
    let table = Table::new();
    let receipt = delivered::<Locking>(&table).await.unwrap();
    assert_eq!(receipt, Receipt { rows: 2, bytes: 7 });
    assert_eq!(
        table.steps(),
        "prepare finish_earlier claim ledger plan clear_earlier() create_stage write flush count commit clear close"
    );
    delivered::<Naming>(&table).await.unwrap();
    assert_eq!(
        table.steps(),
        "prepare finish_earlier ledger plan claim clear_earlier() create_stage write flush count commit clear close"
    );
    table.set(|inner| inner.entry.attempt = Some(EARLIER.to_owned()));
    delivered::<NamingAndChecking>(&table).await.unwrap();
    assert_eq!(
        table.steps(),
        format!(
            "prepare finish_earlier ledger plan claim clear_earlier({EARLIER}) create_stage write flush count ledger \
             commit clear close"
        )
    );
    table.set(|inner| inner.entry.attempt = Some("'; DROP TABLE x".to_owned()));
    delivered::<Renaming>(&table).await.unwrap();
    assert_eq!(
        table.steps(),
        "prepare finish_earlier ledger plan clear_earlier() create_stage write flush count claim commit clear close"
    );
}

#[tokio::test]
async fn what_was_delivered_is_left_alone_unless_it_is_resent() {
    let table = Table::new();
    table.set(|inner| inner.entry.is_delivered = true);
    let begun = begin(table.attempt::<Naming>(), &delivery(false)).await.unwrap();
    assert!(begun.is_none());
    assert_eq!(table.steps(), "prepare finish_earlier ledger leave close");
    let begun = begin(table.attempt::<Naming>(), &delivery(true)).await.unwrap();
    assert!(begun.is_some());
    assert_eq!(
        table.steps(),
        "prepare finish_earlier ledger plan_resend claim clear_earlier() create_stage"
    );
}

#[tokio::test]
async fn an_attempt_that_cannot_succeed_claims_nothing() {
    let table = Table::new();
    table.set(|inner| inner.failing = Some("plan"));
    let error = begin(table.attempt::<Naming>(), &delivery(false)).await.err().unwrap();
    assert!(error.is_permanent);
    assert_eq!(table.steps(), "prepare finish_earlier ledger plan close");
}

/// What it created of the stage is cleared by the next attempt, which finds its name in the ledger.
#[tokio::test]
async fn an_attempt_without_a_stage_is_closed_and_clears_nothing() {
    let table = Table::new();
    table.set(|inner| inner.failing = Some("create_stage"));
    let error = begin(table.attempt::<Naming>(), &delivery(false)).await.err().unwrap();
    assert!(error.is_permanent && error.sentence == "create_stage failed", "{error}");
    assert_eq!(
        table.steps(),
        "prepare finish_earlier ledger plan claim clear_earlier() create_stage close"
    );
}

#[tokio::test]
async fn an_incomplete_stage_is_not_committed() {
    for staged in [
        StagedRows::Exactly(Some(1)),
        StagedRows::Exactly(Some(3)),
        StagedRows::Exactly(None),
        StagedRows::Merged(3),
    ] {
        let table = Table::new();
        table.set(|inner| inner.staged = staged);
        let error = delivered::<Renaming>(&table).await.unwrap_err();
        assert!(
            !error.is_permanent && error.sentence.contains("not all rows"),
            "{error}"
        );
        assert!(table.steps().ends_with("flush count clear close"), "{staged:?}");
    }
    for staged in [StagedRows::Uncounted, StagedRows::Merged(1), StagedRows::Merged(2)] {
        let table = Table::new();
        table.set(|inner| inner.staged = staged);
        delivered::<Renaming>(&table).await.unwrap();
    }
}

#[tokio::test]
async fn whoever_lost_the_claim_is_told_so_whatever_else_failed() {
    let table = Table::new();
    let upload = begun::<Naming>(&table).await;
    table.set(|inner| {
        inner.entry.attempt = Some(EARLIER.to_owned());
        inner.failing = Some("flush");
    });
    let error = upload.commit().await.unwrap_err();
    assert!(
        !error.is_permanent && error.sentence.contains("another worker"),
        "{error}"
    );
    assert!(table.steps().ends_with("write flush ledger clear close"));

    // Its own errors stay what they are.
    let table = Table::new();
    let upload = begun::<Naming>(&table).await;
    table.set(|inner| inner.failing = Some("commit"));
    let error = upload.commit().await.unwrap_err();
    assert!(error.is_permanent && error.sentence == "commit failed", "{error}");
    assert!(table.steps().ends_with("flush count commit ledger clear close"));

    let table = Table::new();
    let upload = begun::<NamingAndChecking>(&table).await;
    table.set(|inner| inner.entry.attempt = Some(EARLIER.to_owned()));
    let error = upload.commit().await.unwrap_err();
    assert!(
        !error.is_permanent && error.sentence.contains("another worker"),
        "{error}"
    );
    assert!(table.steps().ends_with("flush count ledger ledger clear close"));
}

#[tokio::test]
async fn an_error_stays_what_it_is_if_the_ledger_names_no_attempt() {
    // An attempt without a name does not read the ledger, whatever that has.
    let table = Table::new();
    let upload = begun::<Locking>(&table).await;
    table.set(|inner| {
        inner.entry.attempt = Some(EARLIER.to_owned());
        inner.failing = Some("flush");
    });
    let error = upload.commit().await.unwrap_err();
    assert!(error.is_permanent && error.sentence == "flush failed", "{error}");
    assert!(table.steps().ends_with("write flush clear close"));

    let table = Table::new();
    let upload = begun::<Naming>(&table).await;
    table.set(|inner| {
        inner.entry.attempt = None;
        inner.failing = Some("flush");
    });
    let error = upload.commit().await.unwrap_err();
    assert!(error.is_permanent && error.sentence == "flush failed", "{error}");
    assert!(table.steps().ends_with("write flush ledger clear close"));
}

#[tokio::test]
async fn an_upload_whose_write_failed_can_be_aborted() {
    let table = Table::new();
    let mut upload = opened::<Naming>(&table).await;
    table.set(|inner| inner.failing = Some("write"));
    let error = upload.write(rows()).await.unwrap_err();
    assert!(error.is_permanent && error.sentence == "write failed", "{error}");
    upload.abort().await;
    assert!(table.steps().ends_with("create_stage write clear roll_back close"));
}

#[tokio::test]
async fn an_abort_clears_and_then_rolls_back() {
    let table = Table::new();
    begun::<Locking>(&table).await.abort().await;
    assert!(table.steps().ends_with("create_stage write clear roll_back close"));
}
