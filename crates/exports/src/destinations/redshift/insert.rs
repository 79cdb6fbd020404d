//! Many rows in one statement, which is bounded in parameters and bytes.

use std::fmt::Write as _;

use super::column::Kind;

/// Redshift takes 32,767 parameters.
const MAX_PARAMETERS: usize = 30_000;
/// Redshift takes statements of 16 MB; the texts of parameters and of the statement itself stay well below.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// The rows of one statement, as texts, row after row.
#[derive(Default)]
pub(super) struct Block {
    values: Vec<Option<String>>,
    bytes: usize,
}

impl Block {
    /// Takes the values of a row, and leaves none.
    pub(super) fn add(&mut self, row: &mut Vec<Option<String>>) {
        self.bytes += row.iter().flatten().map(String::len).sum::<usize>();
        self.values.append(row);
    }

    /// Whether another row might be too much.
    pub(super) fn is_full(&self, columns: usize) -> bool {
        self.values.len() + columns > MAX_PARAMETERS || self.bytes >= MAX_BYTES / 2
    }

    pub(super) fn values(&self) -> &[Option<String>] {
        &self.values
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes as u64
    }
}

/// `INSERT INTO … VALUES (…), (…)` for so many rows.
pub(super) fn statement(into: &str, kinds: &[Kind], rows: usize) -> String {
    let mut sql = format!("INSERT INTO {into} VALUES ");
    let mut parameter = 0;
    for row in 0..rows {
        sql.push_str(if row == 0 { "(" } else { ", (" });
        for (index, kind) in kinds.iter().enumerate() {
            parameter += 1;
            let _ = write!(sql, "{}{}", if index == 0 { "" } else { ", " }, kind.cast(parameter));
        }
        sql.push(')');
    }
    sql
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_turns_texts_into_the_columns_types() {
        let kinds = [
            Kind::Text(200),
            Kind::Super,
            Kind::Int,
            Kind::Bool,
            Kind::Time,
            Kind::Float,
        ];
        assert_eq!(
            statement("t (a)", &kinds, 1),
            "INSERT INTO t (a) VALUES ($1, JSON_PARSE($2), CAST($3 AS BIGINT), ($4 = 'true'), \
             CAST($5 AS TIMESTAMPTZ), CAST($6 AS DOUBLE PRECISION))"
        );
        assert_eq!(
            statement("t (a)", &kinds[..1], 2),
            "INSERT INTO t (a) VALUES ($1), ($2)"
        );
    }

    #[test]
    fn a_block_is_full_before_a_statement_is_too_large() {
        let mut block = Block::default();
        block.add(&mut vec![None; 29_990]);
        assert!(!block.is_full(10) && block.is_full(11));
        let mut block = Block::default();
        block.add(&mut vec![Some("x".repeat(MAX_BYTES / 2))]);
        assert!(block.is_full(1));
    }
}
