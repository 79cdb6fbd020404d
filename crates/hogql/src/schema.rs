//! A query as the API shows it.

use serde_json::{Map, Value as Json, json};

use crate::display::print;
use crate::expr::{Query, Value};
use crate::text::time_text;

impl Query {
    /// `{fields: [{expression, alias}], values, hogql_query}`: values are taken out of the expressions and listed apart.
    pub fn schema_json(&self) -> Json {
        let mut values = Map::new();
        let mut named = |value: &Value| {
            let name = format!("hogql_val_{}", values.len());
            let text = format!("%({name})s");
            values.insert(name, json_of(value));
            text
        };
        let field = |field: &crate::Field| json!({"expression": print(&field.expr, &mut named), "alias": field.alias});
        let fields: Vec<_> = self.fields.iter().map(field).collect();
        json!({"fields": fields, "values": values, "hogql_query": self.to_string()})
    }
}

fn json_of(value: &Value) -> Json {
    match value {
        Value::Text(text) => json!(text),
        Value::Int(number) => json!(number),
        Value::Float(number) => json!(number),
        Value::Bool(is_true) => json!(is_true),
        Value::Time(time) => json!(time_text(*time)),
        Value::Null => Json::Null,
    }
}
