//! Everything about exports that takes more than the database: the store of events, the network, the files.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use boxed::boxed;
use events::Events;
use outbound::{DialError, Dialer};
use service::access::{Caller, ChangeExports};
use service::batch_exports::destination::{Destination, Target};
use service::batch_exports::{BatchExport, DestinationCheck, ExportPatch, ExportSeen, NewExport};
use service::{Error, ExportId, Invalid, Precondition, Result, Rotation, Service, WorkerId};
use url::Url;

use crate::run_slots::RunSlots;
use crate::shares::Shares;
use crate::{Deliver, ExportsDeps, Step, Verdict, destinations};

/// A test ends before the request does that asked for it.
const MAX_TESTING: Duration = Duration::from_secs(25);

/// What looking up a name may take when an export is saved.
const LOOK_UP_TIME: Duration = Duration::from_millis(500);

/// A preview can read all events of a team without finding one that matches.
const PREVIEWS_AT_ONCE: usize = 4;
const PREVIEWS_ASIDE: usize = 8;
/// A test mostly waits, for a place that its owner chose.
const TESTS_AT_ONCE: usize = 16;
/// As many as step aside within the time that a test may take.
const TESTS_ASIDE: usize = 400;

/// Cheap to clone; every clone is the same.
#[derive(Clone)]
pub struct Exports {
    pub(crate) core: Arc<Core>,
}

pub(crate) struct Core {
    pub(crate) service: Service,
    pub(crate) events: Events,
    pub(crate) deps: ExportsDeps,
    /// How many runs this process carries out at once.
    pub(crate) slots: usize,
    pub(crate) worker: WorkerId,
    /// Whose turn it is to have a run carried out.
    pub(crate) run_slots: RunSlots,
    pub(crate) rotation: Rotation,
    pub(crate) wake: tokio::sync::Notify,
    pub(crate) previews: Shares,
    tests: Shares,
}

impl Exports {
    pub fn new(service: Service, events: Events, deps: ExportsDeps, slots: usize) -> Self {
        let worker = WorkerId::random(service.random());
        Self {
            core: Arc::new(Core {
                service,
                events,
                deps,
                slots,
                worker,
                run_slots: RunSlots::new(slots),
                rotation: Rotation::default(),
                wake: tokio::sync::Notify::new(),
                previews: Shares::new("the preview service", PREVIEWS_AT_ONCE, PREVIEWS_ASIDE),
                tests: Shares::new("the connection tester", TESTS_AT_ONCE, TESTS_ASIDE),
            }),
        }
    }

    pub fn service(&self) -> &Service {
        &self.core.service
    }

    pub fn events(&self) -> &Events {
        &self.core.events
    }

    /// Whether the operator has set a folder aside that exports may write to.
    pub fn takes_files(&self) -> bool {
        self.core.deps.export_root.is_some()
    }

    /// Looks at where it would go before it is written down; a name that is not in DNS yet is fine.
    #[boxed]
    pub async fn create(&self, caller: &Caller<ChangeExports>, new: &NewExport) -> Result<ExportSeen> {
        self.core.service.create_batch_export(caller, new, self).await
    }

    #[boxed]
    pub async fn update(
        &self,
        caller: &Caller<ChangeExports>,
        id: ExportId,
        patch: &ExportPatch,
        precondition: Precondition<'_, ExportSeen>,
    ) -> Result<ExportSeen> {
        let service = &self.core.service;
        service.update_batch_export(caller, id, patch, self, precondition).await
    }

    /// Tries what a run would need, step by step.
    #[boxed]
    pub async fn test(&self, caller: &Caller<ChangeExports>, id: ExportId) -> Result<Vec<Step>> {
        let steps = async {
            let export = self.core.service.batch_export(caller, id).await?.export;
            let destination = export.destination(self.core.service.instance())?;
            self.steps(caller, &destination).await
        };
        self.in_turn(caller, steps).await
    }

    /// The same for a destination that no export has yet.
    #[boxed]
    pub async fn test_destination(
        &self,
        caller: &Caller<ChangeExports>,
        destination: &Destination,
    ) -> Result<Vec<Step>> {
        self.in_turn(caller, self.steps(caller, destination)).await
    }

    /// Whatever is read for a test is read in its turn: many may wait.
    async fn in_turn(
        &self,
        caller: &Caller<ChangeExports>,
        steps: impl Future<Output = Result<Vec<Step>>> + Send,
    ) -> Result<Vec<Step>> {
        let steps = self.core.tests.run(caller.user, caller.organization, steps);
        let tested = tokio::time::timeout(MAX_TESTING, steps).await.unwrap_or(Ok(None))?;
        tested.unwrap_or_else(|| Ok(vec![too_slow()]))
    }

    async fn steps(&self, caller: &Caller<ChangeExports>, destination: &Destination) -> Result<Vec<Step>> {
        let opened = self.check(caller, destination).await?;
        if caller.actor.request.is_dry_run {
            return Ok(vec![not_tried()]);
        }
        let mut steps = opened.test().await;
        for step in &mut steps {
            step.message = without_secret_hosts(std::mem::take(&mut step.message), destination);
        }
        Ok(steps)
    }

