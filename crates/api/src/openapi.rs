//! The OpenAPI spec: what the handlers' types say, completed with what holds for all of them.

use std::sync::LazyLock;

use aide::openapi::OpenApi;
use axum::Extension;
use axum::http::{HeaderValue, header};
use axum::response::{Html, IntoResponse, Response};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::http::access::{CREDENTIAL, RIGHT, SCOPE};
use crate::http::error::ProblemView;
use crate::http::path;
use crate::http::response_memory::Shared;
use crate::routes::routes;

const METHODS: [&str; 5] = ["get", "post", "patch", "put", "delete"];

/// The OpenAPI spec as JSON, made once.
pub fn spec() -> &'static Value {
    static SPEC: LazyLock<Value> = LazyLock::new(generate);
    &SPEC
}

fn generate() -> Value {
    aide::generate::in_context(|context| {
        let mut settings = SchemaSettings::draft2020_12().for_serialize();
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
        context.schema = settings.into_generator();
    });
    let mut api = OpenApi::default();
    routes().describe(&mut api);
    let mut spec = serde_json::to_value(api).expect("a spec is plain data");
    let problem = aide::generate::in_context(|context| {
        context.schema.subschema_for::<ProblemView>();
        context.schema.take_definitions(true)
    });
    complete(&mut spec, problem);
    spec
}

fn complete(spec: &mut Value, definitions: Map<String, Value>) {
    spec["openapi"] = json!("3.1.0");
    spec["info"] = json!({
        "title": "Hedgerow",
        "version": env!("CARGO_PKG_VERSION"),
        "summary": "Manage organizations, members, domains, batch exports and pipeline apps.",
        "description": include_str!("openapi.md"),
        "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
    });
    spec["servers"] = json!([{ "url": "/", "description": "This server." }]);
    let schemas = &mut spec["components"]["schemas"];
    for (name, schema) in definitions {
        schemas[name] = schema;
    }
    spec["components"]["securitySchemes"] = security_schemes();
    spec["components"]["responses"] = problem_responses();
    spec["components"]["headers"] = headers();
    spec["tags"] = TAGS
        .iter()
        .map(|(name, text)| json!({ "name": name, "description": text }))
        .collect();
    let paths = spec["paths"].as_object_mut().expect("there are paths");
    for (path, item) in paths {
        for method in METHODS {
            if let Some(operation) = item.get_mut(method) {
                complete_operation(path, method, operation);
            }
        }
    }
}

const TAGS: [(&str, &str); 12] = [
    ("Organizations", "Top-level accounts that own all other resources."),
    ("Teams", "The teams of an organization, each with its own API token."),
    ("Members", "The members of an organization and their roles."),
    ("Invites", "Invitations to join an organization, and accepting them."),
    (
        "Domains",
        "Email domains verified by DNS, with single sign-on and automatic provisioning.",
    ),
    (
        "Batch exports",
        "Scheduled exports of events and persons to warehouses and object storage, delivered exactly once.",
    ),
    (
        "Pipeline apps",
        "Apps that process events, run in browsers or import events: destinations, frontend apps and import apps.",
    ),
    ("Activity", "The audit log: who did what, and what changed."),
    ("Instance", "Instance-wide administration, for operators."),
    ("Personal API keys", "API keys, managed by the users they belong to."),
    (
        "Sign-in",
        "Authentication with passwords, two-factor codes, reset links and recovery codes.",
    ),
    (
        "Account",
        "Your own account: name, password, two-factor authentication and sessions.",
    ),
];

fn security_schemes() -> Value {
    json!({
        "personalApiKey": {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "hgr_…",
            "description": "A personal API key, in the header `Authorization: Bearer <key>`.",
        },
        "session": {
            "type": "apiKey",
            "in": "cookie",
            "name": identity::cookies::SESSION,
            "description": "The session cookie of a signed-in user.",
        },
    })
}

