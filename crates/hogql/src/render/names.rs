//! How names of columns and of types are written.

use crate::model::Type;

pub(super) fn quoted_in_sqlite(alias: &str) -> String {
    format!("\"{}\"", alias.replace('"', "\"\""))
}

pub(super) fn quoted_in_clickhouse(alias: &str) -> String {
    format!("\"{}\"", alias.replace('\\', "\\\\").replace('"', "\\\""))
}

pub(super) fn clickhouse_type(kind: Type) -> &'static str {
    match kind {
        Type::Text | Type::Json => "String",
        Type::Int => "Int64",
        Type::Float => "Float64",
        Type::Bool => "Bool",
        Type::Time => "DateTime64(6, 'UTC')",
    }
}
