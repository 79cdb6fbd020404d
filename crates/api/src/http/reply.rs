//! Answers that went well.

use std::marker::PhantomData;

use aide::OperationOutput;
use aide::generate::GenContext;
use aide::openapi::{MediaType, Operation, Response as ResponseDoc, SchemaObject, StatusCode as StatusDoc};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::http::conditional::entity_tag;
use crate::http::json::to_json;

/// A resource as JSON, with the strong `ETag` that its bytes make.
pub(crate) struct Reply<V, const STATUS: u16 = 200> {
    body: Vec<u8>,
    location: Option<String>,
    kept: Option<Vec<u8>>,
    view: PhantomData<V>,
}

/// A resource that was just made.
pub(crate) type Created<V> = Reply<V, 201>;

/// Done, and there is nothing to say.
pub(crate) struct NoContent;

/// What is kept of an answer that holds a secret: the same without it.
#[derive(Debug, Clone)]
pub(crate) struct KeptBody(pub(crate) Vec<u8>);

/// What is sent of a thing. Views borrow; `Doc` is the one that handlers name in their signatures.
pub(crate) trait View: Serialize + Send + Sync {
    type Doc: JsonSchema;
}

impl<D, const STATUS: u16> Reply<D, STATUS> {
    pub(crate) fn new<V: View<Doc = D>>(view: &V) -> Self {
        Self::written(to_json(view))
    }

    /// A view that is JSON already.
    pub(crate) fn written(body: Vec<u8>) -> Self {
        Self {
            body,
            location: None,
            kept: None,
            view: PhantomData,
        }
    }

    /// What a repetition of the request is answered with, when this answer holds what is shown only once.
    pub(crate) fn kept_as<V: View<Doc = D>>(mut self, view: &V) -> Self {
        self.kept = Some(to_json(view));
        self
    }

    /// Where the resource is to be found from now on.
    pub(crate) fn at(mut self, location: String) -> Self {
        self.location = Some(location);
        self
    }
}

impl<V, const STATUS: u16> IntoResponse for Reply<V, STATUS> {
    fn into_response(self) -> Response {
        // The tag names the resource as it can be read later, without what is shown only once.
        let tag = entity_tag(self.kept.as_deref().unwrap_or(&self.body));
        let mut response = Response::new(self.body.into());
        *response.status_mut() = StatusCode::from_u16(STATUS).expect("a literal status");
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ETAG, tag);
        if let Some(kept) = self.kept {
            response.extensions_mut().insert(KeptBody(kept));
        }
        let headers = response.headers_mut();
        if let Some(Ok(location)) = self.location.map(HeaderValue::try_from) {
            headers.insert(header::LOCATION, location);
        }
        response
    }
}

impl IntoResponse for NoContent {
    fn into_response(self) -> Response {
        StatusCode::NO_CONTENT.into_response()
    }
}

/// An answer with a JSON body, for the OpenAPI spec.
pub(crate) fn described<V: JsonSchema>(context: &mut GenContext, description: &str) -> ResponseDoc {
    let json_schema = context.schema.subschema_for::<V>();
    let schema = SchemaObject {
        json_schema,
        external_docs: None,
        example: None,
    };
    let media_type = MediaType {
        schema: Some(schema),
        ..MediaType::default()
    };
    ResponseDoc {
        description: description.to_owned(),
        content: [("application/json".to_owned(), media_type)].into_iter().collect(),
        ..ResponseDoc::default()
    }
}

impl<V: JsonSchema, const STATUS: u16> OperationOutput for Reply<V, STATUS> {
    type Inner = V;

    fn inferred_responses(context: &mut GenContext, _: &mut Operation) -> Vec<(Option<StatusDoc>, ResponseDoc)> {
        let description = if STATUS == 201 { "Created." } else { "Done." };
        vec![(Some(StatusDoc::Code(STATUS)), described::<V>(context, description))]
    }
}

impl OperationOutput for NoContent {
    type Inner = ();

    fn inferred_responses(_: &mut GenContext, _: &mut Operation) -> Vec<(Option<StatusDoc>, ResponseDoc)> {
        let response = ResponseDoc {
            description: "Success. There is no body.".to_owned(),
            ..ResponseDoc::default()
        };
        vec![(Some(StatusDoc::Code(204)), response)]
    }
}

/// Errors are the same for all operations; the OpenAPI spec gets them in one place.
impl OperationOutput for crate::http::error::Problem {
    type Inner = ();
}
