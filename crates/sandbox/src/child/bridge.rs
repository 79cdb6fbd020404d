//! What an app may ask of the world outside its engine, and how much of it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::process::exit;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rquickjs::{Ctx, Exception, Function, Object, Result};

use super::confine;
use super::pipe::Pipe;
use crate::wire::{Answer, Report};
use crate::{Level, Limits};

/// How often the allowance of processor time is renewed, at most.
const RENEWAL: Duration = Duration::from_secs(1);

/// What goes between an app and the parent process, counted.
pub(crate) struct Bridge {
    pub(crate) limits: Limits,
    pipe: Rc<Pipe>,
    /// Until an app is opened, it reaches nothing.
    is_closed: Cell<bool>,
    counts: RefCell<Counts>,
    /// Arguments of calls to come that were read while an answer was awaited.
    items: RefCell<VecDeque<String>>,
    deadline: Cell<Instant>,
    /// Until when processor time is allowed, however much of it is used.
    allowed: Cell<Instant>,
    is_overrun: Cell<bool>,
    /// Whether objects are held back until the end of the calls in progress.
    is_holding: Cell<bool>,
    /// Errors of promises that nobody waits for.
    rejections: RefCell<Vec<String>>,
}

#[derive(Default)]
struct Counts {
    last: u64,
    calls: usize,
    logs: usize,
    /// Questions without an answer, and whether they are timers.
    open: BTreeMap<u64, bool>,
}

impl Bridge {
    pub(crate) fn new(limits: Limits, pipe: Rc<Pipe>) -> Rc<Self> {
        let deadline = Instant::now() + limits.load_time;
        Rc::new(Self {
            deadline: Cell::new(deadline),
            limits,
            pipe,
            is_closed: Cell::new(true),
            counts: RefCell::default(),
            items: RefCell::default(),
            allowed: Cell::new(deadline),
            is_overrun: Cell::new(false),
            is_holding: Cell::new(false),
            rejections: RefCell::default(),
        })
    }

    /// From here on, the app reaches the host.
    pub(crate) fn open(&self) {
        self.is_closed.set(false);
    }

    /// Begins a call: its time and its counts start again.
    pub(crate) fn begin(&self, time: Duration) {
        let deadline = Instant::now() + time;
        self.deadline.set(deadline);
        let mut counts = self.counts.borrow_mut();
        counts.calls = 0;
        counts.logs = 0;
        if deadline > self.allowed.get() {
            self.allowed.set(deadline + RENEWAL);
            // Without it the process ends early, which its parent notices.
            let _ = confine::allow_processor(time + RENEWAL);
        }
    }

    /// Whether the time of the call is over.
    pub(crate) fn is_overrun(&self) -> bool {
        if !self.is_overrun.get() && Instant::now() > self.deadline.get() {
            self.is_overrun.set(true);
        }
        self.is_overrun.get()
    }

    pub(crate) fn is_holding(&self) -> bool {
        self.is_holding.get()
    }

    /// Whether an answer will come, be it that of a timer.
    pub(crate) fn awaits_anything(&self) -> bool {
        !self.counts.borrow().open.is_empty()
    }

    /// Whether an answer will come that is not a timer's.
    pub(crate) fn awaits_host_calls(&self) -> bool {
        self.counts.borrow().open.values().any(|is_timer| !is_timer)
    }

    pub(crate) fn forget_timers(&self) {
        self.counts.borrow_mut().open.clear();
    }

    /// Waits for the next answer. Without a parent there is nothing left to do.
    pub(crate) fn answer(&self) -> String {
        loop {
            let line = self.line();
            match Answer::id_of(&line) {
                Some(id) if self.counts.borrow_mut().open.remove(&id).is_some() => return line,
                // A timer that was called off.
                Some(_) => {}
                None => self.items.borrow_mut().push_back(line),
            }
        }
    }

    /// The next line that is no answer.
    pub(crate) fn item(&self) -> String {
        if let Some(item) = self.items.borrow_mut().pop_front() {
            return item;
        }
        loop {
            let line = self.line();
            if Answer::id_of(&line).is_none() {
                return line;
            }
        }
    }

    fn line(&self) -> String {
        self.pipe.read().unwrap_or_else(|| exit(0))
    }

    pub(crate) fn report(&self, report: &Report) {
        self.pipe.report(report);
    }

    /// Whether the call has asked the host for something.
    pub(crate) fn has_asked(&self) -> bool {
        self.counts.borrow().calls > 0
    }

    /// Says that the call went well. Nobody has to know immediately of one that reached nothing: if the process is killed, whatever it did
    /// is lost with it.
    pub(crate) fn done(&self, value: &str) {
        let line = format!("{{\"done\":{value}}}\n");
        if self.has_asked() {
            self.pipe.write(&line);
        } else {
            self.pipe.write_later(&line);
        }
    }

    /// Notes an error that nobody waits for, or that somebody came to wait for it.
    pub(crate) fn rejected(&self, error: String, is_handled: bool) {
        let mut rejections = self.rejections.borrow_mut();
        if !is_handled && rejections.len() < self.limits.log_lines {
            rejections.push(error);
        } else if let Some(place) = rejections.iter().position(|noted| *noted == error) {
            rejections.remove(place);
        }
    }

