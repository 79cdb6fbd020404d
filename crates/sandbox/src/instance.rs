//! An app that is open for calls.

mod host_calls;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};

use self::host_calls::{CallEvent, HostCalls};
use crate::budget::Budgets;
use crate::limits::GRACE;
use crate::process::{Lines, Process};
use crate::wire::{Kind, Order, lines};
use crate::{Capabilities, Failure, Host, Json, Limits, Reservation};

/// So many bytes of answers may wait for a child to read them. What is larger waits in the budget before it is there.
const MAX_UNREAD: usize = 18 * 1024 * 1024;

/// An app with a process of its own. Calls run one after the other. Dropped, the process is killed.
pub struct Instance {
    /// None once the app is gone.
    process: Option<Process>,
    capabilities: Capabilities,
    limits: Arc<Limits>,
    host_calls: HostCalls,
    /// Whether a call is in progress. One that was dropped halfway leaves this behind.
    is_busy: bool,
    is_set_up: bool,
    most_unread: usize,
    _place: OwnedSemaphorePermit,
}

/// A call that was not made yet.
pub struct PreparedCall {
    method: String,
    order: String,
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
            most_unread: MAX_UNREAD,
            _place: place,
        };
        let time = instance.limits.load_time;
        match instance.next(Instant::now() + time + GRACE).await {
            Ok(CallEvent::Ready(capabilities)) => instance.capabilities = capabilities,
            Ok(CallEvent::Outcome(Err(failure))) | Err(failure) => return Err(instance.host_calls.explain(failure)),
            Ok(CallEvent::Outcome(Ok(_)) | CallEvent::Held | CallEvent::Stopped) => {
                return Err(Failure::Crashed("it responded too early".to_owned()));
            }
        }
        Ok(instance)
    }

    /// Leaves more of the processors to others: nobody who has many processes has more of these than somebody who has one. The first has rank
    /// 0. Without special rights, a process never gets a better rank again.
    pub fn lower_priority(&self, rank: u32) {
        if let Some(process) = &self.process {
            process.lower_priority(rank);
        }
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

    /// The same up to the first event that fails, or for which the app asks the host for something or holds something back, and for a
    /// moment only. Those after it are [`Failure::NotRun`], and the app is still there.
    pub async fn call_until_request(&mut self, method: &str, each: &[impl Serialize]) -> Vec<Result<Json, Failure>> {
        if !self.capabilities.has(method) {
            return vec![Err(Failure::NoSuchMethod(method.to_owned())); each.len()];
        }
        let each: Vec<_> = each.iter().map(|argument| [argument]).collect();
        let order = Lines(ordered(Kind::Method, method, &each, true), None);
        self.carry_out(order, each.len(), true, self.limits.call_time).await
    }

    /// A call of a method that is written down, and made by [`Self::call_prepared`]: what it is called with is no longer needed.
    pub fn prepare(&self, method: &str, arguments: &[impl Serialize]) -> PreparedCall {
        PreparedCall {
            method: method.to_owned(),
            order: ordered(Kind::Method, method, &[arguments], false),
        }
    }

    /// The memory is free when the app's process has read what it is called with.
    pub async fn call_prepared(&mut self, call: PreparedCall, memory: Arc<Reservation>) -> Result<Json, Failure> {
        let PreparedCall { method, order } = call;
        if !self.capabilities.has(&method) {
            return Err(Failure::NoSuchMethod(method));
        }
        let order = Lines(order, Some(memory));
        only(self.carry_out(order, 1, false, self.limits.call_time).await)
    }

    /// Whether the app asked the host for something in its latest call: then it has said before how each event up to there went.
    pub fn has_asked(&self) -> bool {
        self.host_calls.has_asked
    }

    /// What it is for those who stop the app because it takes too long: its own fault, unless it had to wait for others.
    pub fn out_of_time(&self) -> Failure {
        self.host_calls.out_of_time()
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
        let order = Lines(ordered(kind, name, each, false), None);
        self.carry_out(order, each.len(), false, time).await
    }

    async fn carry_out(
        &mut self,
        order: Lines,
        count: usize,
        may_stop: bool,
        time: Duration,
    ) -> Vec<Result<Json, Failure>> {
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
        self.most_unread = MAX_UNREAD + order.0.len();
        if let Some(process) = &self.process {
            process.send_lines(order);
        }
        // Whatever the app says of how far it has got, this is the time it has.
        let deadline = Instant::now() + time + GRACE;
        while outcomes.len() < count {
            match self.next(deadline).await {
                Ok(CallEvent::Outcome(outcome)) => {
                    outcomes.push(outcome.map_err(|failure| self.host_calls.explain(failure)));
                }
                Ok(CallEvent::Held) => {}
                Ok(CallEvent::Stopped) if may_stop => outcomes.resize(count, Err(Failure::NotRun)),
                Ok(CallEvent::Ready(_) | CallEvent::Stopped) => {
                    outcomes.push(Err(self.fail(Failure::unexpected_message()).await));
                }
                Err(failure) => outcomes.push(Err(self.host_calls.explain(failure))),
            }
            if self.process.is_none() {
                outcomes.resize(count, Err(Failure::NotRun));
            }
        }
        // What is still in progress are timers that nobody waits for.
        self.host_calls.in_progress.abort_all();
        self.is_busy = false;
        outcomes
    }

    /// Waits for what matters to a call, and answers the app's host calls in the meantime. A failure here ends the process.
    async fn next(&mut self, deadline: Instant) -> Result<CallEvent, Failure> {
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
                () = self.host_calls.is_ended.notified() => Err(Failure::Evicted),
                Some(answer) = self.host_calls.in_progress.join_next() => {
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
                Ok(Some(CallEvent::Outcome(Err(failure)))) if failure.is_final() => {
                    return Err(self.fail(failure).await);
                }
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
        self.host_calls.in_progress.abort_all();
        if let Some(mut process) = self.process.take() {
            process.kill().await;
        }
    }
}

fn unread() -> Failure {
    Failure::Crashed("it does not read the responses it requested".to_owned())
}

/// The outcome of the only call.
fn only(mut outcomes: Vec<Result<Json, Failure>>) -> Result<Json, Failure> {
    outcomes.pop().unwrap_or(Err(Failure::NotRun))
}

fn looked_into(json: &Json) -> Result<Value, Failure> {
    serde_json::from_str(json.text()).map_err(|_| Failure::unexpected_message())
}

fn ordered(kind: Kind, name: &str, each: &[impl Serialize], until_request: bool) -> String {
    let call = Order::Call {
        kind,
        name: name.to_owned(),
        count: each.len(),
        until_request,
    };
    lines(&call, each)
}
