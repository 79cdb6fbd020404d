//! The columns of a delivery, and the plain names they have on the stage.

use arrow_schema::{DataType, Schema};
use hogql::Type;

/// A column on its way. On the stage it is called `C0`, `C1`…, so that whatever name a query gave it is written in one
/// place only: the table's own columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) stage: String,
    pub(crate) kind: Type,
}

/// All columns of a delivery. `rename` gives the name at the destination.
pub(crate) fn columns(schema: &Schema, rename: impl Fn(&str) -> String) -> Vec<Column> {
    let fields = schema.fields().iter().enumerate();
    let column = |(number, field): (usize, &arrow_schema::FieldRef)| Column {
        name: rename(field.name()),
        stage: format!("C{number}"),
        kind: kind(field),
    };
    fields.map(column).collect()
}

fn kind(field: &arrow_schema::Field) -> Type {
    match field.data_type() {
        DataType::Int64 => Type::Int,
        DataType::Float64 => Type::Float,
        DataType::Boolean => Type::Bool,
        DataType::Timestamp(..) => Type::Time,
        _ if field.metadata().contains_key("json") => Type::Json,
        _ => Type::Text,
    }
}
