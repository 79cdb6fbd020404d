//! `plugin.json`: what an app says about itself.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json::{MAX_VALUES, count_values};
use crate::{Fault, Files};

pub(crate) const FILE: &str = "plugin.json";

/// What `plugin.json` says, as far as it is of use here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub name: Option<String>,
    pub description: Option<String>,
    pub url: Option<String>,
    pub icon: Option<String>,
    /// The file to load first.
    pub main: Option<String>,
    pub is_stateless: bool,
    /// The hosts it reaches, and no others; none: it does not say.
    #[serde(default)]
    pub hosts: Option<Vec<String>>,
}

/// The manifest, and the two parts of it that have a place of their own.
pub(crate) struct Declared {
    pub(crate) manifest: Manifest,
    pub(crate) config_schema: Value,
    pub(crate) public_jobs: Map<String, Value>,
}

/// Reads `plugin.json`. An app may do without.
pub(crate) fn read(files: &Files) -> Result<Declared, Fault> {
    let text = files.get(FILE).map_or("{}", |text| text.trim_start_matches('\u{feff}'));
    let source = Source {
        text,
        fields: parse(text)?,
    };
    let manifest = Manifest {
        name: source.text_of("name")?,
        description: source.text_of("description")?,
        url: source.text_of("url")?,
        icon: source.text_of("icon")?,
        main: source.text_of("main")?,
        is_stateless: source.bool_of("stateless")?,
        hosts: source.hosts()?,
    };
    Ok(Declared {
        manifest,
        config_schema: source.config_schema()?,
        public_jobs: source.public_jobs()?,
    })
}

fn parse(text: &str) -> Result<Map<String, Value>, Fault> {
    // Before there are any.
    if count_values(text).map_err(|error| invalid(&error))? > MAX_VALUES {
        let message = format!("this can have at most {MAX_VALUES} values");
        return Err(Fault::in_file(FILE, message));
    }
    match serde_json::from_str(text) {
        Ok(value) if has_null_character(&value) => Err(Fault::in_file(FILE, "strings cannot contain null characters")),
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Fault::at(FILE, (1, 1), "this must be a JSON object")),
        Err(error) => Err(invalid(&error)),
    }
}

/// Not every database can store them.
fn has_null_character(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_null_character),
        Value::Object(fields) => fields
            .iter()
            .any(|(key, value)| key.contains('\0') || has_null_character(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn invalid(error: &serde_json::Error) -> Fault {
    let position = (as_number(error.line()), as_number(error.column()));
    let message = error.to_string();
    // The position stands at the end of the sentence; it is shown in front.
    let sentence = message
        .rsplit_once(" at line ")
        .map_or(message.as_str(), |(sentence, _)| sentence);
    Fault::at(FILE, position, format!("this is not valid JSON: {sentence}"))
}

fn as_number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

struct Source<'a> {
    text: &'a str,
    fields: Map<String, Value>,
}

impl Source<'_> {
    fn get(&self, key: &str) -> Option<&Value> {
        self.fields.get(key).filter(|value| !value.is_null())
    }

    fn text_of(&self, key: &str) -> Result<Option<String>, Fault> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(self.fault(key, format!("\"{key}\" must be text"))),
        }
    }

    fn bool_of(&self, key: &str) -> Result<bool, Fault> {
        match self.get(key) {
            None => Ok(false),
            Some(Value::Bool(is_so)) => Ok(*is_so),
            Some(_) => Err(self.fault(key, format!("\"{key}\" must be true or false"))),
        }
    }

    fn hosts(&self) -> Result<Option<Vec<String>>, Fault> {
        let fault = || self.fault("hosts", "\"hosts\" must be an array of text");
        let Some(value) = self.get("hosts") else {
            return Ok(None);
        };
        let hosts = value.as_array().ok_or_else(fault)?.iter();
        let hosts = hosts.map(|host| host.as_str().map(str::to_owned).ok_or_else(fault));
        hosts.collect::<Result<_, _>>().map(Some)
    }

    fn public_jobs(&self) -> Result<Map<String, Value>, Fault> {
        match self.get("publicJobs") {
            None => Ok(Map::new()),
            Some(Value::Object(jobs)) if jobs.values().all(Value::is_object) => Ok(jobs.clone()),
            Some(_) => Err(self.fault("publicJobs", "\"publicJobs\" must be an object of objects")),
        }
    }

    fn config_schema(&self) -> Result<Value, Fault> {
        let fault = || self.fault("config", "\"config\" must be an array of objects");
        match self.get("config") {
            None => Ok(Value::Array(Vec::new())),
            Some(Value::Array(fields)) if fields.iter().all(Value::is_object) => Ok(Value::Array(fields.clone())),
            Some(Value::Object(fields)) => {
                let fields = fields.iter().map(|(key, field)| keyed(key, field).ok_or_else(fault));
                fields.collect::<Result<_, _>>().map(Value::Array)
            }
            Some(_) => Err(fault()),
        }
    }

    /// A fault at the line where the key seems to stand.
    fn fault(&self, key: &str, message: impl Into<String>) -> Fault {
        let quoted = format!("\"{key}\"");
        let place = self.text.lines().enumerate();
        let mut places = place.filter_map(|(index, line)| line.find(&quoted).map(|column| (index, line, column)));
        match places.find(|(_, line, column)| line[column + quoted.len()..].trim_start().starts_with(':')) {
            Some((index, line, column)) => {
                let column = line[..column].chars().count();
                Fault::at(FILE, (as_number(index + 1), as_number(column + 1)), message)
            }
            None => Fault::in_file(FILE, message),
        }
    }
}

