//! What routes and extractors say about an operation in the OpenAPI spec.

use aide::openapi::Operation;
use aide::transform::TransformOperation;
use serde_json::Value;

/// Names an operation. Everything else about it is read off the handler's signature.
pub(crate) fn operation(
    id: &'static str,
    tag: &'static str,
    summary: &'static str,
) -> impl FnOnce(TransformOperation<'_>) -> TransformOperation<'_> {
    move |operation| operation.id(id).tag(tag).summary(summary)
}

/// The generator of the spec looks for these notes.
pub(crate) fn note(operation: &mut Operation, name: &str, value: impl Into<Value>) {
    operation.extensions.insert(name.to_owned(), value.into());
}
