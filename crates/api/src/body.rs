//! Request bodies: JSON, bounded, checked against the schema that is published for them.

use aide::OperationInput;
use aide::generate::GenContext;
use aide::openapi::{MediaType, Operation, RequestBody, SchemaObject};
use aide::operation::set_body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::Problem;
use crate::{json, schema};

/// No request needs more.
pub(crate) const MOST_BYTES: usize = 1024 * 1024;

/// The checked body of a request. An empty one counts as `{}`.
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: JsonSchema + DeserializeOwned + 'static> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let bytes = collect(body).await?;
        let value = if bytes.is_empty() {
            Value::Object(Map::new())
        } else {
            expect_json(&parts.headers)?;
            json::parse(&bytes).map_err(|error| Problem::Unreadable(error.to_string()))?
        };
        schema::read(value).map(Self)
    }
}

/// Reads a body to its end, unless that is too far away.
pub(crate) async fn collect(body: axum::body::Body) -> Result<Bytes, Problem> {
    match Limited::new(body, MOST_BYTES).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Problem::TooLarge),
        Err(error) => Err(Problem::Unreadable(error.to_string())),
    }
}

fn expect_json(headers: &HeaderMap) -> Result<(), Problem> {
    let given = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let media_type = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_json =
        media_type == "application/json" || (media_type.starts_with("application/") && media_type.ends_with("+json"));
    if is_json {
        Ok(())
    } else {
        Err(Problem::UnsupportedMediaType)
    }
}

impl<T: JsonSchema + 'static> OperationInput for Body<T> {
    fn operation_input(generator: &mut GenContext, operation: &mut Operation) {
        let json_schema = schema::of_input::<T>();
        let schema = SchemaObject {
            json_schema,
            external_docs: None,
            example: None,
        };
        let media_type = MediaType {
            schema: Some(schema),
            ..MediaType::default()
        };
        let content = [("application/json".to_owned(), media_type)].into_iter().collect();
        set_body(
            generator,
            operation,
            RequestBody {
                content,
                required: true,
                ..RequestBody::default()
            },
        );
    }
}
