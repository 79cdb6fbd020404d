//! The table as it is, and the stages beside it.

use super::client::Client;
use super::errors::is_missing;
use super::sql::Names;
use crate::Error;

/// The table's columns with their types; none if there is no table.
pub(super) async fn columns(client: &Client, names: &Names) -> Result<Option<Vec<(String, String)>>, Error> {
    let rows = match client.run(&names.describe()).await {
        Err(error) if is_missing(&error) => return Ok(None),
        other => other?,
    };
    let pair = |row: Vec<Option<String>>| {
        let mut cells = row.into_iter();
        Some((cells.next().flatten()?, cells.next().flatten()?))
    };
    // After the columns comes, behind an empty line, how they are partitioned.
    let is_column = |pair: &(String, String)| !pair.0.is_empty() && !pair.0.starts_with('#');
    Ok(Some(rows.into_iter().map_while(pair).take_while(is_column).collect()))
}

/// Removes what an attempt left behind, or what we need no more.
pub(super) async fn clear(client: &Client, names: &Names, attempt: &str) {
    for statement in names.drop_all(attempt) {
        if let Err(error) = client.run(&statement).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "a stage was left behind");
        }
    }
}
