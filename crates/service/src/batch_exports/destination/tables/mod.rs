//! What each kind of destination must be told: one table each.

mod databases;
mod files;

pub(super) use databases::KEYS;
pub(super) use files::{COMPRESSIONS, FORMATS};

use super::Kind;
use super::fields::{ConfigField, FieldKind, Part, password, text};

/// Every kind has these.
const COMMON: [ConfigField; 2] = [
    ConfigField::new(
        "include_events",
        FieldKind::Texts,
        "Include events",
        "Names of the events to export. Defaults to all events.",
    )
    .part(Part::Rows),
    ConfigField::new(
        "exclude_events",
        FieldKind::Texts,
        "Exclude events",
        "Names of events that are not exported.",
    )
    .part(Part::Rows),
];

const HTTP: &[ConfigField] = &[
    text(
        "url",
        "URL",
        "The endpoint that batches are sent to, such as https://example.com/batch/.",
    )
    .required()
    .address(),
    password("token", "Token", "The project token sent with each batch.").required(),
];

const NO_OP: &[ConfigField] = &[text("arg", "Note", "Any text. It is stored and not used.")];

impl Kind {
    /// The keys of its configuration, the common ones last.
    pub fn fields(self) -> impl Iterator<Item = &'static ConfigField> {
        let own = match self {
            Self::S3 => files::S3,
            Self::Gcs => files::GCS,
            Self::AzureBlob => files::AZURE_BLOB,
            Self::File => files::FILE,
            Self::Http => HTTP,
            Self::Postgres => databases::POSTGRES,
            Self::Redshift => databases::REDSHIFT,
            Self::Snowflake => databases::SNOWFLAKE,
            Self::BigQuery => databases::BIGQUERY,
            Self::Databricks => databases::DATABRICKS,
            Self::ClickHouse => databases::CLICKHOUSE,
            Self::NoOp => NO_OP,
        };
        own.iter().chain(&COMMON)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a form needs of a table: words for every key, and choices that are there to be made.
    #[test]
    fn every_table_can_be_shown_as_a_form() {
        for kind in Kind::ALL {
            for field in kind.fields() {
                let said = format!("{} {}", kind.name(), field.key);
                assert!(!field.label.is_empty() && field.about.ends_with('.'), "{said}");
                let alike = kind.fields().filter(|other| other.label == field.label).count();
                assert_eq!(alike, 1, "{said}");
                if let Some((key, value)) = field.only_with {
                    let other = kind.fields().find(|other| other.key == key).map(|other| other.kind);
                    assert!(
                        matches!(other, Some(FieldKind::Choice(of)) if of.contains(&value)),
                        "{said}"
                    );
                    assert!(!field.is_required, "{said}");
                }
                if let FieldKind::Choice(of) = field.kind {
                    assert!(field.usual.is_empty() || of.contains(&field.usual), "{said}");
                }
            }
        }
    }
}
