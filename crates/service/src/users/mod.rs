//! People with an account.

pub(crate) mod cases;
pub(crate) mod passwords;
pub(crate) mod sql;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sqlx::types::Json;

use crate::activity::Recorded;
use crate::id::{OrganizationId, UserId, UserUuid};
use crate::text::Email;

/// Where accounts are that had to give their address back. RFC 2606 promises that nobody ever gets mail there.
pub(crate) const RELEASED_DOMAIN: &str = "released.invalid";

/// A user as others see one.
#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
pub struct User {
    #[sqlx(rename = "user_id")]
    pub id: UserId,
    #[sqlx(rename = "user_uuid")]
    pub uuid: UserUuid,
    pub distinct_id: String,
    pub first_name: String,
    pub last_name: String,
    pub email: String,
    pub is_email_verified: bool,
    pub hedgehog_config: Json<Map<String, Value>>,
}

impl User {
    /// The name, or the address of those who have told none.
    pub fn called(&self) -> String {
        let name = format!("{} {}", self.first_name, self.last_name);
        match name.trim() {
            "" => self.email.clone(),
            name => name.to_owned(),
        }
    }
}

/// What it takes to make an account.
#[derive(Debug, Clone)]
pub struct NewUser {
    pub email: Email,
    pub first_name: String,
    pub last_name: String,
    /// Without one, the user gets in another way, or sets one later.
    pub password: Option<String>,
    /// Whether somebody trustworthy says that the address is theirs.
    pub is_email_verified: bool,
}

/// The fields that users can change in their account.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "first_name": "Olga", "last_name": "Owner" }]))]
pub struct UserPatch {
    #[schemars(length(max = 128))]
    pub first_name: Option<String>,
    #[schemars(length(max = 128))]
    pub last_name: Option<String>,
    /// The organization that `@current` refers to. You must be a member.
    pub current_organization: Option<OrganizationId>,
}

/// How a user gets in, and where they are.
#[derive(Debug, Clone, sqlx::FromRow)]
#[expect(clippy::struct_excessive_bools, reason = "each answers a question of its own")]
pub struct UserStatus {
    pub has_password: bool,
    pub is_2fa_enabled: bool,
    pub has_social_auth: bool,
    pub backup_codes: i64,
    pub current_organization_id: Option<OrganizationId>,
    pub is_operator: bool,
}

/// As much of a user as the activity log needs.
#[derive(Debug, Clone)]
pub struct Person {
    pub id: UserId,
    pub uuid: UserUuid,
    pub email: String,
}

impl From<&User> for Person {
    fn from(user: &User) -> Self {
        Self {
            id: user.id,
            uuid: user.uuid,
            email: user.email.clone(),
        }
    }
}

impl Recorded for User {
    const SCOPE: &'static str = "User";

    fn organization(&self) -> Option<OrganizationId> {
        None
    }

    fn item(&self) -> String {
        self.uuid.to_string()
    }

    fn name(&self) -> String {
        self.email.clone()
    }
}
