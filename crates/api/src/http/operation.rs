//! What extractors say about an operation in the OpenAPI spec.

use aide::openapi::Operation;
use serde_json::Value;

/// The generator of the spec looks for these notes.
pub(crate) fn note(operation: &mut Operation, name: &str, value: impl Into<Value>) {
    operation.extensions.insert(name.to_owned(), value.into());
}
