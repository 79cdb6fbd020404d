//! What a key is allowed to be used for.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The kinds of things that scopes speak of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Object {
    Organization,
    OrganizationMember,
    BatchExport,
    Plugin,
}

impl Object {
    const ALL: [Self; 4] = [
        Self::Organization,
        Self::OrganizationMember,
        Self::BatchExport,
        Self::Plugin,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Organization => "organization",
            Self::OrganizationMember => "organization_member",
            Self::BatchExport => "batch_export",
            Self::Plugin => "plugin",
        }
    }
}

/// One thing a key may do, written `object:read`, `object:write` or `*`. Writing includes reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Scope {
    Read(Object),
    Write(Object),
    Everything,
}

impl Scope {
    /// Whether a key that holds this scope may do what `needed` names.
    pub fn covers(self, needed: Self) -> bool {
        match (self, needed) {
            (Self::Everything, _) => true,
            (Self::Write(held), Self::Read(needed) | Self::Write(needed)) | (Self::Read(held), Self::Read(needed)) => {
                held == needed
            }
            _ => false,
        }
    }

    pub fn all() -> impl Iterator<Item = Self> {
        let each = Object::ALL
            .into_iter()
            .flat_map(|object| [Self::Read(object), Self::Write(object)]);
        each.chain([Self::Everything])
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(object) => write!(f, "{}:read", object.name()),
            Self::Write(object) => write!(f, "{}:write", object.name()),
            Self::Everything => f.write_str("*"),
        }
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::all().find(|scope| scope.to_string() == text);
        known.ok_or_else(|| format!("Invalid scope {text}. Must be one of {}.", names()))
    }
}

fn names() -> String {
    Scope::all()
        .map(|scope| scope.to_string())
        .collect::<Vec<_>>()
        .join(", ")
}

impl TryFrom<String> for Scope {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> Self {
        scope.to_string()
    }
}

impl schemars::JsonSchema for Scope {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Scope".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let names: Vec<String> = Self::all().map(String::from).collect();
        schemars::json_schema!({
            "type": "string",
            "enum": names,
            "description": "What a key can be used for. Write includes read; `*` is full access.",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_includes_reading_of_the_same_object_only() {
        let write = Scope::Write(Object::Organization);
        assert!(write.covers(Scope::Read(Object::Organization)));
        assert!(!write.covers(Scope::Read(Object::OrganizationMember)));
        assert!(!Scope::Read(Object::Plugin).covers(Scope::Write(Object::Plugin)));
        assert!(Scope::all().all(|scope| Scope::Everything.covers(scope)));
    }

    #[test]
    fn every_scope_reads_as_it_is_written() {
        assert!(Scope::all().all(|scope| scope.to_string().parse() == Ok(scope)));
        assert!("organization:delete".parse::<Scope>().is_err());
    }
}
