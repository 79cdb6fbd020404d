//! Whatever is wrong with a body, the answer names the field in our own words: none of a library reach a user.

use serde_json::{Map, Value, json};
use service::batch_exports::destination::{ConfigField, FieldKind, Kind};
use testkit::kit::{bearer, with_json};
use testkit::{Kit, Reply, on_both};

use crate::access::{Operation, Things, body, operations};
use crate::configs::{config, destinations};

/// Words of serde, sqlx, url, chrono, uuid and of Rust itself.
const FOREIGN: &[&str] = &[
    "expected",
    "invalid type",
    "invalid value",
    "invalid length",
    "missing field",
    "unknown field",
    "unknown variant",
    "did not match",
    "untagged",
    "at line",
    "EOF",
    "u16",
    "u32",
    "u64",
    "i16",
    "i32",
    "i64",
    "f64",
    "usize",
    "relative URL",
    "without a base",
    "parse error",
    "invalid digit",
    "Utf8",
    "Some(",
    "None)",
    "Err(",
    "panicked",
    "sqlx",
    "serde",
    "constraint",
    "SQLSTATE",
    "trailing",
    "recursion",
];

fn says_nothing_foreign(reply: &Reply, about: &str) {
    let found = foreign(reply);
    assert!(found.is_none(), "{about}: {found:?}");
}

/// The first word that is none of ours, and what it is in.
fn foreign(reply: &Reply) -> Option<(&'static str, String)> {
    let mut details = vec![reply.body["detail"].as_str().unwrap_or_default()];
    let errors = reply.body["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    details.extend(errors.iter().filter_map(|error| error["detail"].as_str()));
    details.into_iter().find_map(|detail| {
        let word = FOREIGN.iter().find(|word| detail.contains(**word))?;
        Some((*word, detail.to_owned()))
    })
}

/// Values of every kind, at the edges of what numbers can be.
fn odd_values() -> Vec<Value> {
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    vec![
        json!(true),
        json!(7),
        json!(-1),
        json!(8.0),
        json!(8.5),
        json!(1e300),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(70_000),
        json!(3_000_000_000_u64),
        json!(9.3e18),
        json!(-9.3e18),
        json!("x"),
        json!(""),
        json!(" "),
        json!("\u{1}"),
        json!("é".repeat(20_000)),
        json!([]),
        json!([7]),
        json!([null]),
        json!({}),
        json!({ "x": 7 }),
        json!([[{}]]),
        deep,
        Value::Null,
    ]
}

/// The paths of all fields of a schema, those of objects inside objects as well.
fn fields(schema: &Value) -> Vec<Vec<String>> {
    let options = ["anyOf", "oneOf", "allOf"]
        .into_iter()
        .filter_map(|key| schema[key].as_array());
    let mut found: Vec<Vec<String>> = options.flatten().flat_map(fields).collect();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        found.push(vec![name.clone()]);
        for inner in fields(property) {
            found.push([vec![name.clone()], inner].concat());
        }
    }
    found
}

fn with(mut body: Value, path: &[String], value: &Value) -> Value {
    let (last, before) = path.split_last().expect("a field");
    let mut place = &mut body;
    for name in before {
        if !place[name.as_str()].is_object() {
            place[name.as_str()] = json!({});
        }
        place = &mut place[name.as_str()];
    }
    place[last.as_str()] = value.clone();
    body
}

async fn try_every_field(kit: &Kit, things: &Things, operation: &Operation, wrong: &mut Vec<String>) {
    let spec = &api::spec()["paths"][operation.path][operation.method.to_lowercase()];
    let schema = &spec["requestBody"]["content"]["application/json"]["schema"];
    let path = format!("{}?dry_run=true", things.path(operation));
    for field in fields(schema) {
        for value in odd_values() {
            let body = with(body(operation.id).unwrap_or_else(|| json!({})), &field, &value);
            let reply = kit
                .send(with_json(bearer(&operation.method, &path, &kit.owner.key), &body))
                .await;
            let shown = value.to_string().chars().take(60).collect::<String>();
            let about = format!("{} {} = {shown}", operation.id, field.join("__"));
            if reply.status >= 500 {
                wrong.push(format!("{about}: {}", reply.body));
            }
            wrong.extend(foreign(&reply).map(|found| format!("{about}: {found:?}")));
            // What was said may be well formed, and not true: that is about no field.
            let is_about_a_token = operation.path.contains("{token}") || reply.body["code"] == "invalid_credentials";
            if reply.body["type"] == "validation_error" && !is_about_a_token {
                let is_named = reply.body["attr"].is_string() || reply.text("/detail").contains(field[0].as_str());
                if !is_named {
                    wrong.push(format!("{about}: no field is named: {}", reply.body));
                }
            }
        }
    }
}

