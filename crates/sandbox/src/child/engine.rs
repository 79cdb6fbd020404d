//! The JavaScript engine with an app in it.

use std::rc::Rc;
use std::time::Duration;

use rquickjs::promise::PromiseState;
use rquickjs::{Context, Ctx, Error, Function, Object, Promise, Runtime, TypedArray, Value};
use serde::Deserialize;

use super::bridge::{Bridge, repaired};
use super::position::{self, Location};
use super::prelude::{Loaded, prelude};
use crate::failure::NULL_THROWN;
use crate::wire::{Kind, Meta};
use crate::{Capabilities, Code, Failure};

/// Methods of which the return value is of use; of others it may be anything.
const RETURNING: [&str; 3] = ["composeWebhook", "getSettings", "processEvent"];

/// What the engine's own error says.
const OUT_OF_MEMORY: &str = "out of memory";

/// A failure, and where in the source it happened.
pub(crate) struct LocatedFailure {
    pub(crate) failure: Failure,
    pub(crate) place: Option<Location>,
}

impl From<Failure> for LocatedFailure {
    fn from(failure: Failure) -> Self {
        Self { failure, place: None }
    }
}

/// What loading an app finds.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Found {
    #[serde(flatten)]
    pub(crate) capabilities: Capabilities,
    pub(crate) metrics: std::collections::BTreeMap<String, String>,
    /// Whether events are for `exportEvents`, by the batch.
    pub(crate) exports_events: bool,
}

/// Makes an engine with everything that apps have around them, and does some work in it.
pub(crate) fn with_engine(bridge: &Rc<Bridge>, work: impl FnOnce(&App<'_>)) -> Result<(), Failure> {
    let broken = |_| Failure::Crashed("its engine did not start".to_owned());
    let runtime = Runtime::new().map_err(broken)?;
    runtime.set_memory_limit(bridge.limits.memory);
    runtime.set_max_stack_size(bridge.limits.stack);
    let ours = bridge.clone();
    runtime.set_interrupt_handler(Some(Box::new(move || ours.is_overrun())));
    let ours = bridge.clone();
    runtime.set_host_promise_rejection_tracker(Some(Box::new(move |_, _, reason, is_handled| {
        ours.rejected(summary(&reason), is_handled);
    })));
    let context = Context::full(&runtime).map_err(broken)?;
    context.with(|ctx| {
        let code = Loaded::default();
        let shared = prelude(&ctx, &code, bridge).map_err(|error| unprepared(&ctx, &error))?;
        work(&App {
            ctx,
            shared,
            bridge: bridge.clone(),
            code,
        });
        Ok(())
    })
}

fn unprepared(ctx: &Ctx<'_>, error: &Error) -> Failure {
    let reason = if error.is_exception() {
        summary(&ctx.catch())
    } else {
        error.to_string()
    };
    Failure::Crashed(format!("its engine failed to initialize: {reason}"))
}

/// What was thrown, in a few words.
fn summary(reason: &Value<'_>) -> String {
    let of_error = reason.as_exception().and_then(rquickjs::Exception::message);
    let of_text = || reason.as_string().and_then(|text| text.to_string().ok());
    of_error
        .or_else(of_text)
        .unwrap_or_else(|| "an error without a message".to_owned())
}

/// An engine, for the one app that is loaded into it.
pub(crate) struct App<'js> {
    ctx: Ctx<'js>,
    shared: Object<'js>,
    pub(crate) bridge: Rc<Bridge>,
    code: Loaded,
}

