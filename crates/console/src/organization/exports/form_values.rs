//! From an export to its form, and from the form to what it asks of the service.

use chrono::NaiveDateTime;
use serde_json::{Map, Value};
use service::batch_exports::destination::Kind;
use service::batch_exports::{
    BatchExport, DestinationInput, ExportName, ExportPatch, ExportRest, Interval, ModelInput, NewExport,
};
use service::{Error, Invalid, TeamId, Time};

use super::export_form::ExportForm;
use super::values;
use crate::show;

/// Times as browsers send them, to the minute and, if they know them, to the second.
const TIMES: [&str; 2] = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"];

/// What an export is told besides its destination.
const KEYS: [&str; 8] = [
    "name",
    "team_id",
    "model",
    "interval",
    "paused",
    "start_at",
    "end_at",
    "hogql_query",
];

impl ExportForm {
    /// An empty form, with what is usual in it.
    pub(super) fn fresh(kind: Kind) -> Self {
        let mut typed = Self::default();
        typed.set("interval", Interval::Hour.as_str());
        typed.set("model", "events");
        values::show(kind, &Map::new(), &mut typed);
        typed
    }

    /// As the export is now. Secrets are not among it.
    pub(super) fn of(export: &BatchExport) -> Self {
        let time = |time: Option<Time>| time.map(|time| time.format(TIMES[0]).to_string()).unwrap_or_default();
        let mut typed = Self::default();
        typed.set("name", export.name.as_str());
        typed.set("interval", export.interval.as_str());
        typed.set("model", export.model.name());
        typed.set("start_at", time(export.start_at));
        typed.set("end_at", time(export.end_at));
        typed.set("hogql_query", export.hogql_query.clone().unwrap_or_default());
        values::show(export.kind, &export.config, &mut typed);
        typed
    }

    pub(super) fn destination(&self, kind: Kind) -> DestinationInput {
        DestinationInput {
            kind: Some(kind.name().to_owned()),
            config: Some(values::whole(kind, self)),
        }
    }

    /// What to make of it. Everything that is wrong is said at once.
    pub(super) fn new_export(&self, kind: Kind) -> Result<NewExport, Error> {
        let destination = self.destination(kind);
        let mut wrong = Vec::new();
        let name = noted(self.name(), &mut wrong);
        let interval = noted(self.interval(), &mut wrong);
        let team_id = noted(self.team(), &mut wrong);
        let model = noted(self.model(), &mut wrong);
        let start_at = noted(self.time("start_at"), &mut wrong);
        let end_at = noted(self.time("end_at"), &mut wrong);
        let (Some(name), Some(interval), true) = (name, interval, wrong.is_empty()) else {
            if let Err(Error::Invalid(also)) = destination.read() {
                wrong.extend(also);
            }
            return Err(Error::Invalid(wrong));
        };
        Ok(NewExport {
            name,
            destination,
            interval,
            team_id: team_id.flatten(),
            rest: ExportRest {
                model,
                paused: (self.get("paused") == "yes").then_some(true),
                start_at,
                end_at,
                hogql_query: Some(self.query()),
                ..ExportRest::default()
            },
        })
    }

    /// What it changes of the export. What was left as it is, is not asked for.
    pub(super) fn patch(&self, export: &BatchExport) -> Result<ExportPatch, Error> {
        let before = Self::of(export);
        let is_new = |name: &str| self.get(name) != before.get(name);
        let mut wrong = Vec::new();
        let config = values::changed(export.kind, &export.config, self, &before);
        let patch = ExportPatch {
            name: noted(self.name(), &mut wrong).filter(|_| is_new("name")),
            destination: (!config.is_empty()).then_some(DestinationInput {
                kind: None,
                config: Some(config),
            }),
            interval: noted(self.interval(), &mut wrong).filter(|_| is_new("interval")),
            rest: ExportRest {
                model: noted(self.model(), &mut wrong).filter(|_| is_new("model")),
                start_at: noted(self.time("start_at"), &mut wrong).filter(|_| is_new("start_at")),
                end_at: noted(self.time("end_at"), &mut wrong).filter(|_| is_new("end_at")),
                hogql_query: is_new("hogql_query").then(|| self.query()),
                ..ExportRest::default()
            },
        };
        if wrong.is_empty() {
            Ok(patch)
        } else {
            Err(Error::Invalid(wrong))
        }
    }

    /// The same as the API takes it, without the destination; only what is another than `before`, if that is given.
    pub(super) fn said(&self, before: Option<&Self>) -> Map<String, Value> {
        let mut said = Map::new();
        for key in KEYS {
            let text = self.get(key).trim();
            if text == before.map_or("", |before| before.get(key).trim()) {
                continue;
            }
            let time = self.time(key).ok().flatten().map(show::exactly);
            let number = text.parse::<i64>().ok();
            let value = match key {
                "start_at" | "end_at" => time.map_or(text.into(), Value::from),
                "team_id" => number.map_or(text.into(), Value::from),
                "paused" => true.into(),
                _ => text.into(),
            };
            said.insert(key.to_owned(), if text.is_empty() { Value::Null } else { value });
        }
        said
    }

    fn name(&self) -> Result<ExportName, Invalid> {
        ExportName::new(self.get("name")).map_err(|invalid| Invalid {
            field: Some("name".into()),
            ..invalid
        })
    }

    fn interval(&self) -> Result<Interval, Invalid> {
        let chosen = self.get("interval").parse();
        chosen.map_err(|()| wrong("interval", "choose one of these intervals"))
    }

    fn model(&self) -> Result<ModelInput, Invalid> {
        match self.get("model") {
            "events" => Ok(ModelInput::Events),
            "persons" => Ok(ModelInput::Persons),
            _ => Err(wrong("model", "choose events or persons")),
        }
    }

    fn team(&self) -> Result<Option<TeamId>, Invalid> {
        match self.get("team_id") {
            "" => Ok(None),
            text => match text.parse() {
                Ok(team) => Ok(Some(team)),
                Err(_) => Err(wrong("team_id", "choose one of these teams")),
            },
        }
    }

    /// In UTC, as the page says. Nothing typed: no such time.
    fn time(&self, name: &'static str) -> Result<Option<Time>, Invalid> {
        let text = self.get(name);
        if text.is_empty() {
            return Ok(None);
        }
        let mut read = TIMES
            .iter()
            .filter_map(|format| NaiveDateTime::parse_from_str(text, format).ok());
        let detail = "enter a valid time, such as 2026-11-15T09:30";
        let time = read.next().ok_or_else(|| wrong(name, detail))?;
        Ok(Some(time.and_utc()))
    }

    fn query(&self) -> Option<String> {
        let text = self.get("hogql_query").trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}

fn wrong(field: &'static str, detail: &str) -> Invalid {
    Invalid {
        field: Some(field.into()),
        code: "invalid_input",
        detail: detail.to_owned(),
    }
}

/// The value, or a note of what is wrong with it.
fn noted<T>(read: Result<T, Invalid>, wrong: &mut Vec<Invalid>) -> Option<T> {
    match read {
        Ok(value) => Some(value),
        Err(invalid) => {
            wrong.push(invalid);
            None
        }
    }
}