/// A field of the old form, an object by key, in the form of today.
fn keyed(key: &str, field: &Value) -> Option<Value> {
    let mut keyed = Map::new();
    keyed.insert("key".to_owned(), Value::from(key));
    keyed.extend(field.as_object()?.clone());
    Some(Value::Object(keyed))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn declared(text: &str) -> Result<Declared, Fault> {
        read(&Files::from([(FILE.to_owned(), text.to_owned())]))
    }

    fn refusal(text: &str) -> String {
        declared(text).err().unwrap().to_string()
    }

    #[test]
    fn an_app_may_do_without() {
        let declared = read(&Files::new()).unwrap();
        assert_eq!(declared.manifest, Manifest::default());
        assert_eq!(declared.config_schema, json!([]));
    }

    #[test]
    fn the_old_form_of_fields_becomes_the_new_one() {
        let text = r#"{"config": {"token": {"type": "string"}, "url": {"type": "string", "key": "u"}}}"#;
        let schema = declared(text).unwrap().config_schema;
        assert_eq!(
            schema,
            json!([{"key": "token", "type": "string"}, {"key": "u", "type": "string"}])
        );
    }

    #[test]
    fn very_many_values_are_refused_wherever_they_are() {
        for key in ["publicJobs", "config", "hosts", "other"] {
            let text = json!({ key: { "a": { "b": vec![json!({ "": 0 }); 2500] } } }).to_string();
            assert_eq!(refusal(&text), "plugin.json: this can have at most 5000 values");
        }
        let jobs = json!({ "publicJobs": { "a": { "b": vec![json!({ "": 0 }); 2400] } } });
        assert!(declared(&jobs.to_string()).is_ok());
    }

    #[test]
    fn refusals_say_where() {
        assert_eq!(refusal("{\n  \"name\": 1\n}"), "plugin.json:2:3: \"name\" must be text");
        assert_eq!(
            refusal("{\n\"config\": [1]}"),
            "plugin.json:2:1: \"config\" must be an array of objects"
        );
        assert_eq!(
            refusal("{\n\"hosts\": \"a.example\"}"),
            "plugin.json:2:1: \"hosts\" must be an array of text"
        );
        assert_eq!(refusal("[]"), "plugin.json:1:1: this must be a JSON object");
        assert!(refusal("{\n  \"name\": \"a\",\n}").starts_with("plugin.json:3:1: this is not valid JSON: "));
    }
}
