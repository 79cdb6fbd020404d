//! The statements. Every name in them was checked and is quoted, every value is a literal made here.

use hogql::Type;
use service::batch_exports::destination::Databricks as Config;

use super::plan::Plan;
use crate::Error;
use crate::destinations::staging::{Claim, Column, LEDGER, PERSON_COLUMNS, WriteMode, stage_name};

/// When the row arrived, by the warehouse's own clock.
pub(super) const INGESTED: &str = "databricks_ingested_timestamp";
/// Names are at most this long.
const MAX_LENGTH: usize = 255;

/// The export's table and the schema it is in.
#[derive(Debug, Clone)]
pub(super) struct Names {
    catalog: String,
    schema_name: String,
    /// Quoted, as the next one.
    schema: String,
    table: String,
}

impl Names {
    pub(super) fn new(config: &Config) -> Result<Self, Error> {
        for (what, name) in [
            ("catalog", &config.catalog),
            ("schema", &config.schema),
            ("table_name", &config.table_name),
        ] {
            let is_good = |char: char| char.is_alphanumeric() || "_-".contains(char);
            if name.is_empty() || name.len() > MAX_LENGTH || !name.chars().all(is_good) {
                let sentence =
                    format!("the {what} must have 1 to {MAX_LENGTH} letters, digits, underscores and hyphens");
                return Err(Error::plain(sentence).in_key(what));
            }
        }
        let schema = format!("`{}`.`{}`", config.catalog, config.schema);
        Ok(Self {
            catalog: config.catalog.clone(),
            schema_name: config.schema.clone(),
            table: format!("{schema}.`{}`", config.table_name),
            schema,
        })
    }

    pub(super) fn describe(&self) -> String {
        format!("DESCRIBE TABLE {}", self.table)
    }

    pub(super) fn create_table(&self, columns: &[Column], uses_variant: bool, is_custom: bool) -> String {
        let kind = |column: &Column| match column.kind {
            Type::Json if uses_variant => "VARIANT",
            _ => stage_kind(column),
        };
        let mut parts: Vec<String> = columns
            .iter()
            .map(|column| format!("{} {}", quote(&column.name), kind(column)))
            .collect();
        if !is_custom {
            parts.push(format!("{} TIMESTAMP", quote(INGESTED)));
        }
        format!("CREATE TABLE IF NOT EXISTS {} ({})", self.table, parts.join(", "))
    }

    pub(super) fn create_ledger(&self) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {} (export_id STRING, table_name STRING, interval_start STRING, interval_end STRING, attempt STRING, committed_attempt STRING, committed_at TIMESTAMP, row_count BIGINT)",
            self.ledger()
        )
    }

    /// The attempt that claimed an interval last, and the one that committed it.
    pub(super) fn ledger_entry(&self, claim: &Claim) -> String {
        format!(
            "SELECT attempt, committed_attempt FROM {} WHERE {}",
            self.ledger(),
            is_this(claim)
        )
    }

    pub(super) fn claim(&self, claim: &Claim) -> String {
        let [export, table, start, end, attempt] =
            [&claim.export, &claim.table, &claim.start, &claim.end, &claim.attempt].map(|text| literal(text));
        format!(
            "MERGE INTO {ledger} AS l USING (SELECT {export} AS export_id, {table} AS table_name, {start} AS interval_start, {end} AS interval_end, {attempt} AS attempt) AS s ON l.export_id = s.export_id AND l.table_name = s.table_name AND l.interval_start = s.interval_start AND l.interval_end = s.interval_end WHEN MATCHED THEN UPDATE SET attempt = s.attempt WHEN NOT MATCHED THEN INSERT (export_id, table_name, interval_start, interval_end, attempt) VALUES (s.export_id, s.table_name, s.interval_start, s.interval_end, s.attempt)",
            ledger = self.ledger()
        )
    }

    pub(super) fn commit_claim(&self, claim: &Claim, rows: u64) -> String {
        let attempt = literal(&claim.attempt);
        format!(
            "UPDATE {} SET committed_attempt = {attempt}, committed_at = current_timestamp(), row_count = {rows} WHERE {}",
            self.ledger(),
            is_this(claim)
        )
    }

    pub(super) fn create_stage(&self, claim: &Claim, columns: &[Column]) -> String {
        let column = |column: &Column| format!("{} {}", column.stage, stage_kind(column));
        let columns: Vec<String> = columns.iter().map(column).collect();
        format!(
            "CREATE OR REPLACE TABLE {} ({})",
            self.stage(&claim.attempt),
            columns.join(", ")
        )
    }

    pub(super) fn create_volume(&self, attempt: &str) -> String {
        format!("CREATE VOLUME IF NOT EXISTS {}", self.stage(attempt))
    }

    /// Tables and volumes have names of their own each, so both can have the same.
    pub(super) fn drop_all(&self, attempt: &str) -> [String; 2] {
        let stage = self.stage(attempt);
        [
            format!("DROP TABLE IF EXISTS {stage}"),
            format!("DROP VOLUME IF EXISTS {stage}"),
        ]
    }

    /// A file in the attempt's volume, as the segments of a path.
    pub(super) fn path(&self, attempt: &str, file: &str) -> Vec<String> {
        ["Volumes", &self.catalog, &self.schema_name, &stage_name(attempt), file]
            .map(str::to_owned)
            .into()
    }

    pub(super) fn copy(&self, claim: &Claim) -> String {
        let folder = format!("/{}", self.path(&claim.attempt, "").join("/"));
        format!(
            "COPY INTO {} FROM {} FILEFORMAT = PARQUET",
            self.stage(&claim.attempt),
            literal(&folder)
        )
    }

    pub(super) fn count(&self, claim: &Claim) -> String {
        format!("SELECT COUNT(*) FROM {}", self.stage(&claim.attempt))
    }

    /// The one statement that makes rows visible. Repeated, it changes nothing.
    pub(super) fn merge(&self, claim: &Claim, plan: &Plan) -> String {
        let evolution = if plan.evolves { "WITH SCHEMA EVOLUTION " } else { "" };
        let mut names: Vec<String> = plan.written.iter().map(|column| quote(&column.name)).collect();
        let mut values: Vec<String> = plan
            .written
            .iter()
            .map(|column| value(column, &plan.variants))
            .collect();
        if plan.is_stamped {
            names.push(quote(INGESTED));
            values.push("current_timestamp()".to_owned());
        }
        let selected: Vec<String> = values
            .iter()
            .zip(&names)
            .map(|(value, name)| format!("{value} AS {name}"))
            .collect();
        let updates: Vec<String> = names.iter().map(|name| format!("{name} = s.{name}")).collect();
        let inserted: Vec<String> = names.iter().map(|name| format!("s.{name}")).collect();
        let (key, order) = keys(plan);
        let update = format!(" THEN UPDATE SET {}", updates.join(", "));
        let (on, update) = match plan.mode {
            WriteMode::Persons => (SAME_PERSON, format!("{NEWER}{update}")),
            WriteMode::ReplaceByUuid => (SAME_EVENT, format!(" WHEN MATCHED{update}")),
            WriteMode::Append => (SAME_EVENT, String::new()),
        };
        format!(
            "MERGE {evolution}INTO {table} AS t USING (SELECT {selected} FROM {stage} QUALIFY ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY {order}) = 1) AS s ON {on}{update} WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({inserted})",
            table = self.table,
            selected = selected.join(", "),
            stage = self.stage(&claim.attempt),
            names = names.join(", "),
            inserted = inserted.join(", "),
        )
    }

    /// What a test does with things of its own.
    pub(super) fn try_out(&self, attempt: &str) -> [String; 3] {
        let stage = self.stage(attempt);
        [
            format!("CREATE OR REPLACE TABLE {stage} (C0 STRING)"),
            format!("INSERT INTO {stage} (C0) VALUES ('a test of Hedgerow')"),
            self.create_volume(attempt),
        ]
    }

    fn ledger(&self) -> String {
        format!("{}.`{LEDGER}`", self.schema)
    }

    fn stage(&self, attempt: &str) -> String {
        format!("{}.`{}`", self.schema, stage_name(attempt))
    }
}

