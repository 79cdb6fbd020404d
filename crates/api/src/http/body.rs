//! Request bodies: JSON, bounded, checked against the schema that is published for them.

use std::sync::Arc;

use aide::OperationInput;
use aide::generate::GenContext;
use aide::openapi::{MediaType, Operation, RequestBody, SchemaObject};
use aide::operation::set_body;
use axum::extract::{FromRequest, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use events::capture::estimate_values;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use service::Invalid;

use crate::http::body_memory::{MAX_BYTES, MAX_UNAUTHENTICATED_BYTES, Reservation, capacity};
use crate::http::context::RequestContext;
use crate::http::error::Problem;
use crate::http::receive::{ReceiveError, Receiver};
use crate::http::{body_memory, json, schema};

/// Nor what takes more memory than this once it is read. Texts are light, small objects are heavy.
const MAX_WEIGHT: usize = 16 * 1024 * 1024;

/// The same without a credential: what strangers may send has a handful of fields.
const MAX_UNAUTHENTICATED_WEIGHT: usize = 16 * MAX_UNAUTHENTICATED_BYTES;

/// The checked body of a request. An empty one counts as `{}`.
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: JsonSchema + DeserializeOwned + 'static> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let value = read_json(&parts, body).await?;
        let memory = Kept::of::<T>(&parts, &value);
        let read = schema::read(value).map(Self);
        memory.give_back_the_rest();
        read
    }
}

/// One thing, or a list of them. In a list, each mistake says which item it is in.
pub(crate) enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

/// How long a list may be.
pub(crate) const MAX_ITEMS: usize = 100;

impl<S: Send + Sync, T: JsonSchema + DeserializeOwned + 'static> FromRequest<S> for OneOrMany<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let value = read_json(&parts, body).await?;
        let memory = Kept::of::<T>(&parts, &value);
        let read = Self::read(value);
        memory.give_back_the_rest();
        read
    }
}

impl<T: JsonSchema + DeserializeOwned + 'static> OneOrMany<T> {
    fn read(value: Value) -> Result<Self, Problem> {
        let items = match value {
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
            0 => return problem("min_length", "Send at least one item.".to_owned()),
            many if many > MAX_ITEMS => {
                return problem("max_length", format!("Send at most {MAX_ITEMS} items per request."));
            }
            _ => {}
        }
        let (mut read, mut problems) = (Vec::with_capacity(items.len()), Vec::new());
        for (place, item) in items.into_iter().enumerate() {
            if problems.len() >= Invalid::MAX {
                break;
            }
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
        let many = serde_json::json!({ "type": "array", "items": one, "minItems": 1, "maxItems": MAX_ITEMS });
        let either = Schema::try_from(serde_json::json!({ "anyOf": [one, many] })).expect("an object is a schema");
        describe(generator, operation, either);
    }
}

async fn read_json(parts: &Parts, body: axum::body::Body) -> Result<Value, Problem> {
    let bytes = collect(body).await?;
    if bytes.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    expect_json(&parts.headers)?;
    // A short body can become a hundred times as large.
    let (weight, memory) = (estimate_values(&bytes), memory(parts));
    let is_unauthenticated = memory.is_some_and(|memory| !memory.is_authenticated());
    if weight
        > if is_unauthenticated {
            MAX_UNAUTHENTICATED_WEIGHT
        } else {
            MAX_WEIGHT
        }
    {
        return Err(Problem::Unreadable("too many values".to_owned()));
    }
    if let Some(memory) = memory {
        memory.grow_to(capacity(bytes.len()) + weight)?;
    }
    json::parse(&bytes).map_err(Problem::Unreadable)
}

fn memory(parts: &Parts) -> Option<&Reservation> {
    parts.extensions.get::<Arc<RequestContext>>()?.body()
}

/// What of a body stays until the request is answered, if that is worth a thought. Fields that nobody asked for are gone
/// once it is read.
struct Kept<'a>(Option<(&'a Reservation, usize)>);

impl<'a> Kept<'a> {
    fn of<T: JsonSchema + 'static>(parts: &'a Parts, value: &Value) -> Self {
        let memory = memory(parts).filter(|memory| memory.is_more_than_a_step());
        Self(memory.map(|memory| (memory, weight_of_known(value, &schema::checker::<T>().schema))))
    }

    fn give_back_the_rest(self) {
        if let Some((memory, kept)) = self.0 {
            memory.shrink_to(kept);
        }
    }
}

/// An upper bound of what a type takes that was read from this value.
fn weight_of_known(value: &Value, schema: &Value) -> usize {
    let weight = |value: &Value| estimate_values(value.to_string().as_bytes());
    match value {
        Value::Array(items) => items.iter().map(|item| weight_of_known(item, schema)).sum(),
        // A type that takes fields by the pattern of their names may keep any.
        Value::Object(fields) if schema.get("patternProperties").is_none() => {
            let known = fields
                .iter()
                .filter(|(name, _)| schema["properties"].get(name).is_some());
            known.map(|(_, field)| weight(field)).sum()
        }
        other => weight(other),
    }
}

