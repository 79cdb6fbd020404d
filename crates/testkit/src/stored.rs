//! What a store of events holds, read as exports read it.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use events::{Events, Scan};
use hogql::{Column, Model, Query};
use serde_json::{Map, Value};
use service::{TeamId, Time};

/// All rows of a team, oldest first: times as text, JSON as what it says.
pub async fn rows(events: &Events, team: TeamId, model: Model) -> Vec<Map<String, Value>> {
    let columns: Vec<Column> = model.columns().collect();
    let mut batches = events.scan(Scan {
        team: team.0,
        query: Query::of(model, &columns),
        start: None,
        end: "2100-01-01T00:00:00Z".parse().expect("a time"),
        skip: 0,
        limit: None,
    });
    let mut rows = Vec::new();
    while let Some(batch) = batches.next().await {
        let batch = batch.expect("the store can be read");
        rows.extend((0..batch.num_rows()).map(|index| row(&batch, index)));
    }
    rows
}

fn row(batch: &RecordBatch, index: usize) -> Map<String, Value> {
    let schema = batch.schema();
    let fields = schema.fields().iter().zip(batch.columns());
    let value = |(field, column): (&arrow_schema::FieldRef, &arrow_array::ArrayRef)| {
        let is_json = field.metadata().contains_key("json");
        (field.name().clone(), value(column, index, is_json))
    };
    fields.map(value).collect()
}

fn value(column: &dyn Array, index: usize, is_json: bool) -> Value {
    if column.is_null(index) {
        return Value::Null;
    }
    match column.data_type() {
        DataType::Utf8 if is_json => {
            serde_json::from_str(column.as_string::<i32>().value(index)).expect("a JSON column holds JSON")
        }
        DataType::Utf8 => column.as_string::<i32>().value(index).into(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(index).into(),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(index).into(),
        DataType::Boolean => column.as_boolean().value(index).into(),
        DataType::Timestamp(..) => {
            let micros = column.as_primitive::<TimestampMicrosecondType>().value(index);
            let time = Time::from_timestamp_micros(micros).expect("a time");
            serde_json::to_value(time).expect("a time is text")
        }
        other => panic!("no column is {other}"),
    }
}
