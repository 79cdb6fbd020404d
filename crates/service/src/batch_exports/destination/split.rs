//! Secrets apart from the rest, and the two together again.

use serde_json::{Map, Value};

use super::Kind;

/// Secret at any depth.
const SECRET_EVERYWHERE: [&str; 2] = ["aws_access_key_id", "aws_secret_access_key"];

/// What may be shown, and what may not.
pub fn split(kind: Kind, config: Map<String, Value>) -> (Map<String, Value>, Map<String, Value>) {
    let is_secret = |key: &str| kind.fields().any(|field| field.is_secret && field.key == key);
    split_by(config, &is_secret)
}

fn split_by(config: Map<String, Value>, is_secret: &dyn Fn(&str) -> bool) -> (Map<String, Value>, Map<String, Value>) {
    let (mut open, mut secret) = (Map::new(), Map::new());
    for (key, value) in config {
        match value {
            value if is_secret(&key) => drop(secret.insert(key, value)),
            Value::Object(inner) => {
                let (inner_open, inner_secret) = split_by(inner, &|key| SECRET_EVERYWHERE.contains(&key));
                if !inner_secret.is_empty() {
                    secret.insert(key.clone(), Value::Object(inner_secret));
                }
                open.insert(key, Value::Object(inner_open));
            }
            value => drop(open.insert(key, value)),
        }
    }
    (open, secret)
}

/// `over` on top of `under`: objects are merged, null takes a key away.
pub fn merge(mut under: Map<String, Value>, over: Map<String, Value>) -> Map<String, Value> {
    for (key, value) in over {
        match (under.remove(&key), value) {
            (_, Value::Null) => {}
            (Some(Value::Object(below)), Value::Object(above)) => {
                under.insert(key, Value::Object(merge(below, above)));
            }
            (_, value) => drop(under.insert(key, value)),
        }
    }
    under
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: &Value) -> Map<String, Value> {
        value.as_object().expect("an object").clone()
    }

    #[test]
    fn secrets_are_split_off_at_any_depth_and_come_back() {
        let config = object(&json!({
            "host": "h", "user": "u", "password": "p",
            "copy_inputs": { "s3_bucket": "b", "bucket_credentials": { "aws_access_key_id": "k" } },
        }));
        let (open, secret) = split(Kind::Redshift, config.clone());
        assert_eq!(
            Value::from(open.clone()),
            json!({ "host": "h", "copy_inputs": { "s3_bucket": "b", "bucket_credentials": {} } })
        );
        assert_eq!(merge(open, secret), config);
    }

    #[test]
    fn merging_keeps_what_is_left_out_and_drops_what_is_null() {
        let merged = merge(
            object(&json!({ "a": 1, "b": 2, "c": { "d": 3 } })),
            object(&json!({ "b": null, "c": { "e": 4 } })),
        );
        assert_eq!(Value::from(merged), json!({ "a": 1, "c": { "d": 3, "e": 4 } }));
    }
}