/// Every refusal there is, by status.
const PROBLEMS: [(u16, &str, &str); 13] = [
    (400, "BadRequest", "Invalid input. `attr` names the field."),
    (401, "Unauthorized", "Missing or invalid credentials."),
    (
        403,
        "Forbidden",
        "Permission denied: the API key lacks the scope, or the member's role is too low.",
    ),
    (404, "NotFound", "Not found, or you do not have access."),
    (408, "TooSlow", "The request body is arriving too slowly."),
    (
        409,
        "Conflict",
        "Conflict with the current state, such as an identical request that is still running.",
    ),
    (
        412,
        "PreconditionFailed",
        "The resource has changed since you last read it.",
    ),
    (
        413,
        "TooLarge",
        "The request body is larger than 1 MiB, or 16 KiB without credentials.",
    ),
    (415, "UnsupportedMediaType", "The request body is not JSON."),
    (
        422,
        "IdempotencyKeyReused",
        "The Idempotency-Key was used for another request.",
    ),
    (429, "Throttled", "Too many requests. See the Retry-After header."),
    (500, "ServerError", "Internal server error."),
    (503, "Unavailable", "The request timed out, or the server is busy."),
];

fn problem_responses() -> Value {
    let schema = json!({ "schema": { "$ref": "#/components/schemas/Problem" } });
    let response = |status: u16, description: &str| {
        let mut headers = json!({ "X-Request-Id": { "$ref": "#/components/headers/X-Request-Id" } });
        match status {
            401 => headers["WWW-Authenticate"] = json!({ "$ref": "#/components/headers/WWW-Authenticate" }),
            429 | 503 => headers["Retry-After"] = json!({ "$ref": "#/components/headers/Retry-After" }),
            _ => {}
        }
        json!({
            "description": description,
            "headers": headers,
            "content": { "application/json": schema, "application/problem+json": schema },
        })
    };
    PROBLEMS
        .iter()
        .map(|(status, name, text)| ((*name).to_owned(), response(*status, text)))
        .collect::<Map<_, _>>()
        .into()
}

fn headers() -> Value {
    let text = |description: &str| json!({ "description": description, "schema": { "type": "string" } });
    json!({
        "X-Request-Id": text("Identifies the request in the server's log and in the activity log."),
        "ETag": text("The version of the resource, for If-Match and If-None-Match."),
        "Location": text("The URL of the new resource."),
        "Link": text("The next and previous pages (RFC 8288)."),
        "WWW-Authenticate": text("`Bearer`."),
        "Retry-After": { "description": "Seconds to wait before the next request.", "schema": { "type": "integer" } },
    })
}

fn takes_query(operation: &Value) -> bool {
    let mut parameters = operation["parameters"].as_array().into_iter().flatten();
    parameters.any(|parameter| parameter["in"] == "query")
}

fn complete_operation(path: &str, method: &str, operation: &mut Value) {
    let is_write = method != "get";
    let credential = operation[CREDENTIAL].as_str().unwrap_or_default().to_owned();
    let takes_body = operation.get("requestBody").is_some();
    let honors_if_match = operation
        .as_object_mut()
        .and_then(|fields| fields.remove("x-if-match"))
        .is_some();
    let is_list = operation["operationId"]
        .as_str()
        .is_some_and(|id| id.ends_with("_list"));

    let has_parameters = is_write || takes_query(operation);
    // Reading, but from another server, which may not be there or not have it.
    let asks_elsewhere = path.ends_with("/check_for_updates/") || path.ends_with("/upgrade/");

    operation["security"] = security(operation, &credential);
    if let Some(right) = operation[RIGHT].as_str() {
        operation["description"] = json!(format!("Requires the instance permission `{right}`."));
    }
    if let Some(scope) = operation[SCOPE].as_str() {
        operation["description"] = json!(format!("Requires the scope `{scope}`."));
    }
    add_parameters(path, method, operation, honors_if_match);

    for (status, name, _) in PROBLEMS {
        let can_happen = match status {
            // A link may be used up, or its time over.
            400 => has_parameters || takes_body || asks_elsewhere || path.contains("{token}"),
            // A password can be right and not be enough.
            401 => credential != "none" || path == "/api/login/",
            // Another site may change nothing.
            403 => credential != "none" || is_write,
            404 => path.contains('{'),
            409 if asks_elsewhere => true,
            409 | 422 => matches!(method, "post" | "patch") && credential != "none",
            412 => honors_if_match,
            408 | 413 | 415 => takes_body,
            _ => true,
        };
        if can_happen || (status == 403 && is_write) {
            operation["responses"][status.to_string()] = json!({ "$ref": format!("#/components/responses/{name}") });
        }
    }
    if can_be_unmodified(method, operation) {
        operation["responses"]["304"] = json!({ "description": "Not modified. There is no body." });
    }
    describe_success(operation, is_list);
}

