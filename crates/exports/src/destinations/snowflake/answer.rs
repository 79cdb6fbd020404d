//! What the server answers: rows as JSON, or as Arrow in base64.

use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::arrow_rows;
use crate::Error;
use crate::destinations::answers::{Bounded, Cell, Cells, MAX_ROWS, Row};

/// The frame around every answer.
#[derive(Debug, Deserialize)]
pub(super) struct Reply<T> {
    #[serde(default)]
    pub(super) success: bool,
    #[serde(default)]
    code: Cell,
    pub(super) message: Option<String>,
    pub(super) data: Option<T>,
}

impl<T> Reply<T> {
    /// The number of an error, or of a state such as "still busy".
    pub(super) fn code(&self) -> u32 {
        let Cell(code) = &self.code;
        code.as_deref().and_then(|code| code.parse().ok()).unwrap_or_default()
    }
}

/// What a statement gave.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Outcome {
    #[serde(default)]
    rowtype: Bounded<RowType, MAX_ROWS>,
    rowset: Option<Bounded<Cells, MAX_ROWS>>,
    rowset_base64: Option<String>,
    /// Where to ask again, while the statement is still running.
    pub(super) get_result_url: Option<String>,
    /// Of a PUT: where the file goes.
    pub(super) stage_info: Option<StageInfo>,
    /// Of a PUT: files have to be encrypted before they go there.
    encryption_material: Option<Encryption>,
}

#[derive(Debug, Deserialize)]
struct RowType {
    name: String,
    #[serde(rename = "type", default)]
    kind: String,
}

/// A place for files, and what opens it for a while.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StageInfo {
    pub(super) location_type: String,
    #[serde(default)]
    pub(super) location: String,
    #[serde(default)]
    pub(super) creds: Credentials,
    pub(super) region: Option<String>,
    pub(super) end_point: Option<String>,
    pub(super) storage_account: Option<String>,
    pub(super) presigned_url: Option<String>,
}

/// Not shown by `Debug`: all of it is secret.
#[derive(Default, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) struct Credentials {
    pub(super) aws_key_id: Option<String>,
    pub(super) aws_secret_key: Option<String>,
    pub(super) aws_token: Option<String>,
    pub(super) azure_sas_token: Option<String>,
    pub(super) gcs_access_token: Option<String>,
}

impl std::fmt::Debug for StageInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StageInfo")
            .field("location_type", &self.location_type)
            .finish_non_exhaustive()
    }
}

/// Whether files have to be encrypted. Encryption material without any value says that they need not be.
#[derive(Debug)]
struct Encryption {
    is_required: bool,
}

impl<'de> Deserialize<'de> for Encryption {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EncryptionVisitor)
    }
}

/// Encryption material, or a list with one for each file.
struct EncryptionVisitor;

impl<'de> Visitor<'de> for EncryptionVisitor {
    type Value = Encryption;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut materials: A) -> Result<Encryption, A::Error> {
        let mut is_required = false;
        while let Some(material) = materials.next_element::<Option<Encryption>>()? {
            is_required |= material.is_some_and(|material| material.is_required);
        }
        Ok(Encryption { is_required })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Encryption, A::Error> {
        let mut is_required = false;
        while let Some((_, value)) = fields.next_entry::<IgnoredAny, Option<IgnoredAny>>()? {
            is_required |= value.is_some();
        }
        Ok(Encryption { is_required })
    }
}

impl Outcome {
    pub(super) fn requires_encryption(&self) -> bool {
        self.encryption_material
            .as_ref()
            .is_some_and(|material| material.is_required)
    }

    pub(super) fn column_names(&self) -> Vec<String> {
        self.rowtype.0.iter().map(|column| column.name.clone()).collect()
    }

    /// Those that hold JSON.
    pub(super) fn variant_names(&self) -> Vec<String> {
        let variants = self
            .rowtype
            .0
            .iter()
            .filter(|column| column.kind.eq_ignore_ascii_case("variant"));
        variants.map(|column| column.name.clone()).collect()
    }

