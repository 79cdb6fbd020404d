//! From what was read of an app's code to what is kept of it, and from what went wrong to what is said.

use std::time::Duration;

use sandbox::{Fault, Reading, Unread};
use serde_json::Value;
use service::pipeline::{AppMetadata, Files, Package};
use service::{Error, Invalid};

use crate::source::{self, Checksum};

const MAX_DESCRIPTION: usize = 2000;
const MAX_ICON: usize = 800;
/// When it is worth trying again if there was no room to read an app.
pub(crate) const BUSY_FOR: Duration = Duration::from_secs(5);

pub(crate) fn package(files: Files, reading: Reading) -> Package {
    let json = |value: Result<Value, serde_json::Error>| value.expect("what was read is JSON");
    let manifest = reading.manifest;
    let description = manifest.description.unwrap_or_default();
    Package {
        sha256: Checksum::of(&files).to_string(),
        files,
        code: json(serde_json::to_value(&reading.code)),
        metadata: AppMetadata {
            name: manifest.name,
            description: description.chars().take(MAX_DESCRIPTION).collect(),
            icon: manifest.icon.filter(|icon| icon.chars().count() <= MAX_ICON),
            config_schema: reading.config_schema,
            capabilities: json(serde_json::to_value(&reading.capabilities)),
            metrics: json(serde_json::to_value(&reading.metrics)),
            public_jobs: Value::Object(reading.public_jobs),
            hosts: manifest.hosts,
            site: reading.site,
            frontend: reading.frontend,
        },
    }
}

/// Code that does not load: the file is named in the field, the rest in the sentence.
fn unreadable(fault: &Fault) -> Error {
    let field = match &fault.file {
        Some(file) => format!("source__{file}"),
        None => "source".to_owned(),
    };
    Error::Invalid(vec![Invalid {
        field: Some(field.into()),
        code: "does_not_load",
        detail: fault.to_string(),
    }])
}

/// An app that was not read.
pub(crate) fn unread(unread: &Unread) -> Error {
    match unread {
        Unread::Fault(fault) => unreadable(fault),
        Unread::Busy => Error::Unavailable {
            detail: "too many apps are being validated".to_owned(),
            wait: BUSY_FOR,
        },
    }
}

/// Source that could not be had.
pub(crate) fn fetched(error: &source::Error) -> Error {
    tracing::info!(
        error = error as &dyn std::error::Error,
        "could not download an app's source"
    );
    if error.is_theirs() {
        return Error::invalid("url", "invalid_input", error.to_string());
    }
    Error::Conflict {
        code: "source_unavailable",
        detail: error.to_string(),
    }
}
