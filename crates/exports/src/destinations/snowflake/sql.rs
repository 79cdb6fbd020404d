//! The statements. Every name in them is quoted here, every value is a literal made here.

use hogql::Type;
use service::batch_exports::destination::Snowflake as Config;

use crate::Error;
use crate::destinations::staging::{Claim, Column, LEDGER, PERSON_COLUMNS, WriteMode, stage_name};

/// Names are at most this long.
const MAX_LENGTH: usize = 255;

/// The export's table and the schema it is in, quoted.
#[derive(Debug, Clone)]
pub(super) struct Names {
    schema: String,
    table: String,
}

impl Names {
    pub(super) fn new(config: &Config) -> Result<Self, Error> {
        let schema = format!(
            "{}.{}",
            quoted("database", &config.database).map_err(|error| error.in_key("database"))?,
            quoted("schema", &config.schema).map_err(|error| error.in_key("schema"))?
        );
        let table = quoted("table", &config.table_name).map_err(|error| error.in_key("table_name"))?;
        Ok(Self {
            table: format!("{schema}.{table}"),
            schema,
        })
    }

    pub(super) fn use_schema(&self) -> String {
        format!("USE SCHEMA {}", self.schema)
    }

    /// Shows a table's columns and none of its rows.
    pub(super) fn look(&self, table: &str) -> String {
        format!("SELECT * FROM {}.{} WHERE FALSE", self.schema, quote(table))
    }

    pub(super) fn create_table(&self, columns: &[Column]) -> String {
        let column = |column: &Column| format!("{} {}", quote(&column.name), kind(column));
        let columns: Vec<String> = columns.iter().map(column).collect();
        format!(
            "CREATE TABLE IF NOT EXISTS {} ({}) COMMENT = 'created by Hedgerow'",
            self.table,
            columns.join(", ")
        )
    }

    pub(super) fn create_ledger(&self) -> String {
        format!(
            r#"CREATE TABLE IF NOT EXISTS {} ("export_id" STRING, "table_name" STRING, "interval_start" STRING, "interval_end" STRING, "attempt" STRING, "committed_attempt" STRING, "committed_at" TIMESTAMP_NTZ, "row_count" INTEGER) COMMENT = 'intervals that Hedgerow delivered'"#,
            self.ledger()
        )
    }

    /// The attempt that claimed an interval last, and the one that committed it.
    pub(super) fn ledger_entry(&self, claim: &Claim) -> String {
        format!(
            r#"SELECT "attempt", "committed_attempt" FROM {} WHERE {}"#,
            self.ledger(),
            is_this(claim)
        )
    }

    /// From now on no other attempt can commit.
    pub(super) fn claim(&self, claim: &Claim) -> String {
        let [export, table, start, end, attempt] =
            [&claim.export, &claim.table, &claim.start, &claim.end, &claim.attempt].map(|text| literal(text));
        format!(
            r#"MERGE INTO {ledger} AS l USING (SELECT {export} AS "export_id", {table} AS "table_name", {start} AS "interval_start", {end} AS "interval_end") AS s ON l."export_id" = s."export_id" AND l."table_name" = s."table_name" AND l."interval_start" = s."interval_start" AND l."interval_end" = s."interval_end" WHEN MATCHED THEN UPDATE SET "attempt" = {attempt} WHEN NOT MATCHED THEN INSERT ("export_id", "table_name", "interval_start", "interval_end", "attempt") VALUES (s."export_id", s."table_name", s."interval_start", s."interval_end", {attempt})"#,
            ledger = self.ledger()
        )
    }

    pub(super) fn create_stage_table(&self, claim: &Claim, columns: &[Column]) -> String {
        let column = |column: &Column| format!("{} {}", column.stage, stage_kind(column));
        let columns: Vec<String> = columns.iter().map(column).collect();
        format!(
            "CREATE OR REPLACE TRANSIENT TABLE {} ({})",
            self.stage(claim),
            columns.join(", ")
        )
    }

    pub(super) fn copy(&self, claim: &Claim) -> String {
        format!(
            "COPY INTO {} FROM @{} FILE_FORMAT = (TYPE = PARQUET USE_LOGICAL_TYPE = TRUE) MATCH_BY_COLUMN_NAME = CASE_INSENSITIVE",
            self.stage(claim),
            stage_name(&claim.attempt)
        )
    }

