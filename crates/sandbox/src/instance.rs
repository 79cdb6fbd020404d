//! An app that is open for calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::failure::shorten;
use crate::host::LARGEST_ANSWER;
use crate::process::{Lines, Process, WEIGHT, is_ended};
use crate::sandbox::Budgets;
use crate::sandbox::GRACE;
use crate::wire::{Answer, Call, Kind, Order, Report, line, response_line};
use crate::{Capabilities, Failure, Host, Json, Limits, Reservation};

/// More answers than this can be on their way only if the child has stopped to keep its own limit.
const MOST_ANSWERS: usize = 4096;
/// So many bytes of answers may wait for a child to read them. What is larger waits in the budget before it is there.
const MOST_UNREAD: usize = 18 * 1024 * 1024;
/// What a call to the host may carry that is not a request over HTTP, in bytes. Those who do it allow less.
const LARGEST_CALL: usize = 1024 * 1024;

/// An app with a process of its own. Calls run one after the other. Dropped, the process is killed.
pub struct Instance {
    /// None once the app is gone.
    process: Option<Process>,
    capabilities: Capabilities,
    limits: Arc<Limits>,
    host_calls: HostCalls,
    /// Whether a call is under way. One that was dropped halfway leaves this behind.
    is_busy: bool,
    is_set_up: bool,
    most_unread: usize,
    _place: OwnedSemaphorePermit,
}

impl Instance {
    pub(crate) async fn open(
        mut process: Process,
        task: Lines,
        limits: Arc<Limits>,
        host: Arc<dyn Host>,
        budgets: Budgets,
        place: OwnedSemaphorePermit,
    ) -> Result<Self, Failure> {
        process.send_lines(task);
        let mut host_calls = HostCalls::new(host, limits.clone(), budgets);
        process.count_in(host_calls.listen());
        host_calls.allow(1);
        let capabilities = Capabilities::default();
        let mut instance = Self {
            process: Some(process),
            capabilities,
            limits,
            host_calls,
            is_busy: false,
            is_set_up: false,
            most_unread: MOST_UNREAD,
            _place: place,
        };
        let time = instance.limits.load_time;
        match instance.next(Instant::now() + time + GRACE).await {
            Ok(Said::Ready(capabilities)) => instance.capabilities = capabilities,
            Ok(Said::Outcome(Err(failure))) | Err(failure) => return Err(failure),
            Ok(Said::Outcome(Ok(_)) | Said::Held) => return Err(Failure::Crashed("it responded too early".to_owned())),
        }
        Ok(instance)
    }

    /// What the app can be called for.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Whether calls can still be made.
    pub fn is_open(&self) -> bool {
        self.process.is_some()
    }

    /// Runs `setupPlugin`, if the app has it and it has not gone well before.
    pub async fn setup(&mut self) -> Result<(), Failure> {
        if !self.is_set_up {
            self.call_if_there("setupPlugin", self.limits.call_time).await?;
            self.is_set_up = true;
        }
        Ok(())
    }

    /// Calls a method or a scheduled task. Of most methods nothing is returned; `composeWebhook` is one of which it is.
    pub async fn call_with(&mut self, method: &str, arguments: &[impl Serialize]) -> Result<Json, Failure> {
        if !self.capabilities.has(method) {
            return Err(Failure::NoSuchMethod(method.to_owned()));
        }
        let outcome = self
            .run(Kind::Method, method, &[arguments], self.limits.call_time)
            .await;
        only(outcome)
    }

    /// Calls a method for each of these, in order and in one go. All of them together have the time of one call, and what
    /// does not come to its turn is [`Failure::NotRun`].
    ///
    /// An app with `exportEvents` gets all of them at once, and they have one outcome.
    pub async fn call_with_each(&mut self, method: &str, each: &[impl Serialize]) -> Vec<Result<Json, Failure>> {
        if !self.capabilities.has(method) {
            return vec![Err(Failure::NoSuchMethod(method.to_owned())); each.len()];
        }
        let each: Vec<_> = each.iter().map(|argument| [argument]).collect();
        self.run(Kind::Method, method, &each, self.limits.call_time).await
    }

