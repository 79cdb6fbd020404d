//! A field of a form for each key of a configuration, as its table says.

use askama::Template;
use askama::filters::HtmlSafe;
use service::batch_exports::destination::{ConfigField, FieldKind, Kind, Part};

use super::export_form::ExportForm;
use super::values::{name_below, name_of};
use crate::choices::{Area, Select, Switch};
use crate::failure::Problems;
use crate::field::Field;

/// As long as the service takes a text.
const MAX_TEXT: u16 = 16_384;

#[derive(Template)]
#[template(path = "organization/exports/input.html")]
pub(super) struct Input {
    name: String,
    label: &'static str,
    control: Control,
    /// The field, and its value, with which alone this one counts.
    only_with: Option<(String, &'static str)>,
}

/// Its template escapes what it holds.
impl HtmlSafe for Input {}

enum Control {
    Field(Field),
    Select(Select),
    Switch(Switch),
    Area(Area),
}

impl Input {
    pub(super) fn field(name: &'static str, label: &'static str, field: Field) -> Self {
        Self::new(name.to_owned(), label, Control::Field(field))
    }

    pub(super) fn select(name: &'static str, label: &'static str, select: Select) -> Self {
        Self::new(name.to_owned(), label, Control::Select(select))
    }

    pub(super) fn switch(name: &'static str, label: &'static str, switch: Switch) -> Self {
        Self::new(name.to_owned(), label, Control::Switch(switch))
    }

    pub(super) fn area(name: &'static str, label: &'static str, area: Area) -> Self {
        Self::new(name.to_owned(), label, Control::Area(area))
    }

    fn new(name: String, label: &'static str, control: Control) -> Self {
        Self {
            name,
            label,
            control,
            only_with: None,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn label(&self) -> &'static str {
        self.label
    }
}

/// What all inputs of a form are made from.
pub(super) struct Inputs<'a> {
    pub(super) kind: Kind,
    pub(super) typed: &'a ExportForm,
    pub(super) problems: &'a Problems,
    /// Secrets are there already, and need not be typed.
    pub(super) are_secrets_kept: bool,
}

impl Inputs<'_> {
    /// Those of one part, in the table's order, but what must be said first.
    pub(super) fn of(&self, part: Part) -> Vec<Input> {
        let mut fields: Vec<&'static ConfigField> = self.kind.fields().filter(|field| field.part == part).collect();
        if part == Part::Location {
            fields.sort_by_key(|field| !field.is_required);
        }
        fields
            .into_iter()
            .flat_map(|field| self.each(field, name_of(field.key)))
            .collect()
    }

    /// A group has no field of its own: those inside it count when it does.
    fn each(&self, field: &'static ConfigField, name: String) -> Vec<Input> {
        let only_with = field.only_with.map(|(key, value)| (name_of(key), value));
        let inputs = match field.kind {
            FieldKind::Group(inner) => {
                let inner = inner
                    .iter()
                    .flat_map(|inside| self.each(inside, name_below(&name, inside.key)));
                inner.collect()
            }
            _ => vec![Input::new(name.clone(), field.label, self.control(field, name))],
        };
        let dependent = |input: Input| Input {
            only_with: only_with.clone().or(input.only_with),
            ..input
        };
        inputs.into_iter().map(dependent).collect()
    }

    fn control(&self, field: &'static ConfigField, name: String) -> Control {
        let text = if field.is_secret { "" } else { self.typed.get(&name) };
        match field.kind {
            FieldKind::Flag => Control::Switch(Switch::new(name, field.label, field.about, text == "yes")),
            FieldKind::Choice(of) => Control::Select(select(field, name, of, text).judged(self.problems)),
            FieldKind::Texts => {
                let area = Area::new(name, field.label, 3, text).optional().code();
                let hint = format!("{} One per line.", field.about);
                Control::Area(area.hint(hint).judged(self.problems))
            }
            FieldKind::Lines | FieldKind::Document => {
                let is_needed = self.is_needed(field, &name);
                let area = Area::new(name, field.label, 6, text).code().hint(self.hint(field));
                let area = if is_needed {
                    area
                } else {
                    area.optional().remark(remark(field))
                };
                Control::Area(area.judged(self.problems))
            }
            _ => Control::Field(self.field(field, name, text)),
        }
    }

    fn field(&self, field: &'static ConfigField, name: String, text: &str) -> Field {
        let is_needed = self.is_needed(field, &name);
        let input = match field.kind {
            // Browsers then offer no password of this site.
            FieldKind::Password => Field::password(name, field.label, "new-password"),
            FieldKind::Number(..) => Field::text(name, field.label, "off").keyboard("numeric"),
            _ => Field::text(name, field.label, "off"),
        };
        let input = input.at_most(MAX_TEXT).holding(text).hint(self.hint(field));
        let input = if is_needed {
            input
        } else {
            input.optional().remark(remark(field))
        };
        input.judged(self.problems)
    }

    /// A group may be left out whole, so what is missing inside it is for the service to miss.
    fn is_needed(&self, field: &ConfigField, name: &str) -> bool {
        let is_inside_group = name != name_of(field.key);
        let is_there = field.is_secret && self.are_secrets_kept;
        !field.may_be_empty() && !is_inside_group && !is_there
    }

    fn hint(&self, field: &ConfigField) -> String {
        if field.is_secret && self.are_secrets_kept {
            format!("{} Leave empty to keep the current value.", field.about)
        } else {
            field.about.to_owned()
        }
    }
}

/// A word beside the label. Of secrets it goes without saying: one of several ways in may be enough.
fn remark(field: &ConfigField) -> String {
    match field.only_with {
        Some((_, value)) => format!("only with {}", option_title(value)),
        None if field.is_secret || field.is_required => String::new(),
        None => "optional".to_owned(),
    }
}

fn select(field: &'static ConfigField, name: String, of: &'static [&'static str], chosen: &str) -> Select {
    // What is usual is one of the choices, or it is that nothing is said.
    let nothing = field.usual.is_empty().then_some(("", "None"));
    let options = nothing
        .into_iter()
        .chain(of.iter().map(|&value| (value, option_title(value))));
    Select::new(name, field.label, options, chosen).hint(field.about)
}

/// What people call a value to choose.
pub(super) fn option_title(value: &str) -> &str {
    match value {
        "JSONLines" => "JSON Lines",
        "keypair" => "Key pair",
        "password" => "Password",
        other => other,
    }
}
