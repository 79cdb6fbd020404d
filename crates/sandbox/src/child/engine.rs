//! The JavaScript engine with an app in it.

use std::rc::Rc;
use std::time::Duration;

use rquickjs::context::EvalOptions;
use rquickjs::promise::PromiseState;
use rquickjs::{Context, Ctx, Error, Function, Object, Promise, Runtime, TypedArray, Value};
use serde::Deserialize;

use super::bridge::{self, Bridge, repaired};
use super::natives;
use super::position::{self, Location};
use crate::code::Target;
use crate::wire::{Kind, Meta};
use crate::{Capabilities, Code, Failure};

/// What every app has around it, in the order in which it builds up.
const PRELUDE: [&str; 7] = [
    include_str!("../prelude/host.js"),
    include_str!("../prelude/bytes.js"),
    include_str!("../prelude/url.js"),
    include_str!("../prelude/fetch.js"),
    include_str!("../prelude/packages.js"),
    include_str!("../prelude/meta.js"),
    include_str!("../prelude/app.js"),
];

/// Methods of which the return value is of use; of others it may be anything.
const RETURNING: [&str; 3] = ["composeWebhook", "getSettings", "processEvent"];

/// What the engine's own error says.
const OUT_OF_MEMORY: &str = "out of memory";

/// A failure, and where in the source it happened.
pub(crate) struct Trouble {
    pub(crate) failure: Failure,
    pub(crate) place: Option<Location>,
}

impl From<Failure> for Trouble {
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

/// Does some work with an app in an engine of its own.
pub(crate) fn with_app<R>(
    code: Rc<Code>,
    bridge: &Rc<Bridge>,
    work: impl FnOnce(&App<'_>) -> Result<R, Trouble>,
) -> Result<R, Trouble> {
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
        let shared = prelude(&ctx, &code, bridge).map_err(|error| unprepared(&ctx, &error))?;
        work(&App {
            ctx,
            shared,
            bridge: bridge.clone(),
            code,
        })
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

fn prelude<'js>(ctx: &Ctx<'js>, code: &Rc<Code>, bridge: &Rc<Bridge>) -> rquickjs::Result<Object<'js>> {
    let native = Object::new(ctx.clone())?;
    let shared = Object::new(ctx.clone())?;
    natives::install(ctx, &native)?;
    bridge::install(ctx, &native, bridge)?;
    install_modules(ctx, &native, code)?;
    for source in PRELUDE {
        let part: Function<'js> = evaluate(ctx, position::OURS, source)?;
        part.call::<_, ()>((native.clone(), shared.clone()))?;
    }
    Ok(shared)
}

fn evaluate<'js>(ctx: &Ctx<'js>, name: &str, source: impl Into<Vec<u8>>) -> rquickjs::Result<Function<'js>> {
    let mut options = EvalOptions::default();
    // Apps are written for a place where nothing is strict unless it says so.
    options.strict = false;
    options.filename = Some(name.to_owned());
    ctx.eval_with_options(source, options)
}

fn install_modules<'js>(ctx: &Ctx<'js>, native: &Object<'js>, code: &Rc<Code>) -> rquickjs::Result<()> {
    let all = code.clone();
    let resolve = move |importer: String, specifier: String| {
        let target = all.modules.get(&importer)?.imports.get(&specifier)?;
        Some(match target {
            Target::File(name) => format!("file:{name}"),
            Target::Package(name) => format!("package:{name}"),
            Target::Absent(name) => format!("absent:{name}"),
        })
    };
    native.set("resolve", Function::new(ctx.clone(), resolve)?)?;
    let all = code.clone();
    let is_esm = move |name: String| all.modules.get(&name).is_some_and(|module| module.is_esm);
    native.set("isEsm", Function::new(ctx.clone(), is_esm)?)?;
    let all = code.clone();
    let compile = move |ctx: Ctx<'js>, name: String| evaluate(&ctx, &name, wrapped(&all, &name));
    native.set("compile", Function::new(ctx.clone(), compile)?)
}