on_both! {
    async fn a_wrong_value_of_any_field_of_any_body_is_refused_in_our_own_words(kit: Kit) {
        let things = Things::own(&kit).await;
        let (mut seen, mut wrong) = (0, Vec::new());
        for operation in operations() {
            // Whoever signs in wrongly too often is kept out, which says nothing about fields.
            if body(operation.id).is_some() && operation.credential != "nobody" {
                try_every_field(&kit, &things, &operation, &mut wrong).await;
                seen += 1;
            }
        }
        assert!(seen > 30, "only {seen} operations take a body");
        assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
    }
}

/// What no value of a kind can be.
fn wrong_values(field: &ConfigField) -> Vec<Value> {
    match field.kind {
        FieldKind::Text | FieldKind::Password | FieldKind::Lines => {
            vec![json!(7), json!(["x"]), json!({}), json!("x\0y")]
        }
        FieldKind::Document => vec![json!(7), json!([]), json!("no key"), json!({ "type": 7 })],
        FieldKind::Number(..) => vec![
            json!(-1),
            json!(8.5),
            json!(1e300),
            json!(u64::MAX),
            json!("many"),
            json!([]),
            json!("8.5"),
            json!(4_294_967_295_u64),
        ],
        FieldKind::Flag => vec![json!(1), json!("perhaps"), json!([])],
        FieldKind::Choice(_) => vec![json!("no choice"), json!(7), json!({})],
        FieldKind::Texts => vec![
            json!("x"),
            json!([7]),
            json!({}),
            json!([null]),
            json!(["x".repeat(201)]),
        ],
        FieldKind::RoleOrKeys => vec![
            json!(7),
            json!([]),
            json!({}),
            json!({ "aws_access_key_id": 7 }),
            json!({ "x": 1 }),
        ],
        FieldKind::Group(_) => vec![json!(7), json!("x"), json!([]), json!({ "x": 1 })],
    }
}

async fn refused(kit: &Kit, destination: &Value, attr: &str) {
    let body = json!({ "name": "x", "interval": "hour", "destination": destination });
    let reply = kit.post(&kit.admin.key, &kit.at("batch_exports/"), body).await;
    let shown = destination.to_string().chars().take(300).collect::<String>();
    assert_eq!(reply.status, 400, "{attr} of {shown}: {reply:?}");
    assert!(reply.text("/attr").starts_with(attr), "{attr} of {shown}: {reply:?}");
    says_nothing_foreign(&reply, attr);
}

fn paths(fields: &'static [ConfigField], before: &str) -> Vec<(String, &'static ConfigField)> {
    let path = |field: &ConfigField| format!("{before}{}", field.key);
    fields
        .iter()
        .flat_map(|field| {
            let inside = match field.kind {
                FieldKind::Group(inner) => paths(inner, &format!("{}__", path(field))),
                _ => Vec::new(),
            };
            std::iter::once((path(field), field)).chain(inside)
        })
        .collect()
}