    /// The same as [`Self::call_with`], for those who look into small values.
    pub async fn call(&mut self, method: &str, arguments: Vec<Value>) -> Result<Value, Failure> {
        self.call_with(method, &arguments)
            .await
            .and_then(|json| looked_into(&json))
    }

    /// The same as [`Self::call_with_each`], for those who look into small values.
    pub async fn call_each(&mut self, method: &str, each: Vec<Value>) -> Vec<Result<Value, Failure>> {
        let outcomes = self.call_with_each(method, &each).await.into_iter();
        outcomes
            .map(|outcome| outcome.and_then(|json| looked_into(&json)))
            .collect()
    }

    /// Calls a job. What it returns is of no use.
    pub async fn call_job(&mut self, job: &str, payload: impl Serialize) -> Result<(), Failure> {
        if !self.capabilities.jobs.iter().any(|name| name == job) {
            return Err(Failure::NoSuchMethod(job.to_owned()));
        }
        let outcome = self.run(Kind::Job, job, &[[payload]], self.limits.call_time).await;
        only(outcome).map(drop)
    }

    /// Runs `teardownPlugin`, if the app has it, and ends the process.
    pub async fn close(mut self) -> Result<(), Failure> {
        let outcome = self.call_if_there("teardownPlugin", self.limits.close_time).await;
        self.end().await;
        outcome
    }

    async fn call_if_there(&mut self, method: &str, time: Duration) -> Result<(), Failure> {
        if !self.capabilities.has(method) {
            return Ok(());
        }
        let nothing: [(); 0] = [];
        only(self.run(Kind::Method, method, &[nothing], time).await).map(drop)
    }

    async fn run(
        &mut self,
        kind: Kind,
        name: &str,
        each: &[impl Serialize],
        time: Duration,
    ) -> Vec<Result<Json, Failure>> {
        let count = each.len();
        let mut outcomes = Vec::with_capacity(count);
        if count == 0 {
            return outcomes;
        }
        if self.is_busy {
            // What the app is about to say belongs to a call that nobody waits for any more.
            self.end().await;
        }
        self.is_busy = true;
        self.host_calls.allow(count);
        let order = ordered(kind, name, each);
        self.most_unread = MOST_UNREAD + order.len();
        if let Some(process) = &self.process {
            process.send_text(order);
        }
        // Whatever the app says of how far it has got, this is the time it has.
        let deadline = Instant::now() + time + GRACE;
        while outcomes.len() < count {
            match self.next(deadline).await {
                Ok(Said::Outcome(outcome)) => {
                    outcomes.push(outcome.map_err(|failure| self.host_calls.explain(failure)));
                }
                Ok(Said::Held) => {}
                Ok(Said::Ready(_)) => outcomes.push(Err(self.fail(crashed()).await)),
                Err(failure) => outcomes.push(Err(failure)),
            }
            if self.process.is_none() {
                outcomes.resize(count, Err(Failure::NotRun));
            }
        }
        // What is still under way are timers that nobody waits for.
        self.host_calls.under_way.abort_all();
        self.is_busy = false;
        outcomes
    }

    /// Waits for what matters to a call, and does the app's errands in the meantime. A failure here ends the process.
    async fn next(&mut self, deadline: Instant) -> Result<Said, Failure> {
        loop {
            let Some(process) = &mut self.process else {
                return Err(Failure::Closed);
            };
            let said = tokio::select! {
                report = process.report(deadline) => match report {
                    Ok(report) => {
                        let sent = process.count_in(self.host_calls.listen());
                        self.host_calls.take(report, sent)
                    }
                    Err(failure) => Err(failure),
                },
                () = sleep_until(deadline) => Err(Failure::TooSlow),
                () = self.host_calls.is_ended.notified() => Err(unread()),
                Some(answer) = self.host_calls.under_way.join_next() => {
                    // One that was called off has no answer.
                    if let Ok((answer, memory)) = answer {
                        process.send_answer(answer, memory);
                    }
                    if process.unread() > self.most_unread {
                        Err(unread())
                    } else {
                        Ok(None)
                    }
                }
            };
            match said {
                Ok(None) => {}
                Ok(Some(Said::Outcome(Err(failure)))) if failure.is_final() => return Err(self.fail(failure).await),
                Ok(Some(said)) => return Ok(said),
                Err(failure) => return Err(self.fail(failure).await),
            }
        }
    }