    pub(crate) fn log_rejections(&self) {
        for error in self.rejections.take() {
            self.log(Level::Error, &format!("Unhandled promise rejection: {error}"));
        }
    }

    fn log(&self, level: Level, message: &str) {
        let most = self.limits.log_lines;
        let count = {
            let mut counts = self.counts.borrow_mut();
            counts.logs += 1;
            counts.logs
        };
        if self.is_closed.get() || count > most + 1 {
            return;
        }
        let (level, message) = if count > most {
            (Level::Warn, "log limit reached: further lines of this call are dropped")
        } else {
            (level, cut(message, self.limits.log_line_bytes))
        };
        self.report(&Report::Log {
            level,
            message: message.to_owned(),
        });
    }

    /// The number of a new question, if there may be one.
    fn ask(&self, ctx: &Ctx<'_>, bytes: usize, is_timer: bool) -> Result<u64> {
        let mut counts = self.counts.borrow_mut();
        let refusal = if self.is_closed.get() {
            "network and storage are not available while the app is being loaded"
        } else if counts.open.len() >= self.limits.host_calls_at_once {
            "too many concurrent calls; wait for some to finish"
        } else if counts.calls >= self.limits.host_calls {
            "too many calls"
        } else if bytes > self.limits.host_call_bytes {
            "this is too large for one call"
        } else {
            counts.calls += 1;
            counts.last += 1;
            let id = counts.last;
            counts.open.insert(id, is_timer);
            return Ok(id);
        };
        Err(Exception::throw_message(ctx, refusal))
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "JavaScript's numbers are these, and ids stay far below the limit"
    )]
    fn send(&self, ctx: &Ctx<'_>, call: &str) -> Result<f64> {
        let id = self.ask(ctx, call.len(), false)?;
        self.pipe
            .write(&format!("{{\"asked\":{{\"id\":{id},\"call\":{}}}}}\n", repaired(call)));
        Ok(id as f64)
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "JavaScript's numbers are these, and ids stay far below the limit"
    )]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the number is within bounds"
    )]
    fn sleep(&self, ctx: &Ctx<'_>, ms: f64) -> Result<f64> {
        let most = self.limits.call_time.as_secs_f64() * 1000.0;
        let id = self.ask(ctx, 0, true)?;
        self.report(&Report::Sleep {
            id,
            ms: ms.clamp(0.0, most) as u64,
        });
        Ok(id as f64)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is one of ours, or it is not found"
    )]
    fn forget(&self, id: f64) {
        self.counts.borrow_mut().open.remove(&(id as u64));
    }
}

/// Puts the functions of the bridge where the prelude finds them.
pub(crate) fn install<'js>(ctx: &Ctx<'js>, native: &Object<'js>, bridge: &Rc<Bridge>) -> Result<()> {
    let with = |bridge: &Rc<Bridge>| bridge.clone();
    let our = with(bridge);
    let send = move |ctx: Ctx<'js>, call: String| our.send(&ctx, &call);
    native.set("send", Function::new(ctx.clone(), send)?)?;
    let our = with(bridge);
    let sleep = move |ctx: Ctx<'js>, ms: f64| our.sleep(&ctx, ms);
    native.set("sleep", Function::new(ctx.clone(), sleep)?)?;
    let our = with(bridge);
    native.set("forget", Function::new(ctx.clone(), move |id: f64| our.forget(id))?)?;
    let our = with(bridge);
    native.set(
        "holding",
        Function::new(ctx.clone(), move |is_so: bool| our.is_holding.set(is_so))?,
    )?;
    let our = with(bridge);
    let log = move |level: String, message: String| our.log(level_of(&level), &message);
    native.set("log", Function::new(ctx.clone(), log)?)
}

fn level_of(name: &str) -> Level {
    match name {
        "debug" => Level::Debug,
        "info" => Level::Info,
        "warn" => Level::Warn,
        "error" => Level::Error,
        _ => Level::Log,
    }
}

/// The beginning of a text, in so many bytes at most.
fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// JSON in which halves of characters are replaced. The engine writes them as escapes, which other parsers refuse.
pub(crate) fn repaired(json: &str) -> String {
    if !json.contains("\\ud") {
        return json.to_owned();
    }
    let mut repaired = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(place) = rest.find('\\') {
        let (before, escape) = rest.split_at(place);
        repaired.push_str(before);
        let is_half = escape.starts_with("\\ud") && escape.len() >= 6;
        let length = if is_half { 6 } else { 2.min(escape.len()) };
        repaired.push_str(if is_half { "\\ufffd" } else { &escape[..length] });
        rest = &escape[length..];
    }
    repaired.push_str(rest);
    repaired
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_characters_are_replaced_and_nothing_else() {
        assert_eq!(repaired(r#"{"a":"\ud83d!"}"#), r#"{"a":"\ufffd!"}"#);
        assert_eq!(repaired(r#""\\ud83d \n \ud800""#), r#""\\ud83d \n \ufffd""#);
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut("äö", 3), "ä");
        assert_eq!(cut("ab", 3), "ab");
    }
}
