//! What an app may be and become, decided without a database.

use serde::Serialize;
use serde_json::{Map, Value};

use super::hosts::named_hosts;
use super::schema::{self, Field};
use super::{App, AppFields, AppName, AppPatch, Derived, Offers, empty_object, limits};
use crate::error::{Error, Result};

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
    /// The same app, if it had other code.
    pub fn with_code(&self, offers: &Offers, tag: Option<String>) -> Result<Self> {
        let mut app = self.clone();
        app.tag = tag.or(app.tag);
        app.change(&AppPatch::default(), Some(offers))?;
        Ok(app)
    }

    /// What would be different with other code.
    pub fn difference_with(&self, offers: &Offers) -> Difference {
        let mut after = self.clone();
        after.take_over(offers);
        Difference::between(self, &after)
    }

    /// `found` is what its code offers, if it has any: what is taken back is what that says.
    pub(super) fn change(&mut self, patch: &AppPatch, found: Option<&Offers>) -> Result<()> {
        let before = self.clone();
        if let Some(plugin_type) = patch.plugin_type.filter(|given| *given != self.plugin_type) {
            if self.is_pinned() {
                let detail = "this app is pinned to a checksum, so its type cannot change";
                return Err(Error::invalid("plugin_type", "pinned", detail));
            }
            self.plugin_type = plugin_type;
        }
        self.write(&patch.rest)?;
        if let Some(offers) = found {
            self.take_over(offers);
        }
        limits::check_app(Some(&before), self)
    }

    /// Whoever sends back what they read has written nothing.
    pub(super) fn write(&mut self, fields: &AppFields) -> Result<()> {
        if let Some(name) = &fields.name {
            let is_same = name.as_ref() == Some(&self.name);
            self.name = name.clone().unwrap_or_else(untitled);
            self.note(Derived::Name, name.is_some(), is_same);
        }
        if let Some(description) = &fields.description {
            let text = description.clone().unwrap_or_default();
            let is_same = text == self.description;
            self.description = text;
            self.note(Derived::Description, description.is_some(), is_same);
        }
        if let Some(icon) = &fields.icon {
            let is_same = *icon == self.icon;
            self.icon.clone_from(icon);
            self.note(Derived::Icon, icon.is_some(), is_same);
        }
        if let Some(tag) = &fields.tag {
            self.tag.clone_from(tag);
        }
        if let Some(is_global) = fields.is_global {
            self.is_global = is_global;
        }
        self.write_structures(fields)
    }

    fn write_structures(&mut self, fields: &AppFields) -> Result<()> {
        if let Some(given) = &fields.config_schema {
            schema::check(given)?;
            let value = or_else(given, || Value::Array(Vec::new()));
            let is_same = value == self.config_schema;
            self.config_schema = value;
            self.note(Derived::ConfigSchema, !given.is_null(), is_same);
        }
        if let Some(given) = &fields.capabilities {
            let value = object("capabilities", given)?;
            let is_same = value == self.capabilities;
            self.capabilities = value;
            self.note(Derived::Capabilities, !given.is_null(), is_same);
        }
        if let Some(given) = &fields.metrics {
            let value = object("metrics", given)?;
            let is_same = value == self.metrics;
            self.metrics = value;
            self.note(Derived::Metrics, !given.is_null(), is_same);
        }
        if let Some(given) = &fields.public_jobs {
            let value = object("public_jobs", given)?;
            let is_same = value == self.public_jobs;
            self.public_jobs = value;
            self.note(Derived::PublicJobs, !given.is_null(), is_same);
        }
        Ok(())
    }

    fn note(&mut self, field: Derived, is_given: bool, is_same: bool) {
        if !is_given {
            self.written.retain(|written| *written != field);
        } else if !is_same && !self.written.contains(&field) {
            self.written.push(field);
        }
    }
}

fn or_else(given: &Value, none: impl FnOnce() -> Value) -> Value {
    match given {
        Value::Null => none(),
        value => value.clone(),
    }
}

fn object(field: &'static str, given: &Value) -> Result<Value> {
    match given {
        Value::Null => Ok(empty_object()),
        Value::Object(_) => Ok(given.clone()),
        _ => Err(Error::invalid(field, "invalid_input", "Must be an object.")),
    }
}

pub(super) fn untitled() -> AppName {
    AppName::new("Untitled app").expect("it is a name")
}

/// What a configuration is told, secrets apart.
pub(super) type Split = (Map<String, Value>, Map<String, Value>);

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

    #[test]
    fn structures_are_objects() {
        assert_eq!(object("metrics", &Value::Null).expect("none"), json!({}));
        assert!(object("metrics", &json!("sum")).is_err());
    }
}