impl<'js> App<'js> {
    /// Loads the app and finds what it offers.
    pub(crate) fn load(&self, code: &Rc<Code>, meta: &Meta) -> Result<Found, LocatedFailure> {
        let Some(entry) = &self.code.get_or_init(|| code.clone()).entry else {
            return Ok(Found::default());
        };
        self.bridge.begin(self.bridge.limits.load_time);
        let meta = serde_json::to_string(meta).expect("it holds JSON alone");
        let loaded = self.ours("load").and_then(|load| load.call::<_, String>((entry, meta)));
        let found = loaded.map_err(|error| self.located(error))?;
        self.run_jobs()?;
        self.drain()?;
        let found = serde_json::from_str::<Found>(&found);
        let mut found = found.map_err(|_| Failure::Crashed("its exports cannot be read".to_owned()))?;
        found.capabilities = found.capabilities.checked()?;
        Ok(found)
    }

    /// Calls one of the app's functions with the arguments in this line, and gives what it returned, as JSON.
    pub(crate) fn call(&self, kind: Kind, name: &str, line: &str) -> Result<String, Failure> {
        self.bridge.begin(self.bridge.limits.call_time);
        let kind = if kind == Kind::Job { "job" } else { "method" };
        let value = self.run("call", |call| call.call((kind, name, line)))?;
        if RETURNING.contains(&name) {
            self.as_json(value)
        } else {
            Ok("null".to_owned())
        }
    }

    /// Hands these events to `exportEvents`.
    pub(crate) fn export(&self, lines: &[String]) -> Result<(), Failure> {
        self.bridge.begin(self.bridge.limits.call_time);
        let lines = format!("[{}]", lines.join(","));
        self.run("exportEvents", |export| export.call((lines,))).map(drop)
    }

    /// Lets go of what was held back for the end of calls.
    pub(crate) fn flush(&self) -> Result<(), Failure> {
        self.bridge.begin(self.bridge.limits.call_time);
        self.run("flush", |flush| flush.call(())).map(drop)
    }

