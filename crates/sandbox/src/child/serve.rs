//! Running an app: one call after the other, as the parent orders them.

use std::convert::Infallible;
use std::process::exit;
use std::rc::Rc;

use super::bridge::Bridge;
use super::engine::{App, Trouble, with_app};
use super::pipe::Pipe;
use crate::wire::{Kind, Meta, Order, Report};
use crate::{Code, Failure, Limits};

pub(crate) fn serve(code: Code, meta: &Meta, limits: Limits, pipe: &Rc<Pipe>) {
    let bridge = Bridge::new(limits, pipe.clone(), false);
    let outcome: Result<Infallible, Trouble> = with_app(Rc::new(code), &bridge, |app| {
        let found = app.load(meta)?;
        app.bridge.report(&Report::Ready(found.capabilities));
        loop {
            obey(app, found.exports_events);
        }
    });
    let Err(Trouble { failure, .. }) = outcome;
    pipe.report(&Report::Failed(failure));
}

fn obey(app: &App<'_>, exports_events: bool) {
    let order = app.bridge.item();
    let Ok(Order::Call { kind, name, count }) = serde_json::from_str(&order) else {
        exit(2)
    };
    if exports_events && kind == Kind::Method && name == "onEvent" {
        let lines: Vec<String> = (0..count).map(|_| app.bridge.item()).collect();
        let outcome = app.export(&lines).map(|()| "null".to_owned());
        (0..count).for_each(|_| tell(app, outcome.clone()));
    } else {
        call_each(app, kind, &name, count);
    }
}

fn call_each(app: &App<'_>, kind: Kind, name: &str, count: usize) {
    // Those whose objects are held back are not over before these are let go of.
    let mut held = Vec::new();
    for _ in 0..count {
        let line = app.bridge.item();
        let outcome = app.call(kind, name, &line);
        let is_held = !held.is_empty() || app.bridge.is_holding();
        let is_final = outcome.as_ref().is_err_and(Failure::is_final);
        if is_held && !is_final {
            app.bridge.report(&Report::Held);
            held.push(outcome);
        } else {
            tell(app, outcome);
        }
    }
    if !held.is_empty() {
        let flushed = app.flush();
        for outcome in held {
            tell(app, outcome.and_then(|value| flushed.clone().map(|()| value)));
        }
    }
}

/// Says how a call ended. If the app has to be stopped, this is its end.
fn tell(app: &App<'_>, outcome: Result<String, Failure>) {
    match outcome {
        Ok(value) => app.bridge.write(&format!("{{\"done\":{value}}}\n")),
        Err(failure) => {
            let is_final = failure.is_final();
            app.bridge.report(&Report::Failed(failure));
            if is_final {
                exit(0);
            }
        }
    }
}
