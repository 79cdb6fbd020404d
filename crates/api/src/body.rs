//! Request bodies: JSON, bounded, checked against the schema that is published for them.

use aide::OperationInput;
use aide::generate::GenContext;
use aide::openapi::{MediaType, Operation, RequestBody, SchemaObject};
use aide::operation::set_body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use service::Invalid;

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
        schema::read(read_json(&parts.headers, body).await?).map(Self)
    }
}

/// One thing, or a list of them. In a list, each mistake says which item it is in.
pub(crate) enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

/// How long a list may be.
pub(crate) const MOST_ITEMS: usize = 100;

impl<S: Send + Sync, T: JsonSchema + DeserializeOwned + 'static> FromRequest<S> for OneOrMany<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let items = match read_json(&parts.headers, body).await? {
            Value::Array(items) => items,
            one => return schema::read(one).map(Self::One),
        };
        let problem = |code, detail| {
            Err(Problem::Validation(vec![Invalid {
                field: None,
                code,
                detail,
            }]))
        };
        match items.len() {
            0 => return problem("min_length", "send at least one".to_owned()),
            many if many > MOST_ITEMS => return problem("max_length", format!("send at most {MOST_ITEMS} at once")),
            _ => {}
        }
        let (mut read, mut problems) = (Vec::with_capacity(items.len()), Vec::new());
        for (place, item) in items.into_iter().enumerate() {
            match schema::read(item) {
                Ok(item) => read.push(item),
                Err(Problem::Validation(found)) => problems.extend(found.into_iter().map(|each| each.in_item(place))),
                Err(other) => return Err(other),
            }
        }
        if problems.is_empty() {
            Ok(Self::Many(read))
        } else {
            Err(Problem::Validation(problems))
        }
    }
}

impl<T: JsonSchema + 'static> OperationInput for OneOrMany<T> {
    fn operation_input(generator: &mut GenContext, operation: &mut Operation) {
        let one = schema::of_input::<T>();
        let many = serde_json::json!({ "type": "array", "items": one, "minItems": 1, "maxItems": MOST_ITEMS });
        let either = Schema::try_from(serde_json::json!({ "anyOf": [one, many] })).expect("an object is a schema");
        describe(generator, operation, either);
    }
}

async fn read_json(headers: &HeaderMap, body: axum::body::Body) -> Result<Value, Problem> {
    let bytes = collect(body).await?;
    if bytes.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    expect_json(headers)?;
    json::parse(&bytes).map_err(Problem::Unreadable)
}

/// Reads a body to its end, unless that is too far away.
pub(crate) async fn collect(body: axum::body::Body) -> Result<Bytes, Problem> {
    match Limited::new(body, MOST_BYTES).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Problem::TooLarge),
        Err(_) => Err(Problem::Unreadable("it broke off".to_owned())),
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
        describe(generator, operation, schema::of_input::<T>());
    }
}

fn describe(generator: &mut GenContext, operation: &mut Operation, json_schema: Schema) {
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
    let body = RequestBody {
        content,
        required: true,
        ..RequestBody::default()
    };
    set_body(generator, operation, body);
}
