//! Members: who belongs to an organization, and how much they may do there.

mod cases;
pub(crate) mod sql;

pub(crate) use cases::{JoinSource, address_released, create_with_owner, join};
pub(crate) use sql::{addresses_among, administrators, has_address, level_of, owners, proven_owners};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::{Caller, ChangeMembers, RemoveMembers};
use crate::activity::Recorded;
use crate::cache::Weigh;
use crate::clock::Time;
use crate::error::{Error, Result};
use crate::id::{MemberId, OrganizationId, UserId, UserUuid};
use crate::level::Level;
use crate::users::User;

#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
pub struct Member {
    pub id: MemberId,
    #[serde(skip)]
    pub organization_id: OrganizationId,
    #[sqlx(flatten)]
    #[serde(skip)]
    pub user: User,
    pub level: Level,
    #[serde(skip)]
    pub joined_at: Time,
    pub updated_at: Time,
    #[serde(skip)]
    pub is_2fa_enabled: bool,
    #[serde(skip)]
    pub has_social_auth: bool,
}

impl Weigh for Member {
    fn rows(&self) -> usize {
        1
    }
}

/// Which member is meant.
#[derive(Debug, Clone, Copy)]
pub enum MemberRef {
    Uuid(UserUuid),
    /// `@me`: the caller.
    Me,
}

/// Which members to list; all of them when empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct MemberFilter {
    /// The exact address, however it is written.
    pub email: Option<String>,
    /// A part of a name or of the address.
    pub search: Option<String>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "level": 8 }]))]
pub struct MemberPatch {
    pub level: Option<Level>,
}

impl Member {
    fn is(&self, user: UserId) -> bool {
        self.user.id == user
    }

    /// Decides on a change of level. Whether another owner remains is for the transaction to say.
    fn change(&mut self, level: Level, caller: &Caller<ChangeMembers>, now: Time) -> Result<()> {
        if self.is(caller.user) && level > self.level {
            return Err(Error::Forbidden(
                "You cannot raise your own role. Ask another administrator.".to_owned(),
            ));
        }
        if !caller.level.may_change(self.level, level) {
            return Err(Error::Forbidden(format!(
                "Your role ({}) does not allow changing a member's role from {} to {level}.",
                caller.level, self.level
            )));
        }
        if level != self.level {
            self.level = level;
            self.updated_at = now;
        }
        Ok(())
    }

    /// Members may leave, and administrators remove anyone who is not above them.
    fn may_be_removed_by(&self, caller: &Caller<RemoveMembers>) -> Result<()> {
        if self.is(caller.user) || caller.level.may_change(self.level, self.level) {
            return Ok(());
        }
        let (own, theirs) = (caller.level, self.level);
        Err(Error::Forbidden(format!(
            "Your role ({own}) does not allow removing a member with the role {theirs}."
        )))
    }
}

pub(crate) fn already_member() -> Error {
    Error::refused(
        "user_already_member",
        "This user is already a member of the organization.",
    )
}

/// A membership that has just begun, as the activity log tells it.
#[derive(Serialize)]
struct Joined<'a> {
    #[serde(skip)]
    id: MemberId,
    #[serde(skip)]
    organization: OrganizationId,
    #[serde(skip)]
    email: &'a str,
    level: Level,
}

impl Recorded for Joined<'_> {
    const SCOPE: &'static str = Member::SCOPE;

    fn organization(&self) -> Option<OrganizationId> {
        Some(self.organization)
    }

    fn item(&self) -> String {
        self.id.to_string()
    }

    fn name(&self) -> String {
        self.email.to_owned()
    }
}

impl Recorded for Member {
    const SCOPE: &'static str = "OrganizationMembership";

    fn organization(&self) -> Option<OrganizationId> {
        Some(self.organization_id)
    }

    fn item(&self) -> String {
        self.id.to_string()
    }

    fn name(&self) -> String {
        self.user.email.clone()
    }
}
