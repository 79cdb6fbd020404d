//! What the server answers: rows as JSON, or as Arrow in base64.

use arrow::array::{Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::ipc::reader::StreamReader;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use crate::Error;

/// The frame around every answer.
#[derive(Debug, Deserialize)]
pub(super) struct Reply<T> {
    #[serde(default)]
    pub(super) success: bool,
    pub(super) code: Option<Value>,
    pub(super) message: Option<String>,
    pub(super) data: Option<T>,
}

impl<T> Reply<T> {
    /// The number of an error, or of a state such as "still busy".
    pub(super) fn code(&self) -> u32 {
        match &self.code {
            Some(Value::String(text)) => text.parse().unwrap_or_default(),
            Some(Value::Number(number)) => number
                .as_u64()
                .and_then(|number| number.try_into().ok())
                .unwrap_or_default(),
            _ => 0,
        }
    }
}

/// What a statement gave.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Outcome {
    #[serde(default)]
    rowtype: Vec<RowType>,
    rowset: Option<Vec<Vec<Value>>>,
    rowset_base64: Option<String>,
    /// Where to ask again, while the statement is still running.
    pub(super) get_result_url: Option<String>,
    /// Of a PUT: where the file goes.
    pub(super) stage_info: Option<StageInfo>,
    /// Of a PUT: files have to be encrypted before they go there.
    pub(super) encryption_material: Option<Value>,
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

/// A row, every value as text.
pub(super) type Row = Vec<Option<String>>;

impl Outcome {
    pub(super) fn column_names(&self) -> Vec<String> {
        self.rowtype.iter().map(|column| column.name.clone()).collect()
    }

    /// Those that hold JSON.
    pub(super) fn variant_names(&self) -> Vec<String> {
        let variants = self
            .rowtype
            .iter()
            .filter(|column| column.kind.eq_ignore_ascii_case("variant"));
        variants.map(|column| column.name.clone()).collect()
    }

    pub(super) fn rows(&self) -> Result<Vec<Row>, Error> {
        if let Some(rows) = &self.rowset {
            return Ok(rows.iter().map(|row| row.iter().map(text).collect()).collect());
        }
        match self.rowset_base64.as_deref() {
            None | Some("") => Ok(Vec::new()),
            Some(encoded) => arrow_rows(encoded),
        }
    }

    /// Of a statement that changes rows: how many, all kinds of change together.
    pub(super) fn changed(&self) -> Result<u64, Error> {
        let rows = self.rows()?;
        let counts = rows.first().into_iter().flatten().flatten();
        Ok(counts.filter_map(|count| count.parse::<u64>().ok()).sum())
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

fn arrow_rows(encoded: &str) -> Result<Vec<Row>, Error> {
    let bytes = STANDARD.decode(encoded).map_err(unreadable)?;
    let reader = StreamReader::try_new(bytes.as_slice(), None).map_err(unreadable)?;
    let mut rows = Vec::new();
    for batch in reader {
        append(&mut rows, &batch.map_err(unreadable)?)?;
    }
    Ok(rows)
}

fn append(rows: &mut Vec<Row>, batch: &RecordBatch) -> Result<(), Error> {
    let mut columns = Vec::new();
    for column in batch.columns() {
        columns.push(cast(column, &DataType::Utf8).map_err(unreadable)?);
    }
    let columns: Vec<&StringArray> = columns
        .iter()
        .filter_map(|column| column.as_any().downcast_ref())
        .collect();
    let cell = |column: &StringArray, row| column.is_valid(row).then(|| column.value(row).to_owned());
    rows.extend((0..batch.num_rows()).map(|row| columns.iter().map(|column| cell(column, row)).collect()));
    Ok(())
}

pub(super) fn unreadable(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::retryable(
        "the response from Snowflake could not be understood; check the account, or its endpoint_url",
        cause,
    )
}
