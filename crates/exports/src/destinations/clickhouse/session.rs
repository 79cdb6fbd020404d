//! Statements with a name for what they are about, so that an error can say what did not work.

use std::time::Duration;

use events::clickhouse::{Client, Statement};

use super::error::explained;
use crate::Error;
use crate::destinations::answers::MORE_THAN_ASKED_FOR;

/// What moving, deleting and copying may take; they touch as much as an interval holds, or more.
pub(super) const LONG: Duration = Duration::from_mins(15);
const SHORT: Duration = Duration::from_mins(1);
/// Answers here are names and numbers.
const ANSWER_LIMIT: usize = 1024 * 1024;
/// Of all rows together. An empty field is one byte in an answer, and a hundred in memory.
const MAX_FIELDS: usize = 100_000;

#[derive(Debug, Clone)]
pub(super) struct Session {
    client: Client,
}

impl Session {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    pub(super) async fn ping(&self) -> Result<(), Error> {
        self.client
            .ping()
            .await
            .map_err(|cause| explained("answer", self.client.database(), cause))
    }

    /// `what` ends the sentence "ClickHouse did not …".
    pub(super) async fn run(&self, what: &'static str, statement: Statement) -> Result<(), Error> {
        self.text(what, statement).await.map(drop)
    }

    pub(super) async fn sql(&self, what: &'static str, sql: String) -> Result<(), Error> {
        self.run(what, Statement::new(sql).within(SHORT)).await
    }

    /// The fields of the rows of a small result.
    pub(super) async fn rows(&self, what: &'static str, statement: Statement) -> Result<Vec<Vec<String>>, Error> {
        rows(&self.text(what, statement).await?)
    }

    async fn text(&self, what: &'static str, statement: Statement) -> Result<String, Error> {
        let statement = statement.limited_to(ANSWER_LIMIT);
        let answer = self.client.text(statement).await;
        answer.map_err(|cause| explained(what, self.client.database(), cause))
    }
}

fn rows(text: &str) -> Result<Vec<Vec<String>>, Error> {
    let ends = text.bytes().filter(|byte| matches!(byte, b'\t' | b'\n'));
    if ends.count() > MAX_FIELDS {
        return Err(Error::plain(MORE_THAN_ASKED_FOR));
    }
    let fields = |line: &str| line.split('\t').map(str::to_owned).collect();
    Ok(text.lines().map(fields).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_few() {
        assert_eq!(rows("a\tb\nc\n").unwrap(), [vec!["a", "b"], vec!["c"]]);
        assert_eq!(rows(&"\n".repeat(MAX_FIELDS)).unwrap().len(), MAX_FIELDS);
        for field in ["\n", "\t"] {
            assert!(rows(&field.repeat(MAX_FIELDS + 1)).unwrap_err().is_permanent);
        }
    }
}
