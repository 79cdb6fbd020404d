//! The form of an export: what it is called, where it goes, and which rows it takes.

use askama::Template;
use askama::filters::HtmlSafe;
use service::TeamId;
use service::batch_exports::Interval;
use service::batch_exports::destination::{Kind, Part};

use super::export_form::ExportForm;
use super::inputs::{Input, Inputs};
use super::labels;
use crate::choices::{Area, Select, Switch};
use crate::failure::Problems;
use crate::field::Field;

/// What is known of the secrets that the form asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrets {
    /// Nobody has typed them yet.
    New,
    /// They were typed, and pages do not repeat them.
    Again,
    /// The export has them.
    Kept,
}

impl Secrets {
    fn note(self) -> &'static str {
        match self {
            Self::New => "Secrets are encrypted and never shown again.",
            Self::Again => "Secrets are never shown again, so these fields are empty now. Enter them again.",
            Self::Kept => {
                "Secrets are encrypted and never shown. Leave a field empty to keep its value. If you change the \
                 destination's address, enter all of them again."
            }
        }
    }
}

#[derive(Template)]
#[template(path = "organization/exports/form.html")]
pub(super) struct Form {
    panels: Vec<Panel>,
}

/// Its template escapes what it holds.
impl HtmlSafe for Form {}

struct Panel {
    id: &'static str,
    title: &'static str,
    note: &'static str,
    is_urgent: bool,
    inputs: Vec<Input>,
    /// Most people leave it alone, so it is closed unless there is something in it.
    is_rare: bool,
    is_open: bool,
}

impl Panel {
    fn new(id: &'static str, title: &'static str, inputs: Vec<Input>) -> Self {
        Self {
            id,
            title,
            note: "",
            is_urgent: false,
            inputs,
            is_rare: false,
            is_open: false,
        }
    }
}

pub(super) struct FormInput<'a> {
    pub(super) kind: Kind,
    pub(super) typed: &'a ExportForm,
    pub(super) problems: &'a Problems,
    pub(super) secrets: Secrets,
    /// To choose from, for a new export.
    pub(super) teams: &'a [(TeamId, String)],
}

impl Form {
    pub(super) fn new(asked: &FormInput<'_>) -> Self {
        let inputs = Inputs {
            kind: asked.kind,
            typed: asked.typed,
            problems: asked.problems,
            are_secrets_kept: asked.secrets == Secrets::Kept,
        };
        let access = Panel {
            note: asked.secrets.note(),
            is_urgent: asked.secrets == Secrets::Again,
            ..Panel::new("access", "Authentication", inputs.of(Part::Access))
        };
        let panels = [
            Panel::new("what", "General", asked.what()),
            Panel::new("place", "Destination", inputs.of(Part::Location)),
            access,
            Panel::new("shape", "Format", inputs.of(Part::Shape)),
            asked.rows(inputs.of(Part::Rows)),
        ];
        Self {
            panels: panels.into_iter().filter(|panel| !panel.inputs.is_empty()).collect(),
        }
    }

    fn inputs(&self) -> impl Iterator<Item = &Input> {
        self.panels.iter().flat_map(|panel| &panel.inputs)
    }

    /// What is wrong with none of its fields.
    pub(super) fn alerts(&self, problems: &Problems) -> Vec<String> {
        let names: Vec<&str> = self.inputs().map(Input::name).collect();
        problems.besides(&names)
    }

    /// What people call a field.
    pub(super) fn label(&self, name: &str) -> Option<&'static str> {
        self.inputs().find(|input| input.name() == name).map(Input::label)
    }
}

impl FormInput<'_> {
    fn text(&self, name: &str) -> &str {
        self.typed.get(name)
    }

    fn what(&self) -> Vec<Input> {
        let name = Field::text("name", "Name", "off")
            .at_most(200)
            .holding(self.text("name"));
        let interval = Select::new(
            "interval",
            "Frequency",
            INTERVALS.map(|interval| (interval.as_str(), labels::interval(interval))),
            self.text("interval"),
        );
        let interval = interval.hint("Intervals are aligned to UTC; weeks start on Monday.");
        let mut inputs = vec![Input::field("name", "Name", name.judged(self.problems))];
        inputs.extend(self.team());
        inputs.push(self.model());
        inputs.push(Input::select("interval", "Frequency", interval.judged(self.problems)));
        if self.secrets != Secrets::Kept {
            let hint = "Nothing is exported until you resume it.";
            let switch = Switch::new("paused", "Create paused", hint, self.text("paused") == "yes");
            inputs.push(Input::switch("paused", "Create paused", switch));
        }
        inputs
    }

    fn team(&self) -> Option<Input> {
        let teams: Vec<(String, &str)> = self
            .teams
            .iter()
            .map(|(id, name)| (id.to_string(), name.as_str()))
            .collect();
        let options = teams.iter().map(|(id, name)| (id.as_str(), *name));
        let select = Select::new("team_id", "Team", options, self.text("team_id"));
        let select = select.hint("The team whose data is exported.").judged(self.problems);
        (teams.len() > 1).then(|| Input::select("team_id", "Team", select))
    }

    fn model(&self) -> Input {
        let models = [("events", "Events"), ("persons", "Persons")];
        let offered = models
            .into_iter()
            .filter(|(model, _)| *model == "events" || self.kind.takes_persons());
        let select = Select::new("model", "Data", offered, self.text("model"));
        Input::select("model", "Data", select.judged(self.problems))
    }

    /// Everything is exported, from now on, unless something here says otherwise.
    fn rows(&self, by_name: Vec<Input>) -> Panel {
        let mut inputs = by_name;
        for (name, label, hint) in [
            ("start_at", "Start date", "In UTC. No runs before this time."),
            ("end_at", "End date", "In UTC. No runs after this time."),
        ] {
            let field = Field::minute(name, label)
                .optional()
                .hint(hint)
                .holding(self.text(name));
            inputs.push(Input::field(name, label, field.judged(self.problems)));
        }
        let query = Area::new("hogql_query", "Query", 4, self.text("hogql_query"))
            .optional()
            .code();
        let hint = "One SELECT over events or persons, to choose columns and rows. Defaults to all columns. Example: \
                    SELECT event, timestamp, properties.$browser AS browser FROM events WHERE event != 'test'";
        inputs.push(Input::area(
            "hogql_query",
            "Query",
            query.hint(hint).judged(self.problems),
        ));
        let is_said = |input: &Input| !self.text(input.name()).is_empty() || self.problems.of(input.name()).is_some();
        Panel {
            is_rare: true,
            is_open: inputs.iter().any(is_said),
            ..Panel::new("rows", "Filters and schedule (optional)", inputs)
        }
    }
}

/// Rarest last.
const INTERVALS: [Interval; 5] = [
    Interval::FiveMinutes,
    Interval::FifteenMinutes,
    Interval::Hour,
    Interval::Day,
    Interval::Week,
];