    async fn fail(&mut self, failure: Failure) -> Failure {
        self.end().await;
        failure
    }

    async fn end(&mut self) {
        self.host_calls.under_way.abort_all();
        if let Some(mut process) = self.process.take() {
            process.kill().await;
        }
    }
}

fn unread() -> Failure {
    Failure::Crashed("it does not read the responses it requested".to_owned())
}

fn crashed() -> Failure {
    Failure::Crashed("unexpected message from its process".to_owned())
}

/// The outcome of the only call.
fn only(mut outcomes: Vec<Result<Json, Failure>>) -> Result<Json, Failure> {
    outcomes.pop().unwrap_or(Err(Failure::NotRun))
}

fn looked_into(json: &Json) -> Result<Value, Failure> {
    serde_json::from_str(json.text()).map_err(|_| crashed())
}

fn ordered(kind: Kind, name: &str, each: &[impl Serialize]) -> String {
    let mut text = line(&Order::Call {
        kind,
        name: name.to_owned(),
        count: each.len(),
    });
    for arguments in each {
        text.push_str(&line(arguments));
    }
    text
}

/// What a call waits for.
enum Said {
    Ready(Capabilities),
    Held,
    Outcome(Result<Json, Failure>),
}

/// What the app asked the host for. The child keeps to the limits by itself; one that does not is not to be trusted.
struct HostCalls {
    host: Arc<dyn Host>,
    limits: Arc<Limits>,
    /// Answers, as lines, and the memory they take.
    under_way: JoinSet<(String, Arc<Reservation>)>,
    budgets: Budgets,
    /// Others need the memory of what the app does not read.
    is_ended: Arc<Notify>,
    /// Whether something that the app sent was ended for others, in this call.
    gave_way: Arc<AtomicBool>,
    /// Held by each call to the host that is under way.
    calling: Arc<()>,
    calls_left: usize,
    lines_left: usize,
}

impl HostCalls {
    fn new(host: Arc<dyn Host>, limits: Arc<Limits>, budgets: Budgets) -> Self {
        Self {
            host,
            limits,
            under_way: JoinSet::new(),
            budgets,
            is_ended: Arc::default(),
            gave_way: Arc::default(),
            calling: Arc::new(()),
            calls_left: 0,
            lines_left: 0,
        }
    }

    /// What so many calls of the app may ask for and write.
    fn allow(&mut self, calls: usize) {
        // What is held back and flushed at the end has counts of its own.
        let most = calls.saturating_add(1);
        self.gave_way.store(false, Ordering::Relaxed);
        self.calls_left = most.saturating_mul(self.limits.host_calls);
        self.lines_left = most.saturating_mul(self.limits.log_lines + 1);
    }

    /// The memory for what the app says next.
    fn listen(&self) -> Reservation {
        self.budgets.sent.reserve(self.host.organization(), &self.is_ended)
    }

    /// One less is left of what may be asked for or written.
    fn spend(left: &mut usize) -> Result<(), Failure> {
        let spent = left.checked_sub(1);
        *left = spent.ok_or_else(|| Failure::Crashed("it exceeded its limit of requests".to_owned()))?;
        Ok(())
    }

