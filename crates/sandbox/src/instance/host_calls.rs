//! What an app asks the host for while it is called, within its limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::budget::Budgets;
use crate::failure::shorten;
use crate::host::MAX_ANSWER;
use crate::process::{WEIGHT, is_ended};
use crate::wire::{Answer, Call, Report, line, response_line};
use crate::{Capabilities, Failure, Host, Json, Limits, Reservation};

/// More answers than this can be on their way only if the child has stopped to keep its own limit.
const MAX_ANSWERS: usize = 4096;
/// What a call to the host may carry that is not a request over HTTP, in bytes. Those who do it allow less.
const MAX_CALL: usize = 1024 * 1024;

/// A call that ran out of time might not have, if it has waited for others as long as this, in microseconds.
const MUCH_WAITED_US: u64 = 1_000_000;

/// What a call waits for.
pub(super) enum CallEvent {
    Ready(Capabilities),
    Held,
    Stopped,
    Outcome(Result<Json, Failure>),
}

/// What the app asked the host for. The child keeps to the limits on its own; one that does not is not to be trusted.
pub(super) struct HostCalls {
    host: Arc<dyn Host>,
    limits: Arc<Limits>,
    /// Answers, as lines, and the memory they take.
    pub(super) in_progress: JoinSet<(String, Arc<Reservation>)>,
    budgets: Budgets,
    /// Others need the memory of what the app does not read.
    pub(super) is_ended: Arc<Notify>,
    /// Whether something that the app sent was ended for others, in this call.
    gave_way: Arc<AtomicBool>,
    /// How long calls have waited for memory that others had. One that takes too long ends the app, so this excuses one at most.
    waited_us: Arc<AtomicU64>,
    /// Held by each call to the host that is in progress.
    calling: Arc<()>,
    calls_left: usize,
    lines_left: usize,
    /// Whether the app asked for something, in this call.
    pub(super) has_asked: bool,
}

impl HostCalls {
    pub(super) fn new(host: Arc<dyn Host>, limits: Arc<Limits>, budgets: Budgets) -> Self {
        Self {
            host,
            limits,
            in_progress: JoinSet::new(),
            budgets,
            is_ended: Arc::default(),
            gave_way: Arc::default(),
            waited_us: Arc::default(),
            calling: Arc::new(()),
            calls_left: 0,
            lines_left: 0,
            has_asked: false,
        }
    }

    /// What so many calls of the app may ask for and write.
    pub(super) fn allow(&mut self, calls: usize) {
        // What is held back and flushed at the end has counts of its own.
        let most = calls.saturating_add(1);
        self.gave_way.store(false, Ordering::Relaxed);
        self.has_asked = false;
        self.calls_left = most.saturating_mul(self.limits.host_calls);
        self.lines_left = most.saturating_mul(self.limits.log_lines + 1);
    }

    /// The memory for what the app says next.
    pub(super) fn listen(&self) -> Reservation {
        let sent = self.budgets.sent.reserve(self.host.organization(), &self.is_ended);
        sent.counting_in(&self.waited_us)
    }

    /// One less is left of what may be asked for or written.
    fn spend(left: &mut usize) -> Result<(), Failure> {
        let spent = left.checked_sub(1);
        *left = spent.ok_or_else(|| Failure::Crashed("it exceeded its limit of requests".to_owned()))?;
        Ok(())
    }