    pub(super) fn count(&self, claim: &Claim) -> String {
        format!("SELECT COUNT(*) FROM {}", self.stage(claim))
    }

    /// Marks the interval as delivered, unless another attempt has claimed it since: then no row changes.
    pub(super) fn commit_claim(&self, claim: &Claim, rows: u64) -> String {
        let attempt = literal(&claim.attempt);
        let unless_done = if claim.is_resend {
            ""
        } else {
            r#" AND "committed_attempt" IS NULL"#
        };
        format!(
            r#"UPDATE {} SET "committed_attempt" = {attempt}, "committed_at" = SYSDATE(), "row_count" = {rows} WHERE {} AND "attempt" = {attempt}{unless_done}"#,
            self.ledger(),
            is_this(claim)
        )
    }

    /// The statements that bring rows from the stage into the table.
    pub(super) fn load(&self, claim: &Claim, mode: WriteMode, columns: &[Column], variants: &[String]) -> Vec<String> {
        match mode {
            WriteMode::Append => vec![self.insert(claim, columns, variants)],
            WriteMode::ReplaceByUuid => vec![self.delete(claim, columns), self.insert(claim, columns, variants)],
            WriteMode::Persons => vec![
                self.delete_older(claim, columns),
                self.insert_absent(claim, columns, variants),
            ],
        }
    }

    fn insert(&self, claim: &Claim, columns: &[Column], variants: &[String]) -> String {
        let values: Vec<String> = columns.iter().map(|column| value(column, variants, "")).collect();
        format!(
            "INSERT INTO {} ({}) SELECT {} FROM {}",
            self.table,
            names(columns),
            values.join(", "),
            self.stage(claim)
        )
    }

    fn delete(&self, claim: &Claim, columns: &[Column]) -> String {
        let uuid = staged(columns, "uuid");
        format!(
            r#"DELETE FROM {} WHERE "uuid" IN (SELECT {uuid} FROM {})"#,
            self.table,
            self.stage(claim)
        )
    }

    /// Persons of whom the stage has something newer.
    fn delete_older(&self, claim: &Claim, columns: &[Column]) -> String {
        let [team, id, version, id_version] = PERSON_COLUMNS.map(|name| staged(columns, name));
        format!(
            r#"DELETE FROM {} AS t USING {} AS s WHERE t."team_id" = s.{team} AND t."distinct_id" = s.{id} AND (s.{version} > t."person_version" OR s.{id_version} > t."person_distinct_id_version")"#,
            self.table,
            self.stage(claim)
        )
    }

    /// Persons that the table does not have, or no longer.
    fn insert_absent(&self, claim: &Claim, columns: &[Column], variants: &[String]) -> String {
        let [team, id, version, id_version] = PERSON_COLUMNS.map(|name| staged(columns, name));
        let values: Vec<String> = columns.iter().map(|column| value(column, variants, "s.")).collect();
        format!(
            r#"INSERT INTO {table} ({names}) SELECT {values} FROM (SELECT * FROM {stage} QUALIFY ROW_NUMBER() OVER (PARTITION BY {team}, {id} ORDER BY {version} DESC, {id_version} DESC) = 1) AS s WHERE NOT EXISTS (SELECT 1 FROM {table} AS t WHERE t."team_id" = s.{team} AND t."distinct_id" = s.{id})"#,
            table = self.table,
            names = names(columns),
            values = values.join(", "),
            stage = self.stage(claim),
        )
    }

    pub(super) fn drop_table(&self, table: &str) -> String {
        format!("DROP TABLE IF EXISTS {}.{}", self.schema, quote(table))
    }

    /// What a test does with a table of its own.
    pub(super) fn try_out(&self, table: &str) -> [String; 4] {
        let name = format!("{}.{}", self.schema, quote(table));
        [
            format!("CREATE TRANSIENT TABLE {name} (C0 STRING)"),
            format!("CREATE TEMPORARY STAGE {table} ENCRYPTION = (TYPE = 'SNOWFLAKE_SSE')"),
            format!("INSERT INTO {name} (C0) VALUES ('a test of Hedgerow')"),
            format!("DROP TABLE {name}"),
        ]
    }

    fn ledger(&self) -> String {
        format!("{}.{}", self.schema, quote(LEDGER))
    }

    fn stage(&self, claim: &Claim) -> String {
        format!("{}.{}", self.schema, quote(&stage_name(&claim.attempt)))
    }
}

