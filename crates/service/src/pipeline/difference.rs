//! What one code of an app offers and another does not.

use serde::Serialize;
use serde_json::{Map, Value};

use super::hosts::named_hosts;
use super::schema::{self, Field};
use super::types::{App, AppMetadata};

/// What one code offers and another does not.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Difference {
    pub added_capabilities: Vec<String>,
    pub removed_capabilities: Vec<String>,
    pub added_fields: Vec<String>,
    pub removed_fields: Vec<String>,
    /// Fields of the configuration that both have, and that are not the same in both.
    pub changed_fields: Vec<String>,
    /// What is said of each of these fields, before and after.
    pub field_changes: Vec<FieldChange>,
    /// Hosts that it can reach; `*` is any.
    pub added_hosts: Vec<String>,
    pub removed_hosts: Vec<String>,
}

/// A field of the configuration, as the schema describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldChange {
    pub key: String,
    /// Null: it was not there.
    pub before: Value,
    /// Null: it is gone.
    pub after: Value,
}

impl Difference {
    pub fn between(before: &App, after: &App) -> Self {
        Self::for_values(before, after, &Map::new())
    }

    /// The same for a configuration that has these values: hosts are those that they name.
    pub(super) fn for_values(before: &App, after: &App, values: &Map<String, Value>) -> Self {
        let (old, new) = (capabilities(&before.capabilities), capabilities(&after.capabilities));
        let (old_fields, new_fields) = (
            schema::fields(&before.config_schema),
            schema::fields(&after.config_schema),
        );
        let (old_hosts, new_hosts) = (named_hosts(before, values), named_hosts(after, values));
        let missing_in = |fields: &[Field], key: &str| !fields.iter().any(|field| field.key == key);
        let keys = |fields: &[Field], others: &[Field]| -> Vec<String> {
            let gone = fields.iter().filter(|field| missing_in(others, &field.key));
            gone.map(|field| field.key.clone()).collect()
        };
        let changed = new_fields
            .iter()
            .filter(|field| old_fields.iter().any(|old| old.key == field.key && old != *field));
        Self {
            added_capabilities: new.iter().filter(|name| !old.contains(name)).cloned().collect(),
            removed_capabilities: old.iter().filter(|name| !new.contains(name)).cloned().collect(),
            added_fields: keys(&new_fields, &old_fields),
            removed_fields: keys(&old_fields, &new_fields),
            changed_fields: changed.map(|field| field.key.clone()).collect(),
            field_changes: field_changes(before, &old_fields, after, &new_fields),
            added_hosts: new_hosts
                .iter()
                .filter(|host| !old_hosts.contains(host))
                .cloned()
                .collect(),
            removed_hosts: old_hosts
                .iter()
                .filter(|host| !new_hosts.contains(host))
                .cloned()
                .collect(),
        }
    }
}

/// All fields that are added, changed or removed, those that are there first.
fn field_changes(before: &App, old: &[Field], after: &App, new: &[Field]) -> Vec<FieldChange> {
    let find = |fields: &[Field], key: &str| fields.iter().find(|field| field.key == key).cloned();
    let gone = old.iter().filter(|field| find(new, &field.key).is_none());
    let keys = new.iter().chain(gone).map(|field| field.key.clone());
    keys.filter(|key| find(old, key) != find(new, key))
        .map(|key| FieldChange {
            before: schema::entry(&before.config_schema, &key),
            after: schema::entry(&after.config_schema, &key),
            key,
        })
        .collect()
}

/// As `methods.onEvent`, `jobs.exportAll`.
fn capabilities(value: &Value) -> Vec<String> {
    let lists = value.as_object().into_iter().flatten();
    let each = lists.flat_map(|(list, names)| {
        let names = names.as_array().into_iter().flatten().filter_map(Value::as_str);
        names.map(move |name| format!("{list}.{name}"))
    });
    each.collect()
}

impl App {
    /// What would be different with other code.
    pub fn difference_with(&self, metadata: &AppMetadata) -> Difference {
        let mut after = self.clone();
        after.take_over(metadata);
        Difference::between(self, &after)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn capabilities_are_told_apart_by_list_and_name() {
        let value = json!({ "methods": ["onEvent"], "jobs": ["all"], "scheduled_tasks": [] });
        assert_eq!(capabilities(&value), ["jobs.all", "methods.onEvent"]);
        assert!(capabilities(&json!({})).is_empty());
    }
}
