//! Running an app: one call after the other, as the parent orders them.

use std::process::exit;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::engine::App;
use crate::wire::{Kind, Meta, Order, Report};
use crate::{Code, Failure};

/// Calls that are made until one asks for something end after so long as well: together they are no longer than a slow one.
const MAX_GROUP: Duration = Duration::from_millis(50);

pub(crate) fn serve(code: Code, meta: &Meta, app: &App<'_>) {
    app.bridge.open();
    let found = match app.load(&Rc::new(code), meta) {
        Ok(found) => found,
        Err(trouble) => return app.bridge.report(&Report::Failed(trouble.failure)),
    };
    app.bridge.report(&Report::Ready(found.capabilities));
    loop {
        obey(app, found.exports_events);
    }
}

fn obey(app: &App<'_>, exports_events: bool) {
    let order = app.bridge.item();
    let Ok(Order::Call {
        kind,
        name,
        count,
        until_request,
    }) = serde_json::from_str(&order)
    else {
        exit(2)
    };
    if exports_events && kind == Kind::Method && name == "onEvent" {
        let lines: Vec<String> = (0..count).map(|_| app.bridge.item()).collect();
        let outcome = app.export(&lines).map(|()| "null".to_owned());
        (0..count).for_each(|_| tell(app, outcome.clone()));
    } else {
        call_each(app, kind, &name, count, until_request);
    }
}

fn call_each(app: &App<'_>, kind: Kind, name: &str, count: usize, until_request: bool) {
    // Those whose objects are held back are not over before these are let go of.
    let mut held = Vec::new();
    let mut left = count;
    let begun = Instant::now();
    while left > 0 {
        left -= 1;
        let line = app.bridge.item();
        let outcome = app.call(kind, name, &line);
        // What is held back would be decided with calls that come later.
        let has_effects = outcome.is_err() || app.bridge.has_asked() || app.bridge.is_holding();
        let is_last = until_request && (has_effects || begun.elapsed() > MAX_GROUP);
        let is_held = !held.is_empty() || app.bridge.is_holding();
        let is_final = outcome.as_ref().is_err_and(Failure::is_final);
        if is_held && !is_final {
            app.bridge.report(&Report::Held);
            held.push(outcome);
        } else {
            tell(app, outcome);
        }
        if is_last {
            break;
        }
    }
    (0..left).for_each(|_| drop(app.bridge.item()));
    if !held.is_empty() {
        let flushed = app.flush();
        for outcome in held {
            tell(app, outcome.and_then(|value| flushed.clone().map(|()| value)));
        }
    }
    if left > 0 {
        app.bridge.report(&Report::Stopped);
    }
}

/// Says how a call ended. If the app has to be stopped, this is its end.
fn tell(app: &App<'_>, outcome: Result<String, Failure>) {
    match outcome {
        Ok(value) => app.bridge.done(&value),
        Err(failure) => {
            let is_final = failure.is_final();
            app.bridge.report(&Report::Failed(failure));
            if is_final {
                exit(0);
            }
        }
    }
}
