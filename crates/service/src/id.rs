//! Ids, a type for each thing, so that a wrong one does not compile.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident($inner:ty)),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, sqlx::Type, JsonSchema)]
        #[serde(transparent)]
        #[schemars(inline)]
        #[sqlx(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = <$inner as FromStr>::Err;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    )+};
}

ids! {
    ActivityId(Uuid),
    AppConfigId(i64),
    AppId(i64),
    AppTaskId(Uuid),
    AttemptId(Uuid),
    BackfillId(Uuid),
    DomainId(Uuid),
    ExportId(Uuid),
    InviteId(Uuid),
    KeyId(Uuid),
    MailId(Uuid),
    MemberId(Uuid),
    OrganizationId(Uuid),
    RunId(Uuid),
    SessionId(Uuid),
    TeamId(i64),
    UserId(i64),
    /// How the API names a user; [`UserId`] is how tables do.
    UserUuid(Uuid),
    /// One worker process; identifies the holder of a lease.
    WorkerId(Uuid),
}

impl OrganizationId {
    /// Stands where an action concerns no organization.
    pub(crate) const NONE: Self = Self(Uuid::nil());
}
