//! Teams: the projects of an organization, each with a token of its own.

pub(crate) mod cases;
mod deleted;
mod numbers;
pub(crate) mod sql;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::activity::Recorded;
use crate::cache::Weigh;
use crate::clock::Time;
use crate::error::{Error, Result};
use crate::id::{OrganizationId, TeamId};
use crate::text::Name;

/// The team every organization begins with.
pub const DEFAULT_NAME: &str = "Default project";
/// How a team's token begins.
pub const TOKEN_PREFIX: &str = "hgp_";

#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
pub struct Team {
    pub id: TeamId,
    pub uuid: uuid::Uuid,
    #[serde(skip)]
    pub organization_id: OrganizationId,
    pub name: Name,
    pub api_token: String,
    pub timezone: String,
    pub created_at: Time,
    pub updated_at: Time,
}

/// Whose a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
pub struct TeamToken {
    #[sqlx(rename = "id")]
    pub team: TeamId,
    #[sqlx(rename = "organization_id")]
    pub organization: OrganizationId,
}

impl Weigh for TeamToken {
    fn rows(&self) -> usize {
        1
    }
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "name": "Web", "timezone": "Europe/Berlin" }]))]
pub struct NewTeam {
    /// The team's name.
    pub name: Name,
    /// An IANA time zone name. Defaults to `UTC`.
    pub timezone: Option<Timezone>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "name": "Site" }]))]
pub struct TeamPatch {
    /// The team's name.
    pub name: Option<Name>,
    /// An IANA time zone name.
    pub timezone: Option<Timezone>,
}

/// The names of all time zones there are, as the IANA time zone database has them.
pub fn timezones() -> impl Iterator<Item = &'static str> {
    chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name())
}

/// The name of a time zone that exists.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub struct Timezone(String);

/// As somebody typed it; whether there is one is found out when it is used.
impl From<String> for Timezone {
    fn from(name: String) -> Self {
        Self(name)
    }
}

impl Timezone {
    pub(crate) fn known(&self) -> Result<String> {
        match self.0.parse::<chrono_tz::Tz>() {
            Ok(zone) => Ok(zone.name().to_owned()),
            Err(_) => Err(Error::invalid(
                "timezone",
                "invalid_choice",
                "Invalid time zone. Use a name such as Europe/Berlin.",
            )),
        }
    }
}

impl JsonSchema for Timezone {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timezone".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let names: Vec<&str> = timezones().collect();
        schemars::json_schema!({ "type": "string", "enum": names })
    }
}

impl Recorded for Team {
    const SCOPE: &'static str = "Team";

    fn organization(&self) -> Option<OrganizationId> {
        Some(self.organization_id)
    }

    fn team(&self) -> Option<TeamId> {
        Some(self.id)
    }

    fn item(&self) -> String {
        self.id.to_string()
    }

    fn name(&self) -> String {
        self.name.to_string()
    }
}