const SAME_EVENT: &str = "t.`uuid` = s.`uuid`";
const SAME_PERSON: &str = "t.`team_id` = s.`team_id` AND t.`distinct_id` = s.`distinct_id`";
const NEWER: &str = " WHEN MATCHED AND (s.`person_version` > t.`person_version` OR s.`person_distinct_id_version` > \
                     t.`person_distinct_id_version`)";

/// By which columns of the stage rows are the same, and which of them comes first.
fn keys(plan: &Plan) -> (String, String) {
    let staged = |name: &str| {
        let column = plan.written.iter().find(|column| column.name == name);
        column.map_or_else(|| "NULL".to_owned(), |column| column.stage.clone())
    };
    match plan.mode {
        WriteMode::Persons => {
            let [team, id, version, id_version] = PERSON_COLUMNS.map(staged);
            (format!("{team}, {id}"), format!("{version} DESC, {id_version} DESC"))
        }
        WriteMode::Append | WriteMode::ReplaceByUuid => (staged("uuid"), staged("uuid")),
    }
}

/// Delta refuses some characters in names of columns.
pub(super) fn check_columns(columns: &[Column]) -> Result<(), Error> {
    let is_bad = |char: char| " ,;{}()=".contains(char) || char.is_control();
    match columns
        .iter()
        .find(|column| column.name.is_empty() || column.name.len() > MAX_LENGTH || column.name.contains(is_bad))
    {
        Some(_) => Err(Error::plain(
            "Databricks does not accept spaces, commas, semicolons, braces, parentheses and equals signs in names of columns; \
             rename the columns of the query with AS",
        )),
        None => Ok(()),
    }
}

fn quote(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

fn is_this(claim: &Claim) -> String {
    let [export, table, start, end] = [&claim.export, &claim.table, &claim.start, &claim.end].map(|text| literal(text));
    format!("export_id = {export} AND table_name = {table} AND interval_start = {start} AND interval_end = {end}")
}

/// A value from the stage. JSON that cannot be read is kept as text.
fn value(column: &Column, variants: &[String]) -> String {
    match column.kind {
        Type::Json if variants.contains(&column.name) => {
            let staged = &column.stage;
            format!("COALESCE(try_parse_json({staged}), CAST({staged} AS VARIANT))")
        }
        _ => column.stage.clone(),
    }
}

fn stage_kind(column: &Column) -> &'static str {
    match column.kind {
        Type::Text | Type::Json => "STRING",
        Type::Int => "BIGINT",
        Type::Float => "DOUBLE",
        Type::Bool => "BOOLEAN",
        Type::Time => "TIMESTAMP",
    }
}
