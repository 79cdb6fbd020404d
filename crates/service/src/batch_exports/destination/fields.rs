//! What may be said of one key of a configuration. Which keys each kind has is said in `tables`.

/// One key of a configuration.
#[derive(Debug, Clone, Copy)]
pub struct ConfigField {
    pub key: &'static str,
    /// What people call it.
    pub label: &'static str,
    pub about: &'static str,
    pub kind: FieldKind,
    pub part: Part,
    pub is_required: bool,
    /// Stored encrypted and never shown.
    pub is_secret: bool,
    /// Says where the destination is, or how sure one is that it is the right one: whoever changes it must give the secrets
    /// again.
    pub is_address: bool,
    /// What holds if it is not given, as text; empty: nothing.
    pub usual: &'static str,
    /// The key beside it, and the value of that, with which alone it counts.
    pub only_with: Option<(&'static str, &'static str)>,
}

#[derive(Debug, Clone, Copy)]
pub enum FieldKind {
    Text,
    /// Text that nobody should see over a shoulder.
    Password,
    /// Text of several lines.
    Lines,
    /// From this to that.
    Number(u32, u32),
    Flag,
    /// Text, or an object that is kept as its JSON text.
    Document,
    Choice(&'static [&'static str]),
    Texts,
    /// The ARN of a role, or a pair of keys.
    RoleOrKeys,
    /// An object with keys of its own.
    Group(&'static [ConfigField]),
}

/// Which question a key helps to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Where is it?
    Location,
    /// How does one get in?
    Access,
    /// What do rows look like there?
    Shape,
    /// Which rows?
    Rows,
}

impl ConfigField {
    pub(super) const fn new(key: &'static str, kind: FieldKind, label: &'static str, about: &'static str) -> Self {
        Self {
            key,
            label,
            about,
            kind,
            part: Part::Location,
            is_required: false,
            is_secret: false,
            is_address: false,
            usual: "",
            only_with: None,
        }
    }

    pub(super) const fn required(mut self) -> Self {
        self.is_required = true;
        self
    }

    pub(super) const fn secret(mut self) -> Self {
        self.is_secret = true;
        self.part = Part::Access;
        self
    }

    pub(super) const fn address(mut self) -> Self {
        self.is_address = true;
        self
    }

    pub(super) const fn part(mut self, part: Part) -> Self {
        self.part = part;
        self
    }

    pub(super) const fn usual(mut self, value: &'static str) -> Self {
        self.usual = value;
        self
    }

    pub(super) const fn only_with(mut self, key: &'static str, value: &'static str) -> Self {
        self.only_with = Some((key, value));
        self
    }

    /// Whether nothing is an answer, too. A prefix must be given, and may be no prefix.
    pub fn may_be_empty(&self) -> bool {
        !self.is_required || self.key == "prefix"
    }
}

pub(super) const fn text(key: &'static str, label: &'static str, about: &'static str) -> ConfigField {
    ConfigField::new(key, FieldKind::Text, label, about)
}

pub(super) const fn password(key: &'static str, label: &'static str, about: &'static str) -> ConfigField {
    ConfigField::new(key, FieldKind::Password, label, about).secret()
}

pub(super) const fn number(key: &'static str, label: &'static str, about: &'static str) -> ConfigField {
    ConfigField::new(key, FieldKind::Number(0, 1_000_000), label, about)
}

pub(super) const fn port(key: &'static str, label: &'static str, about: &'static str) -> ConfigField {
    ConfigField::new(key, FieldKind::Number(1, 65_535), label, about).address()
}

pub(super) const fn flag(key: &'static str, label: &'static str, about: &'static str) -> ConfigField {
    ConfigField::new(key, FieldKind::Flag, label, about)
}

pub(super) const fn choice(
    key: &'static str,
    of: &'static [&'static str],
    label: &'static str,
    about: &'static str,
) -> ConfigField {
    ConfigField::new(key, FieldKind::Choice(of), label, about).part(Part::Shape)
}
