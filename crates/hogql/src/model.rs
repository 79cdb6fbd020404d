//! What there is to select from.

use serde::{Deserialize, Serialize};

/// What is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Model {
    Events,
    Persons,
}

/// What a column or an expression holds. Times are in UTC, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Type {
    Text,
    /// JSON, as text.
    Json,
    Int,
    Float,
    Bool,
    Time,
}

macro_rules! columns {
    ($($name:ident: $text:literal, $type:ident, $($model:ident)+;)+) => {
        /// A column of a model. Both models have some of the same name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Column { $($name),+ }

        impl Column {
            pub const ALL: &[Self] = &[$(Self::$name),+];

            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }

            pub fn kind(self) -> Type {
                match self { $(Self::$name => Type::$type),+ }
            }

            pub fn is_of(self, model: Model) -> bool {
                match self { $(Self::$name => [$(Model::$model),+].contains(&model)),+ }
            }
        }
    };
}

columns! {
    Uuid: "uuid", Text, Events;
    TeamId: "team_id", Int, Events Persons;
    Event: "event", Text, Events;
    DistinctId: "distinct_id", Text, Events Persons;
    Properties: "properties", Json, Events Persons;
    ElementsChain: "elements_chain", Text, Events;
    Timestamp: "timestamp", Time, Events;
    PersonId: "person_id", Text, Events Persons;
    PersonProperties: "person_properties", Json, Events;
    PersonDistinctIdVersion: "person_distinct_id_version", Int, Persons;
    PersonVersion: "person_version", Int, Persons;
    IsDeleted: "is_deleted", Bool, Persons;
    CreatedAt: "created_at", Time, Events Persons;
    InsertedAt: "_inserted_at", Time, Events Persons;
}

impl Model {
    pub fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Persons => "persons",
        }
    }

    pub fn columns(self) -> impl Iterator<Item = Column> {
        Column::ALL.iter().copied().filter(move |column| column.is_of(self))
    }
}