/// Columns of queries can have any name.
pub(super) fn check_columns(columns: &[Column]) -> Result<(), Error> {
    columns
        .iter()
        .try_for_each(|column| quoted("column", &column.name).map(drop))
}

/// A stage that ends with the session. Encrypted by the server, so that files need not be encrypted here.
pub(super) fn create_stage(claim: &Claim) -> String {
    format!(
        "CREATE TEMPORARY STAGE {} ENCRYPTION = (TYPE = 'SNOWFLAKE_SSE')",
        stage_name(&claim.attempt)
    )
}

/// Asks where a file goes; nothing is read from a disk.
pub(super) fn put(claim: &Claim, file: &str) -> String {
    format!(
        "PUT 'file:///{file}' @{} AUTO_COMPRESS = FALSE OVERWRITE = TRUE",
        stage_name(&claim.attempt)
    )
}

/// `set` is a keyword in Snowflake; the origin's tables avoid it, and so do ours.
pub(super) fn renamed(name: &str, is_custom: bool) -> String {
    match name {
        "set" if !is_custom => "people_set".to_owned(),
        "set_once" if !is_custom => "people_set_once".to_owned(),
        name => name.to_owned(),
    }
}

/// Warehouses and roles: a plain word in any case, as everywhere in Snowflake; anything else exactly as it is.
pub(super) fn word(what: &str, name: &str) -> Result<String, Error> {
    let is_start = |char: char| char.is_ascii_alphabetic() || char == '_';
    let is_rest = |char: char| char.is_ascii_alphanumeric() || char == '_';
    if name.starts_with(is_start) && name.chars().all(is_rest) {
        return Ok(name.to_owned());
    }
    quoted(what, name)
}

fn quoted(what: &str, name: &str) -> Result<String, Error> {
    if name.is_empty() || name.len() > MAX_LENGTH || name.contains('\0') {
        let sentence = format!("the name of the {what} must have 1 to {MAX_LENGTH} bytes and no NUL among them");
        return Err(Error::plain(sentence));
    }
    Ok(quote(name))
}

fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

fn is_this(claim: &Claim) -> String {
    let [export, table, start, end] = [&claim.export, &claim.table, &claim.start, &claim.end].map(|text| literal(text));
    format!(
        r#""export_id" = {export} AND "table_name" = {table} AND "interval_start" = {start} AND "interval_end" = {end}"#
    )
}

fn names(columns: &[Column]) -> String {
    let names: Vec<String> = columns.iter().map(|column| quote(&column.name)).collect();
    names.join(", ")
}

/// What a column is called on the stage.
fn staged<'a>(columns: &'a [Column], name: &str) -> &'a str {
    let column = columns.iter().find(|column| column.name == name);
    column.map_or("NULL", |column| &column.stage)
}

/// A value from the stage. JSON that Snowflake cannot read, such as with a key twice, is kept as text.
fn value(column: &Column, variants: &[String], from: &str) -> String {
    let staged = format!("{from}{}", column.stage);
    if !variants.contains(&column.name) {
        return staged;
    }
    match column.kind {
        Type::Json => format!("COALESCE(TRY_PARSE_JSON({staged}), TO_VARIANT({staged}))"),
        _ => format!("TO_VARIANT({staged})"),
    }
}

fn kind(column: &Column) -> &'static str {
    match column.kind {
        Type::Json => "VARIANT",
        // The origin has it as VARIANT, too, with plain text in it.
        Type::Text if column.name == "elements" => "VARIANT",
        _ => stage_kind(column),
    }
}

fn stage_kind(column: &Column) -> &'static str {
    match column.kind {
        Type::Text | Type::Json => "STRING",
        Type::Int => "INTEGER",
        Type::Float => "DOUBLE",
        Type::Bool => "BOOLEAN",
        Type::Time => "TIMESTAMP_NTZ",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_cannot_leave_their_quotes() {
        assert_eq!(quote(r#"a"; drop"#), r#""a""; drop""#);
        assert_eq!(literal(r"it's \' "), r"'it''s \\'' '");
        assert_eq!(word("role", "Analyst_1").unwrap(), "Analyst_1");
        assert_eq!(word("role", "a b;").unwrap(), "\"a b;\"");
        assert!(word("role", "a\0").is_err());
    }
}
