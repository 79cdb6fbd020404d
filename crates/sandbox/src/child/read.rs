//! Reading an app: what it is made of, and what it offers.

use std::rc::Rc;

use super::engine::{App, Found, LocatedFailure, seconds};
use super::{browser, graph};
use crate::json::MAX_VALUES;
use crate::manifest::{self, Declared};
use crate::wire::{Meta, Report};
use crate::{Code, Failure, Fault, Files, Limits, Reading};

const KINDS_OF_METRICS: [&str; 3] = ["sum", "max", "min"];

pub(crate) fn read(files: &Files, app: &App<'_>) -> Report {
    match reading(files, app) {
        Ok(reading) => Report::Read(Box::new(reading)),
        Err(fault) => Report::Fault(fault),
    }
}

fn reading(files: &Files, app: &App<'_>) -> Result<Reading, Fault> {
    let Declared {
        manifest,
        config_schema,
        public_jobs,
    } = manifest::read(files)?;
    let code = Rc::new(graph::collect(files, &manifest)?);
    let site = browser::site(files)?;
    let frontend = browser::frontend(files)?;
    let Found {
        capabilities, metrics, ..
    } = find(&code, app)?;
    let refused = |message: String| Fault {
        file: code.entry.clone(),
        ..Fault::new(message)
    };
    if metrics.len() + capabilities.count() > MAX_VALUES {
        let message = format!("an app can have at most {MAX_VALUES} metrics, methods and jobs");
        return Err(refused(message));
    }
    if metrics
        .keys()
        .chain(capabilities.names())
        .any(|name| name.contains('\0'))
    {
        return Err(refused(
            "names of metrics, methods and jobs cannot contain null characters".to_owned(),
        ));
    }
    if let Some((name, _)) = metrics
        .iter()
        .find(|(_, kind)| !KINDS_OF_METRICS.contains(&kind.as_str()))
    {
        let message = format!("the metric '{name}' must be 'sum', 'max' or 'min'");
        return Err(refused(message));
    }
    let code = Rc::unwrap_or_clone(code);
    Ok(Reading {
        manifest,
        capabilities,
        metrics,
        public_jobs,
        config_schema,
        code,
        site,
        frontend,
    })
}

/// Loads the app where it reaches nothing, to see what it offers.
fn find(code: &Rc<Code>, app: &App<'_>) -> Result<Found, Fault> {
    let found = app.load(code, &Meta::default());
    found.map_err(|trouble| fault(code, &app.bridge.limits, trouble))
}

fn fault(code: &Code, limits: &Limits, LocatedFailure { failure, place }: LocatedFailure) -> Fault {
    let message = match failure {
        Failure::TooSlow => format!("the app takes more than {} to load", seconds(limits.load_time)),
        Failure::TooMuchMemory => format!("the app takes more than {} bytes of memory to load", limits.memory),
        other => other.to_string(),
    };
    match place {
        Some((file, position)) => Fault::at(&file, position, message),
        None => Fault {
            file: code.entry.clone(),
            ..Fault::new(message)
        },
    }
}