on_both! {
    async fn a_wrong_value_of_any_key_of_any_destination_names_the_key(kit: Kit) {
        for (kind, config) in destinations() {
            let fields = kind.fields().flat_map(|field| paths(std::slice::from_ref(field), ""));
            for (path, field) in fields {
                let names: Vec<String> = path.split("__").map(str::to_owned).collect();
                for value in wrong_values(field) {
                    if value == json!("x\0y") {
                        // The JSON itself is refused.
                        continue;
                    }
                    let config = with(Value::Object(config.clone()), &names, &value);
                    refused(&kit, &json!({ "type": kind.name(), "config": config }), &format!("destination__config__{path}")).await;
                }
            }
            let mut extra = config.clone();
            extra.insert("nonsense".to_owned(), json!(1));
            refused(&kit, &json!({ "type": kind.name(), "config": extra }), "destination__config__nonsense").await;
        }
    }

    async fn what_a_destination_cannot_use_names_the_key(kit: Kit) {
        let cases = [
            (Kind::S3, "bucket_name", json!("a bucket/with")), (Kind::S3, "region", json!("eu central")), (Kind::S3, "prefix", json!("../up")),
            (Kind::S3, "endpoint_url", json!("s3.example.com")), (Kind::S3, "endpoint_url", json!("/relative")), (Kind::Gcs, "bucket_name", json!("b b")),
            (Kind::Gcs, "service_account_key", json!("{}")), (Kind::Gcs, "service_account_key", json!({ "type": "service_account" })),
            (Kind::Gcs, "prefix", json!("a\\b")), (Kind::Gcs, "endpoint_url", json!("x")), (Kind::AzureBlob, "container_name", json!("a/b")),
            (Kind::AzureBlob, "account_name", json!("a.b/c")), (Kind::AzureBlob, "prefix", json!("%2e%2e/x")), (Kind::AzureBlob, "endpoint_url", json!("x")),
            (Kind::File, "folder", json!("../../etc")), (Kind::File, "prefix", json!("./x")), (Kind::Http, "url", json!("example.com")),
            (Kind::Http, "url", json!("http://[::1")), (Kind::Postgres, "host", json!("a b")), (Kind::Postgres, "host", json!("db/x")),
            (Kind::Postgres, "port", json!(70_000)), (Kind::Postgres, "port", json!(0)), (Kind::Postgres, "schema", json!("s".repeat(64))),
            (Kind::Postgres, "table_name", json!("t".repeat(64))), (Kind::Postgres, "table_name", json!("hedgerow_ledger")),
            (Kind::Redshift, "port", json!("65536")), (Kind::Redshift, "host", json!("x y")), (Kind::Redshift, "table_name", json!("t".repeat(64))),
            (Kind::Snowflake, "account", json!("https://a.snowflakecomputing.com")), (Kind::Snowflake, "database", json!("d".repeat(300))),
            (Kind::Snowflake, "warehouse", json!("w ".repeat(200))), (Kind::Snowflake, "private_key", json!("no key")),
            (Kind::Snowflake, "endpoint_url", json!("x")), (Kind::BigQuery, "project_id", json!("a b")), (Kind::BigQuery, "dataset_id", json!("a-b")),
            (Kind::BigQuery, "table_id", json!("a`b")), (Kind::BigQuery, "private_key", json!("no key")),
            (Kind::BigQuery, "private_key", json!("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----")),
            (Kind::BigQuery, "token_uri", json!("oauth2.example.com")), (Kind::BigQuery, "endpoint_url", json!("x")),
            (Kind::Databricks, "server_hostname", json!("https://x.example.com")), (Kind::Databricks, "http_path", json!("/sql")),
            (Kind::Databricks, "catalog", json!("a b")), (Kind::Databricks, "table_name", json!("a`b")), (Kind::ClickHouse, "url", json!("ch.example.com")),
            (Kind::ClickHouse, "table_name", json!("t".repeat(200))), (Kind::ClickHouse, "url", json!("https://")),
        ];
        for (kind, key, value) in cases {
            let mut config = config(kind);
            config.insert(key.to_owned(), value);
            refused(&kit, &json!({ "type": kind.name(), "config": config }), &format!("destination__config__{key}")).await;
        }
    }

    async fn whole_numbers_may_be_written_with_a_fraction_of_nothing(kit: Kit) {
        let mut config = config(Kind::Postgres);
        config.insert("port".to_owned(), json!(5433.0));
        let body = json!({ "name": "x", "interval": "hour", "destination": { "type": "Postgres", "config": config } });
        let made = kit.post(&kit.admin.key, &kit.at("batch_exports/"), body).await;
        assert_eq!((made.status, &made.body["destination"]["config"]["port"]), (201, &json!(5433)), "{made:?}");
        let member = kit.at(&format!("members/{}/", kit.member.user.uuid));
        assert_eq!(kit.patch(&kit.owner.key, &member, json!({ "level": 8.0 })).await.status, 200);
        for level in [json!(8.5), json!(u64::MAX), json!(1e300), json!(9.3e18)] {
            let reply = kit.patch(&kit.owner.key, &member, json!({ "level": level })).await;
            assert_eq!((reply.status, reply.text("/attr")), (400, "level"), "{level}: {reply:?}");
        }
    }
}

#[test]
fn every_kind_of_destination_has_a_configuration_to_start_from() {
    let names: Vec<&str> = destinations().iter().map(|(kind, _)| kind.name()).collect();
    assert_eq!(names, Kind::ALL.map(Kind::name));
    let empty = Map::new();
    assert!(
        destinations()
            .iter()
            .all(|(kind, config)| *kind == Kind::NoOp || *config != empty)
    );
}