fn security(operation: &Value, credential: &str) -> Value {
    match credential {
        "member" | "user" => {
            let scopes: Vec<&Value> = operation.get(SCOPE).into_iter().collect();
            json!([{ "personalApiKey": scopes }, { "session": [] }])
        }
        "own key" => json!([{ "personalApiKey": [] }, { "session": [] }]),
        "session" => json!([{ "session": [] }]),
        _ => json!([]),
    }
}

fn add_parameters(path: &str, method: &str, operation: &mut Value, honors_if_match: bool) {
    let described = operation
        .as_object_mut()
        .and_then(|fields| fields.remove(path::PARAMETERS))
        .unwrap_or_default();
    let is_public = operation[CREDENTIAL] == "none";
    let mut parameters: Vec<Value> = path_parameters(path, &described);
    parameters.extend(operation["parameters"].as_array().cloned().unwrap_or_default());
    let mut add = |name: &str, place: &str, description: &str, schema: Value| {
        parameters.push(json!({ "name": name, "in": place, "description": description, "schema": schema }));
    };
    if method != "get" {
        let text = "Run the request, return its response, then roll it back.";
        add("dry_run", "query", text, json!({ "type": "boolean", "default": false }));
    }
    if matches!(method, "post" | "patch") && !is_public {
        let text = "Retry the request safely: the same key returns the same response for 24 hours.";
        let schema = json!({ "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$" });
        add("Idempotency-Key", "header", text, schema);
    }
    if can_be_unmodified(method, operation) {
        let text = "Return 304 without a body if the resource still has this ETag.";
        add("If-None-Match", "header", text, json!({ "type": "string" }));
    }
    if honors_if_match {
        let text = "Apply the change only if the resource still has this ETag.";
        add("If-Match", "header", text, json!({ "type": "string" }));
    }
    operation["parameters"] = parameters.into();
}

/// Whether the operation reads a single resource, which has an `ETag`.
fn can_be_unmodified(method: &str, operation: &Value) -> bool {
    method == "get"
        && !operation["operationId"]
            .as_str()
            .is_some_and(|id| id.ends_with("_list"))
}

fn path_parameters(path: &str, described: &Value) -> Vec<Value> {
    let names = path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameter = |name: &str| {
        let (schema, text) = match described.get(name) {
            Some(schema) => (schema.clone(), "The resource's ID."),
            None => (
                path::organization_schema().to_value(),
                "The organization's ID, or `@current`.",
            ),
        };
        json!({ "name": name, "in": "path", "required": true, "description": text, "schema": schema })
    };
    names.map(parameter).collect()
}

fn describe_success(operation: &mut Value, is_list: bool) {
    let Some(responses) = operation["responses"].as_object_mut() else {
        return;
    };
    for (status, response) in responses {
        if !status.starts_with('2') {
            continue;
        }
        response["headers"]["X-Request-Id"] = json!({ "$ref": "#/components/headers/X-Request-Id" });
        if is_list {
            response["headers"]["Link"] = json!({ "$ref": "#/components/headers/Link" });
        }
        if status == "201" {
            response["headers"]["Location"] = json!({ "$ref": "#/components/headers/Location" });
        }
        if !is_list && status != "204" {
            response["headers"]["ETag"] = json!({ "$ref": "#/components/headers/ETag" });
        }
    }
}

/// `GET /api/schema/`
pub(crate) async fn serve() -> Response {
    static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| serde_json::to_vec(spec()).expect("plain data"));
    let json = [(header::CONTENT_TYPE, "application/json")];
    (json, Extension(Shared), BYTES.as_slice()).into_response()
}

/// `GET /api/docs/`: the same to look at and try. Everything it needs is in the page itself.
pub(crate) async fn page() -> Response {
    // The page may talk to this server and to nobody else, whatever is in the script.
    const POLICY: &str = "default-src 'none'; connect-src 'self'; img-src 'self' data:; font-src 'self' data:; \
        style-src 'unsafe-inline'; script-src 'unsafe-inline'; frame-ancestors 'none'";
    static HTML: LazyLock<String> = LazyLock::new(|| {
        let page = aide::swagger::Swagger::new("/api/schema/")
            .with_title("Hedgerow API")
            .html();
        let head = "<head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
                    <link rel=\"icon\" href=\"data:,\">";
        page.replacen("<head>", head, 1)
    });
    let mut response = (Extension(Shared), Html(HTML.as_str())).into_response();
    response
        .headers_mut()
        .insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}
