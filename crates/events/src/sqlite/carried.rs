use std::sync::Arc;

use uuid::Uuid;

use super::people::Person;
use crate::persons::NO_PROPERTIES;

/// What an event has of its person.
pub(super) struct Carried {
    pub(super) person: Uuid,
    /// The properties, unless they are kept elsewhere.
    pub(super) inline: Arc<str>,
    pub(super) properties_id: Option<i64>,
}

impl Carried {
    pub(super) fn of(person: &Person) -> Self {
        let inline = match person.properties_id {
            Some(_) => "".into(),
            None => person.properties.clone(),
        };
        Self {
            person: person.id,
            inline,
            properties_id: person.properties_id,
        }
    }

    pub(super) fn nothing(person: Uuid) -> Self {
        Self {
            person,
            inline: NO_PROPERTIES.into(),
            properties_id: None,
        }
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.properties_id.is_none() && &*self.inline == NO_PROPERTIES
    }
}
