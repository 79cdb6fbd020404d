//! Fields in which one chooses, switches, or writes more than a line.

use std::borrow::Cow;

use askama::Template;
use askama::filters::HtmlSafe;
use service::Level;

use crate::failure::Problems;

/// One of several.
#[derive(Debug, Clone, Template)]
#[template(path = "select.html")]
pub(crate) struct Select {
    /// As the service calls it, so that what it says of the field is said beside it.
    name: Cow<'static, str>,
    label: &'static str,
    hint: Cow<'static, str>,
    options: Vec<Choice>,
    problem: Option<String>,
    is_focused: bool,
}

#[derive(Debug, Clone)]
struct Choice {
    value: String,
    title: String,
    is_chosen: bool,
}

/// Its template escapes what it holds.
impl HtmlSafe for Select {}

impl Select {
    pub(crate) fn new<'a>(
        name: impl Into<Cow<'static, str>>,
        label: &'static str,
        options: impl IntoIterator<Item = (&'a str, &'a str)>,
        chosen: &str,
    ) -> Self {
        let options = options.into_iter().map(|(value, title)| Choice {
            value: value.to_owned(),
            title: title.to_owned(),
            is_chosen: value == chosen,
        });
        Self {
            name: name.into(),
            label,
            hint: "".into(),
            options: options.collect(),
            problem: None,
            is_focused: false,
        }
    }

    /// The levels that somebody of level `own` can give, and the present one.
    pub(crate) fn level(label: &'static str, own: Level, chosen: Level) -> Self {
        let offered = Level::ALL.into_iter().filter(|&level| level <= own || level == chosen);
        let options = offered.map(|level| Choice {
            value: i16::from(level).to_string(),
            title: what_a_level_may(level).to_owned(),
            is_chosen: level == chosen,
        });
        Self {
            options: options.collect(),
            ..Self::new("level", label, [], "")
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = hint.into();
        self
    }

    pub(crate) fn judged(mut self, problems: &Problems) -> Self {
        self.problem = problems.of(&self.name);
        self.is_focused = problems.first_field() == Some(&*self.name);
        self
    }
}

fn what_a_level_may(level: Level) -> &'static str {
    match level {
        Level::Member => "Member: can manage exports and apps",
        Level::Admin => "Administrator: can also manage members, teams, domains and settings",
        Level::Owner => "Owner: full access, including deleting the organization",
    }
}

/// Reads a level from a form.
pub(crate) fn level(text: &str) -> Option<Level> {
    let number: i16 = text.parse().ok()?;
    Level::try_from(number).ok()
}

/// On or off.
#[derive(Debug, Clone, Template)]
#[template(path = "switch.html")]
pub(crate) struct Switch {
    name: Cow<'static, str>,
    title: &'static str,
    hint: &'static str,
    is_on: bool,
}

/// Its template escapes what it holds.
impl HtmlSafe for Switch {}

impl Switch {
    pub(crate) fn new(
        name: impl Into<Cow<'static, str>>,
        title: &'static str,
        hint: &'static str,
        is_on: bool,
    ) -> Self {
        Self {
            name: name.into(),
            title,
            hint,
            is_on,
        }
    }
}

/// Several lines.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "area.html")]
pub(crate) struct Area {
    name: Cow<'static, str>,
    label: &'static str,
    hint: String,
    /// A word beside the label.
    remark: Cow<'static, str>,
    value: String,
    rows: u8,
    is_optional: bool,
    is_focused: bool,
    /// Not for people's language: nothing is to correct it, keep it or send it away to be looked at.
    is_code: bool,
    problems: Vec<String>,
}

/// Its template escapes what it holds.
impl HtmlSafe for Area {}

impl Area {
    pub(crate) fn new(
        name: impl Into<Cow<'static, str>>,
        label: &'static str,
        rows: u8,
        value: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            label,
            rows,
            value: value.into(),
            ..Self::default()
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    pub(crate) fn optional(mut self) -> Self {
        self.is_optional = true;
        self.remark = "optional".into();
        self
    }

    pub(crate) fn remark(mut self, remark: impl Into<Cow<'static, str>>) -> Self {
        self.remark = remark.into();
        self
    }

    pub(crate) fn code(mut self) -> Self {
        self.is_code = true;
        self
    }

    pub(crate) fn focused(mut self) -> Self {
        self.is_focused = true;
        self
    }

    /// All that is wrong with what is in it.
    pub(crate) fn wrong(mut self, problems: Vec<String>) -> Self {
        self.is_focused |= !problems.is_empty();
        self.problems = problems;
        self
    }

    pub(crate) fn judged(mut self, problems: &Problems) -> Self {
        self.problems = problems.of(&self.name).into_iter().collect();
        self.is_focused = problems.first_field() == Some(&*self.name);
        self
    }

    fn described_by(&self) -> String {
        let problem = (!self.problems.is_empty()).then(|| format!("{}-problem", self.name));
        let hint = (!self.hint.is_empty()).then(|| format!("{}-hint", self.name));
        [problem, hint].into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}
