//! The OpenAPI spec is complete, and the copy in the repository is fresh.

use serde_json::Value;

#[test]
fn the_openapi_spec_in_the_repository_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let stored: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap_or_default()).unwrap_or_default();
    assert!(stored == *api::spec(), "run `cargo run -- openapi > docs/openapi.json`");
}

#[test]
fn every_operation_says_all_it_should() {
    for (path, item) in api::spec()["paths"].as_object().unwrap() {
        assert!(path.ends_with('/'), "{path}");
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str().expect("an id");
            assert!(
                operation["summary"].is_string() && operation["tags"][0].is_string(),
                "{id}"
            );
            let named: Vec<&str> = operation["parameters"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|parameter| parameter["in"] == "path")
                .map(|parameter| parameter["name"].as_str().unwrap())
                .collect();
            let in_path: Vec<&str> = path
                .split('/')
                .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
                .collect();
            assert_eq!(named, in_path, "{id}");
            let responses = operation["responses"].as_object().unwrap();
            assert!(responses.keys().any(|status| status.starts_with('2')), "{id}");
            assert!(responses.contains_key("500") && responses.contains_key("429"), "{id}");
            if method != "get" && operation["x-credential"] != "none" {
                let parameters = operation["parameters"].to_string();
                assert!(parameters.contains("dry_run"), "{id}");
            }
        }
    }
}

#[test]
fn every_tag_is_described() {
    let described: Vec<&Value> = api::spec()["tags"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tag| &tag["name"])
        .collect();
    for item in api::spec()["paths"].as_object().unwrap().values() {
        for operation in item.as_object().unwrap().values() {
            assert!(described.contains(&&operation["tags"][0]), "{}", operation["tags"]);
        }
    }
}

#[test]
fn every_reference_leads_somewhere() {
    fn walk(value: &Value, spec: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(reference)) = fields.get("$ref") {
                    let pointer = reference.strip_prefix('#').expect("a reference within the spec");
                    assert!(spec.pointer(pointer).is_some(), "{reference}");
                }
                fields.values().for_each(|field| walk(field, spec));
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, spec)),
            _ => {}
        }
    }
    walk(api::spec(), api::spec());
}

#[test]
fn what_is_always_there_is_required() {
    let spec = api::spec();
    let requires = |schema: &Value, name: &str| {
        schema["required"]
            .as_array()
            .is_some_and(|names| names.contains(&name.into()))
    };
    for schema in ["Problem", "ErrorItem"] {
        let schema = &spec["components"]["schemas"][schema];
        assert!(requires(schema, "attr"), "{schema}");
        assert_eq!(
            schema["properties"]["attr"]["type"],
            serde_json::json!(["string", "null"])
        );
    }
    for path in ["batch_exports/", "batch_exports/test/"] {
        let body = &spec["paths"][format!("/api/organizations/{{organization_id}}/{path}")]["post"]["requestBody"];
        let destination = &body["content"]["application/json"]["schema"]["properties"]["destination"];
        assert!(requires(destination, "type"), "{path}: {destination}");
    }
}