/// Reads a body to its end, unless that is too far away, or comes too slowly. It is copied together: kept as they come,
/// small pieces would take many times their bytes.
pub(crate) async fn collect(body: axum::body::Body) -> Result<Bytes, Problem> {
    let mut receiver = Receiver::of_at_most(body, MAX_BYTES);
    let mut collected: Vec<u8> = Vec::new();
    while let Some(bytes) = receiver.next().await.map_err(problem)? {
        let needed = collected.len() + bytes.len();
        if needed > collected.capacity() {
            collected.reserve_exact(capacity(needed) - collected.len());
        }
        collected.extend_from_slice(&bytes);
    }
    Ok(collected.into())
}

fn problem(why: ReceiveError) -> Problem {
    match why {
        ReceiveError::TooLarge => Problem::TooLarge,
        ReceiveError::TooSlow => Problem::TooSlow,
        ReceiveError::Busy => body_memory::busy().into(),
        ReceiveError::Broken => Problem::Unreadable("the connection closed before the body was complete".to_owned()),
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

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::stream;
    use serde::Deserialize;
    use service::UserId;

    use super::*;
    use crate::http::body_memory::BodyMemory;

    #[derive(Deserialize, JsonSchema)]
    struct Input {
        #[expect(dead_code, reason = "it is what keeps the memory")]
        config: Option<Map<String, Value>>,
    }

    /// A request with this body, whose memory is noted.
    fn request(body: String, user: Option<UserId>) -> (Request, Arc<RequestContext>) {
        let reservation = Arc::new(BodyMemory::default()).enter(IpAddr::from([192, 0, 2, 1]));
        if let Some(user) = user {
            reservation.authenticate(user);
        }
        let context = Arc::new(RequestContext::with_body(reservation));
        let request = Request::post("/")
            .header("content-type", "application/json")
            .extension(context.clone());
        (request.body(body.into()).expect("a plain request"), context)
    }

    fn objects(count: usize) -> String {
        format!("[{}{{}}]", "{},".repeat(count))
    }

    #[tokio::test]
    async fn what_nobody_asked_for_is_given_back_once_it_is_read() {
        let held = async |body: String| {
            let (request, context) = request(body, Some(UserId(1)));
            let read = Body::<Input>::from_request(request, &()).await;
            assert!(read.is_ok());
            context.body().map_or(0, Reservation::bytes)
        };
        let least = 7_500 * 640;
        assert!(held(format!(r#"{{"junk":{}}}"#, objects(7_500))).await <= 4096);
        assert!(held(format!(r#"{{"config":{{"kept":{}}}}}"#, objects(7_500))).await >= least);
        let (request, context) = request(
            format!("[{}]", vec![r#"{"junk":[{},{},{}]}"#; 50].join(",")),
            Some(UserId(1)),
        );
        assert!(OneOrMany::<Input>::from_request(request, &()).await.is_ok());
        assert!(context.body().is_some_and(|memory| memory.bytes() <= 4096));
    }

    #[tokio::test]
    async fn strangers_send_few_values() {
        for (user, is_read) in [(None, false), (Some(UserId(1)), true)] {
            let (request, _notes) = request(format!(r#"{{"junk":{}}}"#, objects(1_000)), user);
            assert_eq!(Body::<Input>::from_request(request, &()).await.is_ok(), is_read);
        }
    }

    /// One byte that says how many of its kind there are.
    struct Piece(Arc<AtomicUsize>);

    impl AsRef<[u8]> for Piece {
        fn as_ref(&self) -> &[u8] {
            b"x"
        }
    }

    impl Drop for Piece {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn pieces_of_a_body_are_not_kept() {
        let (there, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, highest) = (there.clone(), most.clone());
        let pieces = (0..10_000).map(move |_| {
            let count = counted.fetch_add(1, Ordering::Relaxed) + 1;
            highest.fetch_max(count, Ordering::Relaxed);
            Ok::<_, std::io::Error>(Bytes::from_owner(Piece(counted.clone())))
        });
        let body = axum::body::Body::from_stream(stream::iter(pieces));
        assert_eq!(collect(body).await.ok().map(|bytes| bytes.len()), Some(10_000));
        assert!(most.load(Ordering::Relaxed) < 10, "{most:?} at once");
        let endless = stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(&[b'x'; 1000])));
        let refused = collect(axum::body::Body::from_stream(endless)).await;
        assert!(matches!(refused, Err(Problem::TooLarge)));
    }
}
