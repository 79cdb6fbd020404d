//! What an export may be, decided without a database.

use std::ops::RangeInclusive;

use chrono::Datelike;
use hogql::Model;
use serde_json::{Map, Value};

use super::checked::CheckedDestination;
use super::destination::{self, Kind};
use super::types::{BatchExport, DestinationInput, ExportPatch};
use crate::Instance;
use crate::clock::Time;
use crate::error::{Error, Result};

/// Encrypts a secret for the place it is kept in.
pub(super) type Encrypt<'a> = &'a dyn Fn(&str, &[u8]) -> Vec<u8>;

/// Far enough from where times end that every interval has a next one, and all are written alike.
const YEARS: RangeInclusive<i32> = 1970..=9000;

impl BatchExport {
    /// Applies a change and makes sure that the whole still makes sense. Of the destination that the change asks for, only
    /// what was checked is taken over.
    pub(super) fn change(
        &mut self,
        patch: &ExportPatch,
        destination: Option<&CheckedDestination>,
        now: Time,
        instance: &Instance,
        encrypt: Encrypt<'_>,
    ) -> Result<()> {
        let ExportPatch {
            name,
            destination: _,
            interval,
            rest,
        } = patch;
        if let Some(name) = name {
            self.name = name.clone();
        }
        if let Some(interval) = interval {
            self.interval = *interval;
        }
        if let Some(model) = rest.model {
            self.model = model.into();
        }
        if let Some(start_at) = rest.start_at {
            self.start_at = start_at;
            // An earlier start than before counts, too: nothing after now has been scheduled yet.
            self.scheduled_until = self.scheduled_until.min(self.interval.floor(now));
        }
        if let Some(end_at) = rest.end_at {
            self.end_at = end_at;
        }
        if let Some(query) = &rest.hogql_query {
            self.hogql_query.clone_from(query);
        }
        if let Some(checked) = destination {
            self.go_to(checked, instance, encrypt)?;
        }
        self.set_paused(rest.paused.unwrap_or(self.paused), now);
        if let Some(last_paused_at) = rest.last_paused_at {
            self.last_paused_at = last_paused_at;
        }
        self.check()?;
        self.reschedule();
        Ok(())
    }

    /// What a change asks for: another destination, or another configuration of the same kind. Secrets that are left out
    /// stay, unless the place has changed: whoever may change where data goes must not be able to send old secrets there.
    pub(super) fn merged(&self, input: &DestinationInput, instance: &Instance) -> Result<(Kind, Map<String, Value>)> {
        let kind = input.named_kind()?.unwrap_or(self.kind);
        let given = input.config.clone().unwrap_or_default();
        let config = if kind != self.kind {
            destination::merge(Map::new(), given)
        } else if moves(kind, &self.config, &given) {
            destination::merge(self.config.clone(), given)
        } else {
            destination::merge(self.whole_config(instance)?, given)
        };
        Ok((kind, config))
    }

    fn go_to(&mut self, checked: &CheckedDestination, instance: &Instance, encrypt: Encrypt<'_>) -> Result<()> {
        let kind = checked.kind();
        let old_secrets = self.open_secrets(instance)?;
        let (config, secrets) = destination::split(kind, checked.config().clone());
        if secrets != old_secrets {
            let plain = serde_json::to_vec(&secrets).expect("a map of JSON is JSON");
            self.secrets = (!secrets.is_empty()).then(|| encrypt(&self.secret_place(), &plain));
        }
        (self.kind, self.config) = (kind, config);
        Ok(())
    }

    fn check(&self) -> Result<()> {
        for (field, time) in [("start_at", self.start_at), ("end_at", self.end_at)] {
            if time.is_some_and(|time| !YEARS.contains(&time.year())) {
                let detail = format!("Must be between the years {} and {}.", YEARS.start(), YEARS.end());
                return Err(Error::invalid(field, "invalid_input", detail));
            }
        }
        if let (Some(start), Some(end)) = (self.start_at, self.end_at)
            && end <= start
        {
            return Err(Error::invalid("end_at", "invalid_input", "Must be after start_at."));
        }
        if self.model == Model::Persons && !self.kind.takes_persons() {
            let detail = format!("{} batch exports support the events model only.", self.kind.name());
            return Err(Error::invalid("model", "invalid_choice", detail));
        }
        self.check_query()
    }

    fn check_query(&self) -> Result<()> {
        let Some(text) = &self.hogql_query else { return Ok(()) };
        let wrong = |detail: String| Error::invalid("hogql_query", "invalid_input", detail);
        if text.trim().is_empty() {
            return Err(Error::invalid(
                "hogql_query",
                "blank",
                "This field must not be blank. Send null for an export without a query.",
            ));
        }
        let query = hogql::parse(text).map_err(|error| wrong(error.to_string()))?;
        if query.model != self.model {
            let detail = format!("The query must SELECT FROM {}, the export's model.", self.model.name());
            return Err(wrong(detail));
        }
        Ok(())
    }

    /// Pausing twice is pausing once. What passed while it was paused is not caught up.
    pub(super) fn set_paused(&mut self, paused: bool, now: Time) {
        if paused == self.paused {
            return;
        }
        self.paused = paused;
        if paused {
            self.last_paused_at = Some(now);
        } else {
            self.failures = 0;
            self.scheduled_until = self.scheduled_until.max(self.interval.floor(now));
        }
    }

    /// Works out when the next run is made.
    pub(super) fn reschedule(&mut self) {
        if let Some(start) = self.start_at {
            self.scheduled_until = self.scheduled_until.max(self.interval.floor(start));
        }
        let next = self.interval.next(self.scheduled_until);
        let is_over = self.end_at.is_some_and(|end| next > end);
        self.next_run_at = (!self.paused && !is_over).then_some(next);
    }

    /// What tells its destination from others. Runs to one destination take turns, so that a broken one holds up nobody else.
    /// The same bucket is another destination for another organization: anybody can name it, and it may not let them in.
    pub(super) fn destination_key(&self) -> String {
        let said = |field: &&destination::ConfigField| {
            field.is_address
                || ["bucket_name", "container_name", "project_id", "folder", "database"].contains(&field.key)
        };
        let parts = self
            .kind
            .fields()
            .filter(said)
            .filter_map(|field| self.config.get(field.key));
        let parts: Vec<String> = parts.map(Value::to_string).collect();
        format!("{} {} {}", self.organization_id, self.kind.name(), parts.join(" "))
    }
}

/// Whether a change says that the destination is somewhere else now.
fn moves(kind: Kind, before: &Map<String, Value>, given: &Map<String, Value>) -> bool {
    let mut addresses = kind.fields().filter(|field| field.is_address);
    addresses.any(|field| {
        let value = given.get(field.key);
        value.is_some() && destination::meant(field, value) != destination::meant(field, before.get(field.key))
    })
}
