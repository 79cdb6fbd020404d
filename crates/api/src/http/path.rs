//! Paths, and the ids in them. One that cannot be read belongs to nothing: it is not found.

use std::str::FromStr;

use aide::OperationInput;
use aide::generate::GenContext;
use aide::openapi::Operation;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{Request, Uri};
use schemars::{Schema, json_schema};
use service::members::MemberRef;
use service::organizations::OrganizationRef;
use service::{
    AppConfigId, AppId, BackfillId, DomainId, Error, ExportId, InviteId, KeyId, OrganizationId, RunId, SessionId,
    TeamId, UserUuid,
};

use crate::http::error::Problem;
use crate::http::operation::note;

/// How the OpenAPI spec describes an id in a path.
pub(crate) const PARAMETERS: &str = "x-path-parameters";

/// Published paths end with a slash; the same path without it is served, too, with no redirect.
pub fn end_path_with_slash<B>(request: &mut Request<B>) {
    let uri = request.uri();
    if uri.path().ends_with('/') || !uri.path().starts_with("/api/") {
        return;
    }
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = format!("{}/{query}", uri.path()).parse().ok();
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
}

pub(crate) fn organization(text: &str) -> Option<OrganizationRef> {
    match text {
        "@current" => Some(OrganizationRef::Current),
        text => text.parse().ok().map(OrganizationRef::Id),
    }
}

/// Described here for the OpenAPI spec; read by [`crate::http::access::Allowed`].
pub(crate) fn organization_schema() -> Schema {
    uuid_or("@current")
}

/// The id of an item below an organization or a user.
pub(crate) struct Id<T>(pub(crate) T);

/// Something that can stand in a path.
pub(crate) trait PathId: Sized + Send {
    /// As it is called in the path.
    const NAME: &'static str;
    /// As it is called when there is none.
    const THING: &'static str;
    fn read(text: &str) -> Option<Self>;
    fn schema() -> Schema;
}

macro_rules! ids_in_paths {
    ($($id:ident, $schema:ident, $name:literal, $thing:literal;)+) => {$(
        impl PathId for $id {
            const NAME: &'static str = $name;
            const THING: &'static str = $thing;

            fn read(text: &str) -> Option<Self> {
                Self::from_str(text).ok()
            }

            fn schema() -> Schema {
                $schema()
            }
        }
    )+};
}

ids_in_paths! {
    AppConfigId, integer, "config_id", "configuration";
    AppId, integer, "id", "app";
    BackfillId, uuid, "backfill_id", "backfill";
    DomainId, uuid, "id", "domain";
    ExportId, uuid, "id", "batch export";
    InviteId, uuid, "id", "invite";
    KeyId, uuid, "id", "key";
    OrganizationId, uuid, "id", "organization";
    RunId, uuid, "run_id", "run";
    SessionId, uuid, "id", "session";
    TeamId, integer, "id", "team";
    UserUuid, uuid, "user__uuid", "operator";
}

fn integer() -> Schema {
    json_schema!({ "type": "integer", "format": "int64" })
}

fn uuid() -> Schema {
    json_schema!({ "type": "string", "format": "uuid" })
}

/// A UUID, or a word that stands for one.
fn uuid_or(word: &str) -> Schema {
    json_schema!({ "type": "string", "anyOf": [{ "format": "uuid" }, { "const": word }] })
}

impl PathId for MemberRef {
    const NAME: &'static str = "user__uuid";
    const THING: &'static str = "member";

    fn read(text: &str) -> Option<Self> {
        match text {
            "@me" => Some(Self::Me),
            text => UserUuid::from_str(text).ok().map(Self::Uuid),
        }
    }

    fn schema() -> Schema {
        uuid_or("@me")
    }
}

/// A key: one of one's own, or `@current`, the one that was sent along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyRef {
    Id(KeyId),
    Current,
}

impl PathId for KeyRef {
    const NAME: &'static str = "id";
    const THING: &'static str = "key";

    fn read(text: &str) -> Option<Self> {
        match text {
            "@current" => Some(Self::Current),
            text => KeyId::from_str(text).ok().map(Self::Id),
        }
    }

    fn schema() -> Schema {
        uuid_or("@current")
    }
}

/// A secret from a link.
pub(crate) struct Token(pub(crate) String);

impl PathId for Token {
    const NAME: &'static str = "token";
    const THING: &'static str = "link";

    fn read(text: &str) -> Option<Self> {
        Some(Self(text.to_owned()))
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string" })
    }
}

impl<S: Send + Sync, T: PathId> FromRequestParts<S> for Id<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let not_found = || Problem::from(Error::NotFound(T::THING));
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|_| not_found())?;
        let text = params.iter().find(|(name, _)| *name == T::NAME).map(|(_, text)| text);
        text.and_then(T::read).map(Self).ok_or_else(not_found)
    }
}

impl<T: PathId> OperationInput for Id<T> {
    fn operation_input(_: &mut GenContext, operation: &mut Operation) {
        note(
            operation,
            PARAMETERS,
            serde_json::json!({ T::NAME: T::schema().to_value() }),
        );
    }
}