    fn ours(&self, name: &str) -> rquickjs::Result<Function<'js>> {
        self.shared.get(name)
    }

    /// Runs a function of the prelude to its end, which is that of the promise if it returns one.
    fn run(
        &self,
        name: &str,
        start: impl FnOnce(Function<'js>) -> rquickjs::Result<Value<'js>>,
    ) -> Result<Value<'js>, Failure> {
        let outcome = match self.ours(name).and_then(start) {
            Ok(value) => self.finish(value),
            Err(error) => Err(self.located(error).failure),
        };
        self.bridge.log_rejections();
        outcome
    }

    fn finish(&self, value: Value<'js>) -> Result<Value<'js>, Failure> {
        let Some(promise) = value.as_promise() else {
            self.run_jobs()?;
            self.drain()?;
            return Ok(value);
        };
        loop {
            if let Err(failure) = self.run_jobs() {
                self.take_rejection(promise);
                return Err(failure);
            }
            if promise.state() != PromiseState::Pending {
                break;
            }
            if !self.bridge.awaits_anything() {
                return Err(Failure::Stuck);
            }
            self.take_answer()?;
        }
        self.drain()?;
        match promise.result() {
            Some(Ok(value)) => Ok(value),
            Some(Err(_)) => {
                let thrown = self.take_rejection(promise);
                Err(thrown.map_or(Failure::Stuck, |thrown| self.described(&thrown).failure))
            }
            None => Err(Failure::Stuck),
        }
    }

    /// What a promise was rejected with, which somebody has waited for: us.
    fn take_rejection(&self, promise: &Promise<'js>) -> Option<Value<'js>> {
        let Some(Err(_)) = promise.result::<Value<'js>>() else {
            return None;
        };
        let thrown = self.ctx.catch();
        self.bridge.rejected(summary(&thrown), true);
        Some(thrown)
    }

    /// Waits for what the app did not wait for, so that nothing goes on between calls.
    fn drain(&self) -> Result<(), Failure> {
        while self.bridge.awaits_host_calls() {
            self.take_answer()?;
            self.run_jobs()?;
        }
        if self.bridge.awaits_anything() {
            self.bridge.forget_timers();
            let forgotten = self.ours("forget").and_then(|forget| forget.call::<_, ()>(()));
            forgotten.map_err(|error| self.located(error).failure)?;
        }
        Ok(())
    }

    fn take_answer(&self) -> Result<(), Failure> {
        let line = self.bridge.answer();
        let taken = self.ours("answer").and_then(|answer| answer.call::<_, ()>((line,)));
        taken.map_err(|error| self.located(error).failure)
    }

    fn run_jobs(&self) -> Result<(), Failure> {
        loop {
            if self.bridge.is_overrun() {
                return Err(Failure::TooSlow);
            }
            if !self.ctx.execute_pending_job() {
                return Ok(());
            }
        }
    }

    fn as_json(&self, value: Value<'js>) -> Result<String, Failure> {
        let text = self
            .ctx
            .json_stringify(value)
            .and_then(|text| text.map(|text| text.to_string()).transpose());
        let text = text
            .map_err(|error| self.located(error).failure)?
            .unwrap_or_else(|| "null".to_owned());
        let limit = self.bridge.limits.result_bytes;
        if text.len() > limit {
            Err(Failure::TooLarge { limit })
        } else {
            Ok(repaired(&text))
        }
    }

    fn located(&self, error: Error) -> LocatedFailure {
        if self.bridge.is_overrun() {
            return Failure::TooSlow.into();
        }
        match error {
            Error::Exception => self.described(&self.ctx.catch()),
            Error::Allocation => Failure::TooMuchMemory.into(),
            other => Failure::Crashed(other.to_string()).into(),
        }
    }

    /// What it means that null was thrown. Without enough memory for an error, the engine does so.
    fn null(&self) -> Failure {
        let some = vec![0_u8; self.bridge.limits.memory / 16];
        let has_room = TypedArray::new_copy(self.ctx.clone(), some).is_ok();
        drop(self.ctx.catch());
        if has_room {
            thrown(NULL_THROWN)
        } else {
            Failure::TooMuchMemory
        }
    }

    fn described(&self, thrown: &Value<'js>) -> LocatedFailure {
        #[derive(Deserialize)]
        struct Thrown {
            name: String,
            message: String,
            stack: String,
            is_retry: bool,
        }
        if thrown.is_null() {
            return self.null().into();
        }
        let described = self
            .ours("describe")
            .and_then(|describe| describe.call::<_, String>((thrown.clone(),)));
        if self.bridge.is_overrun() {
            return Failure::TooSlow.into();
        }
        let Some(thrown) = described
            .ok()
            .and_then(|text| serde_json::from_str::<Thrown>(&text).ok())
        else {
            return undescribed(&self.ctx.catch()).into();
        };
        if thrown.name == "InternalError" && thrown.message == OUT_OF_MEMORY {
            return Failure::TooMuchMemory.into();
        }
        let (stack, place) = match self.code.get() {
            Some(code) => position::in_source(code, &thrown.stack),
            None => (thrown.stack, None),
        };
        let Thrown {
            name,
            message,
            is_retry,
            ..
        } = thrown;
        let failure = Failure::Thrown {
            name: short(name),
            message: short(message),
            stack: short(stack),
            is_retry,
        };
        LocatedFailure { failure, place }
    }
}

/// What it means if not even a description of what was thrown can be had.
fn undescribed(error: &Value<'_>) -> Failure {
    if error.is_null() || summary(error) == OUT_OF_MEMORY {
        return Failure::TooMuchMemory;
    }
    thrown("a value that cannot be shown was thrown")
}

fn thrown(message: &str) -> Failure {
    Failure::Thrown {
        name: "Error".to_owned(),
        message: message.to_owned(),
        stack: String::new(),
        is_retry: false,
    }
}

/// What is kept of a text for people.
fn short(text: String) -> String {
    const MAX: usize = 4000;
    if text.len() <= MAX {
        text
    } else {
        text.chars().take(MAX / 4).collect()
    }
}

/// How long something took, in words; for what is said about loading.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{} seconds", time.as_secs_f32())
}
