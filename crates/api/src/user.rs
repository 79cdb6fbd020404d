//! What all views share: users, and how times are written.

use chrono::SecondsFormat;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use service::Time;
use service::users::User;
use uuid::Uuid;

use crate::http::reply::View;

/// A time: RFC 3339, in UTC, with microseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp(pub(crate) Time);

impl Serialize for Stamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.to_rfc3339_opts(SecondsFormat::Micros, true))
    }
}

impl JsonSchema for Stamp {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "format": "date-time",
            "examples": ["2026-11-15T09:30:00.000000Z"],
        })
    }
}

/// A user, as seen by others.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "User")]
pub(crate) struct UserView<'a> {
    id: i64,
    uuid: Uuid,
    distinct_id: &'a str,
    first_name: &'a str,
    last_name: &'a str,
    #[schemars(email)]
    email: &'a str,
    is_email_verified: bool,
    hedgehog_config: &'a Map<String, Value>,
}

impl View for UserView<'_> {
    type Doc = UserView<'static>;
}

impl<'a> From<&'a User> for UserView<'a> {
    fn from(user: &'a User) -> Self {
        Self {
            id: user.id.0,
            uuid: user.uuid.0,
            distinct_id: &user.distinct_id,
            first_name: &user.first_name,
            last_name: &user.last_name,
            email: &user.email,
            is_email_verified: user.is_email_verified,
            hedgehog_config: &user.hedgehog_config,
        }
    }
}