/// A module as a function. Its head is one line, which [`position`] takes off again.
fn wrapped(code: &Code, name: &str) -> String {
    let module = &code.modules[name];
    let declared = module.declared.join(", ");
    let body = &module.code;
    format!(
        "(function (exports, require, module, __import, __exportAll, __importLater, __importMeta) {{\n\
         {body}\nreturn {{ __proto__: null, {declared} }}; }})"
    )
}

/// What was thrown, in a few words.
fn summary(reason: &Value<'_>) -> String {
    let of_error = reason.as_exception().and_then(rquickjs::Exception::message);
    let of_text = || reason.as_string().and_then(|text| text.to_string().ok());
    of_error
        .or_else(of_text)
        .unwrap_or_else(|| "an error without a message".to_owned())
}

/// An app in its engine.
pub(crate) struct App<'js> {
    ctx: Ctx<'js>,
    shared: Object<'js>,
    pub(crate) bridge: Rc<Bridge>,
    code: Rc<Code>,
}

impl<'js> App<'js> {
    /// Loads the app and finds what it offers.
    pub(crate) fn load(&self, meta: &Meta) -> Result<Found, Trouble> {
        let Some(entry) = &self.code.entry else {
            return Ok(Found::default());
        };
        self.bridge.begin(self.bridge.limits.load_time);
        let meta = serde_json::to_string(meta).expect("it holds JSON alone");
        let loaded = self.ours("load").and_then(|load| load.call::<_, String>((entry, meta)));
        let found = loaded.map_err(|error| self.trouble(error))?;
        self.run_jobs()?;
        self.drain()?;
        serde_json::from_str(&found).map_err(|_| Failure::Crashed("its exports cannot be read".to_owned()).into())
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

    /// Runs an asynchronous function of the prelude to its end.
    fn run(
        &self,
        name: &str,
        start: impl FnOnce(Function<'js>) -> rquickjs::Result<Promise<'js>>,
    ) -> Result<Value<'js>, Failure> {
        let outcome = match self.ours(name).and_then(start) {
            Ok(promise) => self.finish(&promise),
            Err(error) => Err(self.trouble(error).failure),
        };
        self.bridge.log_rejections();
        outcome
    }

    fn finish(&self, promise: &Promise<'js>) -> Result<Value<'js>, Failure> {
        loop {
            self.run_jobs()?;
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
                let thrown = self.ctx.catch();
                // We are the ones who waited for it.
                self.bridge.rejected(summary(&thrown), true);
                Err(self.described(&thrown).failure)
            }
            None => Err(Failure::Stuck),
        }
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
            forgotten.map_err(|error| self.trouble(error).failure)?;
        }
        Ok(())
    }

    fn take_answer(&self) -> Result<(), Failure> {
        let line = self.bridge.answer();
        let taken = self.ours("answer").and_then(|answer| answer.call::<_, ()>((line,)));
        taken.map_err(|error| self.trouble(error).failure)
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
            .map_err(|error| self.trouble(error).failure)?
            .unwrap_or_else(|| "null".to_owned());
        let limit = self.bridge.limits.result_bytes;
        if text.len() > limit {
            Err(Failure::TooLarge { limit })
        } else {
            Ok(repaired(&text))
        }
    }

    fn trouble(&self, error: Error) -> Trouble {
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
            thrown("null was thrown, by the app or for lack of memory")
        } else {
            Failure::TooMuchMemory
        }
    }

    fn described(&self, thrown: &Value<'js>) -> Trouble {
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
        let (stack, place) = position::in_source(&self.code, &thrown.stack);
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
        Trouble { failure, place }
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
    const MOST: usize = 4000;
    if text.len() <= MOST {
        text
    } else {
        text.chars().take(MOST / 4).collect()
    }
}

/// How long something took, in words; for what is said about loading.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{} seconds", time.as_secs_f32())
}