    /// `sent` is the memory that the report takes.
    fn take(&mut self, report: Report, sent: Option<Reservation>) -> Result<Option<Said>, Failure> {
        match report {
            Report::Ready(capabilities) => return Ok(Some(Said::Ready(capabilities))),
            Report::Held => return Ok(Some(Said::Held)),
            Report::Done(value) if value.text().len() > self.limits.result_bytes => {
                let limit = self.limits.result_bytes;
                return Ok(Some(Said::Outcome(Err(Failure::TooLarge { limit }))));
            }
            Report::Done(value) => return Ok(Some(Said::Outcome(Ok(value)))),
            Report::Failed(failure) => return Ok(Some(Said::Outcome(Err(failure.shortened())))),
            Report::Log { level, mut message } => {
                Self::spend(&mut self.lines_left)?;
                shorten(&mut message, self.limits.log_line_bytes);
                self.host.log(level, message);
            }
            Report::Asked { id, call } => {
                Self::spend(&mut self.calls_left)?;
                self.run(id, call, sent);
            }
            Report::Sleep { id, ms } => {
                Self::spend(&mut self.calls_left)?;
                self.sleep(id, ms);
            }
            Report::Confined(_) | Report::Read(_) | Report::Fault(_) => return Err(crashed()),
        }
        let calls_at_once = Arc::strong_count(&self.calling) - 1;
        if self.under_way.len() > MOST_ANSWERS || calls_at_once > self.limits.host_calls_at_once {
            return Err(Failure::Crashed(
                "it made too many requests at the same time".to_owned(),
            ));
        }
        Ok(None)
    }

    /// It is not the app's fault if it failed because others came first: the call is repeated later.
    fn explain(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Thrown {
                name, message, stack, ..
            } if self.gave_way.load(Ordering::Relaxed) => Failure::Thrown {
                name,
                message,
                stack,
                is_retry: true,
            },
            failure => failure,
        }
    }

    fn run(&mut self, id: u64, call: Json, sent: Option<Reservation>) {
        let (host, calling) = (self.host.clone(), self.calling.clone());
        let (limits, gave_way) = (self.limits.clone(), self.gave_way.clone());
        if let Some(sent) = &sent {
            sent.settle_sent(WEIGHT * call.text().len());
        }
        let memory = self.reserve();
        self.under_way.spawn(async move {
            let answered = tokio::select! {
                answered = answer(id, &*host, &limits, call, &memory) => answered,
                () = is_ended(sent.as_ref()) => {
                    gave_way.store(true, Ordering::Relaxed);
                    Err("timed out while other apps needed the memory: try again later".to_owned())
                }
            };
            let answer = answered.unwrap_or_else(|sentence| line(&Answer::new(id, Err(sentence))));
            drop((calling, sent));
            (answer, memory)
        });
    }

    fn sleep(&mut self, id: u64, ms: u64) {
        let memory = self.reserve();
        self.under_way.spawn(async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            (line(&Answer::new(id, Ok(Json::null()))), memory)
        });
    }

    fn reserve(&self) -> Arc<Reservation> {
        let answers = &self.budgets.answers;
        Arc::new(answers.reserve(self.host.organization(), &self.is_ended))
    }
}

/// The answer to a call, as a line. Nothing is built from what an app says before its length was looked at.
async fn answer(
    id: u64,
    host: &dyn Host,
    limits: &Limits,
    call: Json,
    memory: &Arc<Reservation>,
) -> Result<String, String> {
    let most = if Call::is_fetch(&call) {
        limits.host_call_bytes
    } else {
        limits.host_call_bytes.min(LARGEST_CALL)
    };
    if call.text().len() > most {
        return Err(format!("this is too large for one call: the limit is {most} bytes"));
    }
    let read = Call::read(&call)?;
    drop(call);
    match read {
        Call::Other(call) => {
            memory.grow(call.largest_answer()).await;
            let json = host.call(call).await?;
            if json.text().len() > LARGEST_ANSWER {
                return Err(format!(
                    "the response is larger than {LARGEST_ANSWER} bytes: request less"
                ));
            }
            Ok(line(&Answer::new(id, Ok(json))))
        }
        Call::Fetch(request) => tokio::select! {
            response = host.fetch(request, memory) => Ok(response_line(id, response?)),
            () = memory.is_ended() => {
                Err("the response was interrupted because other apps needed the memory: try again later".to_owned())
            }
        },
    }
}