    /// Of rows in Arrow it is the first; no statement of ours asks for more.
    pub(super) fn rows(self) -> Result<Vec<Row>, Error> {
        if let Some(rows) = self.rowset {
            return Ok(rows.0.into_iter().map(Cells::texts).collect());
        }
        match self.rowset_base64.as_deref() {
            None | Some("") => Ok(Vec::new()),
            Some(encoded) => Ok(arrow_rows::first(encoded)?.into_iter().collect()),
        }
    }

    /// Of a statement that changes rows: how many, all kinds of change together.
    pub(super) fn changed(self) -> Result<u64, Error> {
        let rows = self.rows()?;
        let counts = rows.first().into_iter().flatten().flatten();
        Ok(counts.filter_map(|count| count.parse::<u64>().ok()).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::super::errors::unreadable;
    use super::*;
    use crate::destinations::answers::read;

    fn outcome(data: &str) -> Result<Outcome, Error> {
        let answer = format!(r#"{{"success":true,"code":null,"data":{data}}}"#);
        let reply: Reply<Outcome> = read(answer.as_bytes(), unreadable)?;
        Ok(reply.data.unwrap_or_default())
    }

    fn list(item: &str, count: usize) -> String {
        format!("[{}]", vec![item; count].join(","))
    }

    #[test]
    fn rows_are_texts_and_changes_are_added_up() {
        let counted = || outcome(r#"{"rowset":[["2",3,null,"x"]],"rowtype":[{"name":"a","type":"VARIANT"}]}"#).unwrap();
        let row = [Some("2"), Some("3"), None, Some("x")].map(|text| text.map(str::to_owned));
        assert_eq!(counted().rows().unwrap(), [row.to_vec()]);
        assert_eq!(counted().changed().unwrap(), 5);
        assert_eq!(counted().variant_names(), ["a"]);
    }

    #[test]
    fn answers_with_more_than_was_asked_for_are_refused() {
        let place = r#""stageInfo":{"locationType":"S3","presignedUrl":"http://127.0.0.1/"}"#;
        for data in [
            format!(r#"{{"rowset":{}}}"#, list("[]", 500_000)),
            format!(r#"{{"rowset":[{}]}}"#, list("\"\"", 500_000)),
            format!(r#"{{{place},"rowset":[{}]}}"#, list("null", 500_000)),
            format!(r#"{{"rowtype":{}}}"#, list(r#"{"name":""}"#, 200_000)),
        ] {
            let error = outcome(&data).unwrap_err();
            assert!(
                error.is_permanent && error.sentence.contains("than were asked for"),
                "{error}"
            );
        }
        for data in [
            format!(r#"{{"rowset":{}}}"#, list(r#"{"":0}"#, 500_000)),
            format!(r#"{{"rowset":[{}]}}"#, list(r#"{"":0}"#, 500_000)),
        ] {
            let error = outcome(&data).unwrap_err();
            assert!(error.sentence.contains("could not be understood"), "{error}");
        }
    }

    #[test]
    fn a_code_is_a_number_or_a_text() {
        let code = |code: &str| {
            let answer = format!(r#"{{"code":{code},"data":{{"any":[1]}}}}"#);
            serde_json::from_str::<Reply<IgnoredAny>>(&answer).map(|reply| reply.code())
        };
        assert_eq!(code("\"390100\"").unwrap(), 390_100);
        assert_eq!(code("390100").unwrap(), 390_100);
        assert_eq!(code("null").unwrap(), 0);
        assert_eq!(code("\"none\"").unwrap(), 0);
        assert!(code(&list(r#"{"":0}"#, 500_000)).is_err());
    }

    #[test]
    fn a_form_with_nothing_in_it_asks_for_no_encryption() {
        let wants = |form: &str| {
            let outcome = outcome(&format!(r#"{{"encryptionMaterial":{form}}}"#));
            outcome.unwrap().requires_encryption()
        };
        for nothing in ["null", "[]", "[null]", "{}", r#"{"queryStageMasterKey":null}"#] {
            assert!(!wants(nothing), "{nothing}");
        }
        assert!(wants(r#"{"queryStageMasterKey":"k"}"#));
        assert!(wants(r#"[null,{"queryStageMasterKey":"k"}]"#));
        assert!(wants(&list(r#"{"":0}"#, 500_000)));
    }
}
