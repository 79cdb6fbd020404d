//! The statements. Every name in them was checked, every value is a literal made here.

use hogql::Type;
use service::batch_exports::destination::BigQuery as Config;

use super::errors::OVERTAKEN;
use super::plan::Plan;
use super::tables::{INGESTED, Table};
use crate::Error;
use crate::destinations::staging::{Claim, Column, LEDGER, PERSON_COLUMNS, WriteMode, stage_name};

/// The export's table and the dataset it is in, quoted.
#[derive(Debug, Clone)]
pub(super) struct Names {
    dataset: String,
    table: String,
}

impl Names {
    pub(super) fn new(config: &Config) -> Result<Self, Error> {
        let is_project = |char: char| char.is_ascii_alphanumeric() || "-.:".contains(char);
        let is_dataset = |char: char| char.is_ascii_alphanumeric() || char == '_';
        let is_table = |char: char| char.is_alphanumeric() || "_- ".contains(char);
        check("project_id", &config.project_id, is_project)?;
        check("dataset_id", &config.dataset_id, is_dataset)?;
        check("table_id", &config.table_id, is_table)?;
        let dataset = format!("`{}`.`{}`", config.project_id, config.dataset_id);
        Ok(Self {
            table: format!("{dataset}.`{}`", config.table_id),
            dataset,
        })
    }

    /// The attempt that claimed an interval last, and the one that committed it.
    pub(super) fn ledger_entry(&self, claim: &Claim) -> String {
        format!(
            "SELECT attempt, committed_attempt FROM {} WHERE {}",
            self.ledger(),
            is_this(claim)
        )
    }

    /// From now on no other attempt can commit.
    pub(super) fn claim(&self, claim: &Claim) -> String {
        let [export, table, start, end, attempt] =
            [&claim.export, &claim.table, &claim.start, &claim.end, &claim.attempt].map(|text| literal(text));
        format!(
            "MERGE INTO {ledger} AS l USING (SELECT {export} AS export_id, {table} AS table_name, {start} AS interval_start, {end} AS interval_end) AS s ON l.export_id = s.export_id AND l.table_name = s.table_name AND l.interval_start = s.interval_start AND l.interval_end = s.interval_end WHEN MATCHED THEN UPDATE SET attempt = {attempt} WHEN NOT MATCHED THEN INSERT (export_id, table_name, interval_start, interval_end, attempt) VALUES (s.export_id, s.table_name, s.interval_start, s.interval_end, {attempt})",
            ledger = self.ledger()
        )
    }

    /// One script, all of it or nothing: marks the interval as delivered, unless another attempt has claimed it since,
    /// and moves the rows.
    pub(super) fn commit(&self, claim: &Claim, plan: &Plan, rows: u64) -> String {
        let attempt = literal(&claim.attempt);
        let unless_done = if claim.is_resend {
            ""
        } else {
            " AND committed_attempt IS NULL"
        };
        let moves: Vec<String> = match plan.mode {
            WriteMode::Append => vec![self.insert(claim, plan)],
            WriteMode::ReplaceByUuid => vec![self.delete(claim, plan), self.insert(claim, plan)],
            WriteMode::Persons => vec![self.merge(claim, plan)],
        };
        format!(
            "BEGIN TRANSACTION;\n\
             UPDATE {ledger} SET committed_attempt = {attempt}, committed_at = CURRENT_TIMESTAMP(), row_count = {rows} WHERE {this} AND attempt = {attempt}{unless_done};\n\
             IF NOT EXISTS (SELECT 1 FROM {ledger} WHERE {this} AND committed_attempt = {attempt}) THEN RAISE USING MESSAGE = {overtaken}; END IF;\n\
             {moves};\n\
             COMMIT TRANSACTION;",
            ledger = self.ledger(),
            this = is_this(claim),
            overtaken = literal(OVERTAKEN),
            moves = moves.join(";\n"),
        )
    }

    fn insert(&self, claim: &Claim, plan: &Plan) -> String {
        let (names, values) = assignments(plan, "");
        format!(
            "INSERT INTO {} ({}) SELECT {} FROM {}",
            self.table,
            names.join(", "),
            values.join(", "),
            self.stage(claim)
        )
    }

    fn delete(&self, claim: &Claim, plan: &Plan) -> String {
        let uuid = staged(&plan.written, "uuid");
        format!(
            "DELETE FROM {} WHERE uuid IN (SELECT {uuid} FROM {})",
            self.table,
            self.stage(claim)
        )
    }

