//! A labeled field of a form, with its hint and with what is wrong with it.

use std::borrow::Cow;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::failure::Problems;

#[derive(Debug, Clone, Default, Template)]
#[template(path = "field.html")]
pub(crate) struct Field {
    /// As the service calls it, so that what it says of the field is said beside it.
    name: Cow<'static, str>,
    label: Cow<'static, str>,
    kind: &'static str,
    autocomplete: &'static str,
    /// What kind of keyboard to show, if not the usual one.
    keyboard: &'static str,
    value: String,
    hint: Cow<'static, str>,
    /// A word beside the label.
    remark: Cow<'static, str>,
    problem: Option<String>,
    most: u16,
    /// What browsers offer while somebody types; other text can be typed, too.
    suggestions: Vec<&'static str>,
    is_optional: bool,
    is_focused: bool,
    is_fixed: bool,
}

/// Its template escapes what it holds.
impl HtmlSafe for Field {}

impl Field {
    pub(crate) fn text(
        name: impl Into<Cow<'static, str>>,
        label: impl Into<Cow<'static, str>>,
        autocomplete: &'static str,
    ) -> Self {
        Self {
            name: name.into(),
            label: label.into(),
            kind: "text",
            autocomplete,
            most: 128,
            ..Self::default()
        }
    }

    pub(crate) fn email() -> Self {
        Self {
            kind: "email",
            most: 254,
            ..Self::text("email", "Email", "username")
        }
    }

    pub(crate) fn password(
        name: impl Into<Cow<'static, str>>,
        label: &'static str,
        autocomplete: &'static str,
    ) -> Self {
        Self {
            kind: "password",
            most: 256,
            ..Self::text(name, label, autocomplete)
        }
    }

    /// A new password, with what is asked of it.
    pub(crate) fn new_password(label: &'static str) -> Self {
        Self::password("password", label, "new-password")
            .hint("At least 8 characters. Use a passphrase or a password manager.")
    }

    /// A day, for which browsers have a calendar.
    pub(crate) fn date(name: &'static str, label: &'static str) -> Self {
        Self {
            kind: "date",
            most: 10,
            ..Self::text(name, label, "off")
        }
    }

    /// A minute of a day, for which browsers have a calendar and a clock.
    pub(crate) fn minute(name: &'static str, label: &'static str) -> Self {
        Self {
            kind: "datetime-local",
            most: 19,
            ..Self::text(name, label, "off")
        }
    }

    /// A code of an authenticator.
    pub(crate) fn code(label: &'static str) -> Self {
        Self {
            most: 40,
            ..Self::text("token", label, "one-time-code")
        }
    }

    pub(crate) fn holding(mut self, value: impl Into<String>) -> Self {
        self.value = value.into();
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = hint.into();
        self
    }

    pub(crate) fn remark(mut self, remark: impl Into<Cow<'static, str>>) -> Self {
        self.remark = remark.into();
        self
    }

    pub(crate) fn suggesting(mut self, suggestions: impl IntoIterator<Item = &'static str>) -> Self {
        self.suggestions = suggestions.into_iter().collect();
        self
    }

    pub(crate) fn keyboard(mut self, keyboard: &'static str) -> Self {
        self.keyboard = keyboard;
        self
    }

    pub(crate) fn at_most(mut self, most: u16) -> Self {
        self.most = most;
        self
    }

    pub(crate) fn optional(mut self) -> Self {
        self.is_optional = true;
        self.remark = "optional".into();
        self
    }

    /// That it may be left out goes without saying.
    pub(crate) fn of_filter(mut self) -> Self {
        self.is_optional = true;
        self
    }

    /// Shown, and sent along, but not to be changed here.
    pub(crate) fn fixed(mut self) -> Self {
        self.is_fixed = true;
        self
    }

    /// Where to begin typing, unless another field is wrong.
    pub(crate) fn focused(mut self) -> Self {
        self.is_focused = true;
        self
    }

    pub(crate) fn judged(mut self, problems: &Problems) -> Self {
        self.problem = problems.of(&self.name);
        if let Some(first) = problems.first_field() {
            self.is_focused = first == self.name;
        }
        self
    }

    fn described_by(&self) -> String {
        let hint = (!self.hint.is_empty()).then(|| format!("{}-hint", self.name));
        let problem = self.problem.as_ref().map(|_| format!("{}-problem", self.name));
        [problem, hint].into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}
