//! What reading an app finds.

use std::collections::BTreeMap;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::json::few_values;
use crate::{Code, Manifest};

/// What an app is and offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    #[serde(deserialize_with = "few_values")]
    pub manifest: Manifest,
    #[serde(deserialize_with = "few_values")]
    pub capabilities: Capabilities,
    /// How the values of each metric are put together: `sum`, `max` or `min`.
    #[serde(deserialize_with = "few_values")]
    pub metrics: BTreeMap<String, String>,
    #[serde(deserialize_with = "few_values")]
    pub public_jobs: Map<String, Value>,
    /// An array of fields.
    #[serde(deserialize_with = "few_values")]
    pub config_schema: Value,
    pub code: Code,
    /// `site.ts` for browsers: an expression, a function that returns what the file exports.
    pub site: Option<String>,
    /// `frontend.tsx`, in the same form. It expects a global `React`.
    pub frontend: Option<String>,
}

/// What an app can be called for, each in a fixed order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    pub methods: Vec<String>,
    pub scheduled_tasks: Vec<String>,
    pub jobs: Vec<String>,
}

impl Capabilities {
    pub fn is_empty(&self) -> bool {
        self.methods.is_empty() && self.scheduled_tasks.is_empty() && self.jobs.is_empty()
    }

    /// How many names there are.
    pub(crate) fn count(&self) -> usize {
        self.methods.len() + self.scheduled_tasks.len() + self.jobs.len()
    }

    /// Whether the app has a method or scheduled task of this name.
    pub fn has(&self, method: &str) -> bool {
        let mut all = self.methods.iter().chain(&self.scheduled_tasks);
        all.any(|name| name == method)
    }
}

/// As clients see them: all three lists, or an empty object for an app without any.
impl Serialize for Capabilities {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if !self.is_empty() {
            map.serialize_entry("methods", &self.methods)?;
            map.serialize_entry("scheduled_tasks", &self.scheduled_tasks)?;
            map.serialize_entry("jobs", &self.jobs)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::{Report, line};

    fn reading(fields: usize) -> Reading {
        Reading {
            manifest: Manifest::default(),
            capabilities: Capabilities::default(),
            metrics: BTreeMap::from([("sent".to_owned(), "sum".to_owned())]),
            public_jobs: Map::new(),
            config_schema: json!(vec![json!({ "key": "a" }); fields]),
            code: Code::default(),
            site: None,
            frontend: None,
        }
    }

    /// As the parent reads it.
    fn sent(reading: Reading) -> Option<Reading> {
        match serde_json::from_str(&line(&Report::Read(Box::new(reading)))) {
            Ok(Report::Read(reading)) => Some(*reading),
            _ => None,
        }
    }

    #[test]
    fn a_process_cannot_send_more_values_than_there_may_be() {
        assert_eq!(sent(reading(2000)), Some(reading(2000)));
        assert_eq!(sent(reading(20_000)), None);
    }
}