    /// `sent` is the memory that the report takes.
    pub(super) fn take(&mut self, report: Report, sent: Option<Reservation>) -> Result<Option<CallEvent>, Failure> {
        match report {
            Report::Ready(capabilities) => return Ok(Some(CallEvent::Ready(capabilities.checked()?))),
            Report::Held => return Ok(Some(CallEvent::Held)),
            Report::Stopped => return Ok(Some(CallEvent::Stopped)),
            Report::Done(value) if value.text().len() > self.limits.result_bytes => {
                let limit = self.limits.result_bytes;
                return Ok(Some(CallEvent::Outcome(Err(Failure::TooLarge { limit }))));
            }
            Report::Done(value) => return Ok(Some(CallEvent::Outcome(Ok(value)))),
            Report::Failed(failure) => return Ok(Some(CallEvent::Outcome(Err(failure.shortened())))),
            Report::Log { level, mut message } => {
                Self::spend(&mut self.lines_left)?;
                shorten(&mut message, self.limits.log_line_bytes);
                self.host.log(level, message);
            }
            Report::Asked { id, call } => {
                Self::spend(&mut self.calls_left)?;
                self.has_asked = true;
                self.run(id, call, sent);
            }
            Report::Sleep { id, ms } => {
                Self::spend(&mut self.calls_left)?;
                self.sleep(id, ms);
            }
            Report::Confined(_) | Report::Read(_) | Report::Fault(_) => return Err(Failure::unexpected_message()),
        }
        let calls_at_once = Arc::strong_count(&self.calling) - 1;
        if self.in_progress.len() > MAX_ANSWERS || calls_at_once > self.limits.host_calls_at_once {
            return Err(Failure::Crashed(
                "it made too many requests at the same time".to_owned(),
            ));
        }
        Ok(None)
    }

    /// It is not the app's fault if it failed because others came first: the call is repeated later.
    pub(super) fn explain(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Thrown { .. } if self.gave_way.load(Ordering::Relaxed) => Failure::Evicted,
            Failure::TooSlow => self.out_of_time(),
            failure => failure,
        }
    }

    /// Why the app has to be stopped now that the time is over.
    pub(super) fn out_of_time(&self) -> Failure {
        if self.waited_us.load(Ordering::Relaxed) >= MUCH_WAITED_US {
            Failure::Evicted
        } else {
            Failure::TooSlow
        }
    }

    fn run(&mut self, id: u64, call: Json, sent: Option<Reservation>) {
        let (host, calling) = (self.host.clone(), self.calling.clone());
        let (limits, gave_way) = (self.limits.clone(), self.gave_way.clone());
        if let Some(sent) = &sent {
            sent.settle_sent(WEIGHT * call.text().len());
        }
        let memory = self.reserve();
        self.in_progress.spawn(async move {
            let answered = tokio::select! {
                answered = answer(id, &*host, &limits, call, &memory, &gave_way) => answered,
                () = is_ended(sent.as_ref()) => {
                    gave_way.store(true, Ordering::Relaxed);
                    Err("timed out while other apps needed the memory: try again later".to_owned())
                }
            };
            if answered.is_err() && memory.has_waited_for_others() {
                gave_way.store(true, Ordering::Relaxed);
            }
            let answer = answered.unwrap_or_else(|sentence| line(&Answer::new(id, Err(sentence))));
            drop((calling, sent));
            (answer, memory)
        });
    }

    fn sleep(&mut self, id: u64, ms: u64) {
        let memory = self.reserve();
        self.in_progress.spawn(async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            (line(&Answer::new(id, Ok(Json::null()))), memory)
        });
    }

    fn reserve(&self) -> Arc<Reservation> {
        let answer = self.budgets.answers.reserve(self.host.organization(), &self.is_ended);
        Arc::new(answer.counting_in(&self.waited_us))
    }
}

/// The answer to a call, as a line. Nothing is built from what an app says before its length was looked at.
async fn answer(
    id: u64,
    host: &dyn Host,
    limits: &Limits,
    call: Json,
    memory: &Arc<Reservation>,
    gave_way: &AtomicBool,
) -> Result<String, String> {
    let most = if Call::is_fetch(&call) {
        limits.host_call_bytes
    } else {
        limits.host_call_bytes.min(MAX_CALL)
    };
    if call.text().len() > most {
        return Err(format!("this is too large for one call: the limit is {most} bytes"));
    }
    let read = Call::read(&call)?;
    drop(call);
    match read {
        Call::Other(call) => {
            memory.grow(call.largest_answer()).await;
            let json = host.call(call, memory).await?;
            if json.text().len() > MAX_ANSWER {
                return Err(format!("the response is larger than {MAX_ANSWER} bytes: request less"));
            }
            Ok(line(&Answer::new(id, Ok(json))))
        }
        Call::Fetch(request) => tokio::select! {
            response = host.fetch(request, memory) => Ok(response_line(id, response?)),
            () = memory.is_ended() => {
                gave_way.store(true, Ordering::Relaxed);
                Err("the response was interrupted because other apps needed the memory: try again later".to_owned())
            }
        },
    }
}