    fn merge(&self, claim: &Claim, plan: &Plan) -> String {
        let [team, id, version, id_version] = PERSON_COLUMNS.map(|name| staged(&plan.written, name));
        let (names, values) = assignments(plan, "s.");
        let pairs = names.iter().zip(&values);
        let updates: Vec<String> = pairs.map(|(name, value)| format!("{name} = {value}")).collect();
        format!(
            "MERGE INTO {table} AS t USING (SELECT * FROM {stage} WHERE TRUE QUALIFY ROW_NUMBER() OVER (PARTITION BY {team}, {id} ORDER BY {version} DESC, {id_version} DESC) = 1) AS s ON t.team_id = s.{team} AND t.distinct_id = s.{id} WHEN MATCHED AND (s.{version} > t.person_version OR s.{id_version} > t.person_distinct_id_version) THEN UPDATE SET {updates} WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})",
            table = self.table,
            stage = self.stage(claim),
            updates = updates.join(", "),
            names = names.join(", "),
            values = values.join(", "),
        )
    }

    pub(super) fn count(&self, claim: &Claim) -> String {
        format!("SELECT COUNT(*) FROM {}", self.stage(claim))
    }

    /// What a test does with a table of its own.
    pub(super) fn try_out(&self, table: &str) -> String {
        format!(
            "INSERT INTO {}.`{table}` (C0) VALUES ('a test of Hedgerow')",
            self.dataset
        )
    }

    fn ledger(&self) -> String {
        format!("{}.`{LEDGER}`", self.dataset)
    }

    fn stage(&self, claim: &Claim) -> String {
        format!("{}.`{}`", self.dataset, stage_name(&claim.attempt))
    }
}

/// `BigQuery` takes few characters in names of columns, so that a query may need aliases.
pub(super) fn check_columns(columns: &[Column]) -> Result<(), Error> {
    let is_rest = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let is_good = |name: &str| {
        name.len() <= 300 && name.chars().all(is_rest) && name.starts_with(|char: char| !char.is_ascii_digit())
    };
    match columns.iter().find(|column| !is_good(&column.name)) {
        Some(_) => Err(Error::plain(
            "BigQuery takes only letters, digits and underscores in names of columns; give the columns of the query such \
             names with AS",
        )),
        None => Ok(()),
    }
}

fn check(what: &'static str, name: &str, is_good: impl Fn(char) -> bool) -> Result<(), Error> {
    if name.is_empty() || name.len() > 1024 || !name.chars().all(is_good) {
        let sentence = format!("the {what} is empty, too long, or has characters that BigQuery does not accept");
        return Err(Error::plain(sentence).in_key(what));
    }
    Ok(())
}

fn literal(text: &str) -> String {
    format!(
        "'{}'",
        text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n")
    )
}

fn is_this(claim: &Claim) -> String {
    let [export, table, start, end] = [&claim.export, &claim.table, &claim.start, &claim.end].map(|text| literal(text));
    format!("export_id = {export} AND table_name = {table} AND interval_start = {start} AND interval_end = {end}")
}

/// What a column is called on the stage.
fn staged<'a>(columns: &'a [Column], name: &str) -> &'a str {
    let column = columns.iter().find(|column| column.name == name);
    column.map_or("NULL", |column| &column.stage)
}

/// The columns that are written, and what is written to them.
fn assignments(plan: &Plan, from: &str) -> (Vec<String>, Vec<String>) {
    let pair = |column: &Column| {
        let value = value(column, &plan.table, plan.is_custom, from);
        (format!("`{}`", column.name), value)
    };
    let mut pairs: Vec<(String, String)> = plan.written.iter().map(pair).collect();
    if plan.table.has(INGESTED) && !plan.is_custom {
        pairs.push((format!("`{INGESTED}`"), "CURRENT_TIMESTAMP()".to_owned()));
    }
    pairs.into_iter().unzip()
}

/// A value from the stage. JSON that `BigQuery` cannot read is kept as a JSON text.
fn value(column: &Column, table: &Table, is_custom: bool, from: &str) -> String {
    let staged = format!("{from}{}", column.stage);
    match column.kind {
        Type::Json | Type::Text if table.is_json(&column.name) => format!(
            "IF({staged} IS NULL, NULL, COALESCE(SAFE.PARSE_JSON({staged}, wide_number_mode => 'round'), TO_JSON({staged})))"
        ),
        // As in the origin's tables: the chain as a JSON text.
        Type::Text if column.name == "elements" && !is_custom => format!("TO_JSON_STRING({staged})"),
        _ => staged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_leave_their_quotes() {
        assert_eq!(literal("it's \\' \n"), r"'it\'s \\\' \n'");
    }
}
