//! The columns of a table, and what they hold.

use arrow_schema::DataType;

/// No text of Redshift is longer, in bytes.
pub(super) const MAX_LENGTH: usize = 65_535;

/// A column as the database describes it.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: String,
    /// None: of a type that we do not write.
    pub(super) kind: Option<Kind>,
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// At most so many bytes.
    Text(usize),
    Super,
    Int,
    Float,
    Bool,
    Time,
}

impl Kind {
    /// By the name in the catalog.
    pub(super) fn named(name: &str, longest: Option<usize>) -> Option<Self> {
        match name {
            "character varying" | "character" | "text" | "varchar" | "char" => Some(Self::Text(
                longest.map_or(MAX_LENGTH, |longest| longest.min(MAX_LENGTH)),
            )),
            "super" => Some(Self::Super),
            "smallint" | "integer" | "bigint" => Some(Self::Int),
            "double precision" | "real" | "numeric" => Some(Self::Float),
            "boolean" => Some(Self::Bool),
            "timestamp with time zone" | "timestamp without time zone" => Some(Self::Time),
            _ => None,
        }
    }

    /// The expression that a parameter becomes.
    pub(super) fn cast(self, parameter: usize) -> String {
        match self {
            Self::Text(_) => format!("${parameter}"),
            Self::Super => format!("JSON_PARSE(${parameter})"),
            Self::Int => format!("CAST(${parameter} AS BIGINT)"),
            Self::Float => format!("CAST(${parameter} AS DOUBLE PRECISION)"),
            // Redshift makes no truth of texts.
            Self::Bool => format!("(${parameter} = 'true')"),
            Self::Time => format!("CAST(${parameter} AS TIMESTAMPTZ)"),
        }
    }

    pub(super) fn takes(self, kind: &DataType) -> bool {
        match self {
            Self::Text(_) => true,
            Self::Super => *kind == DataType::Utf8,
            Self::Int => *kind == DataType::Int64,
            Self::Float => matches!(kind, DataType::Int64 | DataType::Float64),
            Self::Bool => *kind == DataType::Boolean,
            Self::Time => matches!(kind, DataType::Timestamp(..)),
        }
    }
}
