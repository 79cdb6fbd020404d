//! What an app may be and become, decided without a database.

use serde_json::Value;

use super::types::{App, AppFields, AppMetadata, AppName, AppPatch, Derived, Manifest, empty_object};
use super::{schema, sizes};
use crate::error::{Error, Result};

/// What stands before the checksum in the URL of an app that is pinned.
const PIN: &str = "#sha256=";

impl App {
    /// Whether its URL names the only code that it may have.
    pub fn is_pinned(&self) -> bool {
        self.url.as_ref().is_some_and(|url| url.contains(PIN))
    }

    /// The URL of an app that is pinned says which code it has.
    pub(super) fn pin_to(&mut self, sha256: Option<&str>) -> Result<()> {
        let Some((address, _)) = self.url.as_ref().and_then(|url| url.split_once(PIN)) else {
            return Ok(());
        };
        let detail = "this app is pinned to a checksum, and that version has no stored checksum";
        let sha256 = sha256.ok_or_else(|| Error::refused("pinned", detail))?;
        self.url = Some(format!("{address}{PIN}{sha256}"));
        Ok(())
    }

    /// The same app with the code of another version, and what was said of it then.
    pub(super) fn at(mut self, version: i64, manifest: Option<Manifest>) -> Self {
        self.version = version;
        // Without code there is nothing to run.
        let manifest = manifest.unwrap_or_else(|| Manifest {
            config_schema: self.config_schema.clone(),
            capabilities: empty_object(),
            metrics: empty_object(),
            public_jobs: empty_object(),
            hosts: Some(Vec::new()),
            overrides: Vec::new(),
        });
        self.overrides.retain(|field| !field.is_run());
        self.overrides.extend(manifest.overrides);
        self.config_schema = manifest.config_schema;
        self.capabilities = manifest.capabilities;
        self.metrics = manifest.metrics;
        self.public_jobs = manifest.public_jobs;
        self.hosts = manifest.hosts;
        self
    }

    /// Takes over what the code says, where nobody wrote otherwise.
    pub(super) fn take_over(&mut self, metadata: &AppMetadata) {
        let is_ours = |field: Derived| !self.overrides.contains(&field);
        let named = metadata.name.as_deref().and_then(|name| AppName::new(name).ok());
        if let Some(name) = named.filter(|_| is_ours(Derived::Name)) {
            self.name = name;
        }
        if is_ours(Derived::Description) {
            self.description.clone_from(&metadata.description);
        }
        if is_ours(Derived::Icon) {
            self.icon.clone_from(&metadata.icon);
        }
        if is_ours(Derived::ConfigSchema) {
            self.config_schema = metadata.config_schema.clone();
        }
        if is_ours(Derived::Capabilities) {
            self.capabilities = metadata.capabilities.clone();
        }
        if is_ours(Derived::Metrics) {
            self.metrics = metadata.metrics.clone();
        }
        if is_ours(Derived::PublicJobs) {
            self.public_jobs = metadata.public_jobs.clone();
        }
        self.hosts.clone_from(&metadata.hosts);
    }
}

impl App {
    /// The same app, if it had other code.
    pub fn with_code(&self, metadata: &AppMetadata, tag: Option<String>) -> Result<Self> {
        let mut app = self.clone();
        app.tag = tag.or(app.tag);
        app.change(&AppPatch::default(), Some(metadata))?;
        Ok(app)
    }

    /// `found` is what its code offers, if it has any: what is taken back is what that says.
    pub(super) fn change(&mut self, patch: &AppPatch, found: Option<&AppMetadata>) -> Result<()> {
        let before = self.clone();
        if let Some(plugin_type) = patch.plugin_type.filter(|given| *given != self.plugin_type) {
            if self.is_pinned() {
                let detail = "this app is pinned to a checksum, so its type cannot change";
                return Err(Error::invalid("plugin_type", "pinned", detail));
            }
            self.plugin_type = plugin_type;
        }
        self.write(&patch.rest)?;
        if let Some(metadata) = found {
            self.take_over(metadata);
        }
        sizes::check_app(Some(&before), self)
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
            self.overrides.retain(|overridden| *overridden != field);
        } else if !is_same && !self.overrides.contains(&field) {
            self.overrides.push(field);
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn structures_are_objects() {
        assert_eq!(object("metrics", &Value::Null).expect("none"), json!({}));
        assert!(object("metrics", &json!("sum")).is_err());
    }
}
