//! How much a member may do.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A member's standing in an organization. Higher includes lower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, sqlx::Type)]
#[serde(try_from = "i16", into = "i16")]
#[repr(i16)]
pub enum Level {
    Member = 1,
    Admin = 8,
    Owner = 15,
}

impl Level {
    pub const ALL: [Self; 3] = [Self::Member, Self::Admin, Self::Owner];

    /// Whether someone of this level may turn another member from level `from` into level `to`.
    ///
    /// Nobody reaches above themselves, and below [`Level::Admin`] nobody changes anyone.
    pub fn may_change(self, from: Self, to: Self) -> bool {
        self >= Self::Admin && self >= from && self >= to
    }
}

impl From<Level> for i16 {
    fn from(level: Level) -> Self {
        level as Self
    }
}

impl TryFrom<i16> for Level {
    type Error = String;

    fn try_from(number: i16) -> Result<Self, Self::Error> {
        let known = Self::ALL.into_iter().find(|&level| i16::from(level) == number);
        known.ok_or_else(|| format!("Invalid level {number}. Use 1 (member), 8 (administrator) or 15 (owner)."))
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Member => "member",
            Self::Admin => "administrator",
            Self::Owner => "owner",
        })
    }
}

impl schemars::JsonSchema for Level {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Level".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "integer",
            "enum": [1, 8, 15],
            "description": "1 member, 8 administrator, 15 owner.",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Level::{Admin, Member, Owner};

    #[test]
    fn nobody_reaches_above_themselves() {
        assert!(Owner.may_change(Owner, Member));
        assert!(Admin.may_change(Admin, Member));
        assert!(Admin.may_change(Member, Admin));
        assert!(!Admin.may_change(Member, Owner));
        assert!(!Admin.may_change(Owner, Member));
        assert!(!Member.may_change(Member, Member));
    }
}
