//! What reading an app finds.

use std::collections::BTreeMap;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::json::{few_values, values_of_code};
use crate::{Code, Failure, Manifest};

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
    #[serde(deserialize_with = "values_of_code")]
    pub code: Code,
    /// `site.ts` for browsers: an expression, a function that returns what the file exports.
    pub site: Option<String>,
    /// `frontend.tsx`, in the same form. It expects a global `React`.
    pub frontend: Option<String>,
}

/// What the names of all that an app can be called for take together, in bytes.
const MAX_NAMES: usize = 64 * 1024;

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

    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        [&self.methods, &self.scheduled_tasks, &self.jobs].into_iter().flatten()
    }

    /// Whether the names are as long as an app may have them. It can say others when it runs than when it was read.
    pub(crate) fn checked(self) -> Result<Self, Failure> {
        if self.names().map(String::len).sum::<usize>() > MAX_NAMES {
            return Err(Failure::LongNames { limit: MAX_NAMES });
        }
        Ok(self)
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
    use crate::Module;
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

    #[test]
    fn a_process_cannot_send_more_global_names_than_there_may_be() {
        let declaring = |names: usize| {
            let module = Module {
                declared: (0..names).map(|number| format!("a{number}")).collect(),
                ..Module::default()
            };
            let modules = BTreeMap::from([("index.js".to_owned(), module)]);
            let code = Code { entry: None, modules };
            Reading { code, ..reading(0) }
        };
        assert_eq!(sent(declaring(10_000)), Some(declaring(10_000)));
        assert_eq!(sent(declaring(100_000)), None);
    }

    /// An app can say other names when it runs than when it was read.
    #[test]
    fn names_are_short_together() {
        let jobs = |bytes: usize| Capabilities {
            jobs: vec!["x".repeat(bytes)],
            ..Capabilities::default()
        };
        assert!(jobs(MAX_NAMES).checked().is_ok());
        assert_eq!(
            jobs(MAX_NAMES + 1).checked(),
            Err(Failure::LongNames { limit: MAX_NAMES })
        );
    }
}
