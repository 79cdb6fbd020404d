//! What routes and extractors say about an operation in the OpenAPI spec.

use aide::openapi::Operation;
use aide::transform::TransformOperation;
use serde_json::Value;

/// How an operation is called. Everything else about it is read off the handler's signature.
pub(crate) struct Named {
    id: &'static str,
    tag: &'static str,
    summary: &'static str,
}

pub(crate) fn operation(id: &'static str, tag: &'static str, summary: &'static str) -> Named {
    Named { id, tag, summary }
}

impl Named {
    pub(crate) fn name(self, operation: TransformOperation<'_>) -> TransformOperation<'_> {
        operation.id(self.id).tag(self.tag).summary(self.summary)
    }
}

/// The generator of the spec looks for these notes.
pub(crate) fn note(operation: &mut Operation, name: &str, value: impl Into<Value>) {
    operation.extensions.insert(name.to_owned(), value.into());
}