    /// The address policy, and whatever can be said without reaching out.
    async fn check(&self, caller: &Caller<ChangeExports>, destination: &Destination) -> Result<Box<dyn Deliver>> {
        let is_dry_run = caller.actor.request.is_dry_run;
        let deps = self.core.deps.of_test(caller.organization);
        for target in destination.targets() {
            check_target(&deps.dialer, &target, is_dry_run).await?;
        }
        destinations::open(destination, &deps).map_err(|error| unusable(&error))
    }
}

#[async_trait]
impl DestinationCheck for Exports {
    async fn check_destination(&self, caller: &Caller<ChangeExports>, destination: &Destination) -> Result<()> {
        self.check(caller, destination).await.map(drop)
    }
}

impl std::fmt::Debug for Exports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exports").finish_non_exhaustive()
    }
}

/// In a dry run no name is looked up.
async fn check_target(dialer: &Dialer, target: &Target, is_dry_run: bool) -> Result<()> {
    let (field, host) = match target {
        Target::Host { field, host } => (*field, host.clone()),
        Target::Url { field, url } => {
            let parsed = Url::parse(url).map_err(|_| refused(field, "no_host", "enter a valid URL with a host"))?;
            let policy = dialer.policy();
            policy
                .check_url(&parsed)
                .map_err(|refusal| refused(field, refusal.rule.code(), refusal.to_string()))?;
            (*field, parsed.host_str().unwrap_or_default().to_owned())
        }
    };
    if is_dry_run && url::Host::parse(&host).is_ok_and(|host| matches!(host, url::Host::Domain(_))) {
        return Ok(());
    }
    // A name server that says nothing keeps nobody waiting: before anything is sent, the address is checked again.
    let addresses = tokio::time::timeout(LOOK_UP_TIME, dialer.addresses(&host)).await;
    match addresses {
        Ok(Err(DialError::Refused(refusal))) => Err(refused(field, refusal.rule.code(), refusal.to_string())),
        // Saving never depends on the network.
        _ => Ok(()),
    }
}

/// What an export selects: its own query or the destination's columns, and the events it was limited to.
pub(crate) fn query_of(export: &BatchExport, layout: hogql::Query) -> hogql::Query {
    let mut query = export.query().unwrap_or(layout);
    if export.model == hogql::Model::Events {
        for (key, is_negated) in [("include_events", false), ("exclude_events", true)] {
            let names = export.event_names(key);
            if !names.is_empty() {
                query = query.and(hogql::Expr::In {
                    expr: Box::new(hogql::Expr::Column(hogql::Column::Event)),
                    list: names
                        .into_iter()
                        .map(|name| hogql::Expr::Value(hogql::Value::Text(name)))
                        .collect(),
                    is_negated,
                });
            }
        }
    }
    query
}

/// Errors name hosts. One that stands in a secret, such as a connection string, is called after its key.
pub(crate) fn without_secret_hosts(text: String, destination: &Destination) -> String {
    let kind = destination.kind();
    let is_secret = |key: &str| kind.fields().any(|field| field.is_secret && field.key == key);
    destination.targets().iter().fold(text, |text, target| match target {
        Target::Url { field, url } if is_secret(field) => {
            let url = Url::parse(url).ok();
            match url.as_ref().and_then(Url::host_str) {
                Some(host) => text.replace(host, &format!("the host in {field}")),
                None => text,
            }
        }
        _ => text,
    })
}

pub(crate) fn store_failed(cause: &events::Error) -> Error {
    if matches!(cause, events::Error::TooLarge) {
        return Error::Conflict {
            code: "query_too_large",
            detail: crate::error::TOO_LARGE.to_owned(),
        };
    }
    tracing::error!(error = cause as &dyn std::error::Error, "the event store failed");
    Error::Conflict {
        code: "events_unavailable",
        detail: "the events are temporarily unavailable: try again".to_owned(),
    }
}

pub(crate) fn unusable(error: &crate::Error) -> Error {
    match error.key {
        Some(key) => refused(key, "invalid_input", error.sentence.clone()),
        None => Error::invalid("destination__config", "invalid_input", error.sentence.clone()),
    }
}

fn refused(field: &str, code: &'static str, detail: impl Into<String>) -> Error {
    Error::Invalid(vec![Invalid {
        field: Some(format!("destination__config__{field}").into()),
        code,
        detail: detail.into(),
    }])
}

/// A dry run reaches out to nobody, and that is all a test does.
fn not_tried() -> Step {
    Step {
        name: "connection",
        description: "Connect to the destination".to_owned(),
        verdict: Verdict::Skipped,
        message: "skipped because a dry run makes no connections".to_owned(),
    }
}

fn too_slow() -> Step {
    Step {
        name: "time",
        description: "Finish within the time limit".to_owned(),
        verdict: Verdict::Failed,
        message: format!(
            "no response within {} seconds; check that the destination is up and can be reached from this server",
            MAX_TESTING.as_secs()
        ),
    }
}
