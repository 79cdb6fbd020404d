//! What a database's refusal means to the export's owner. Its own words are for the log.

use std::error::Error as StdError;

use tokio_postgres::error::DbError;

use crate::Error;

/// Turns what the driver says into a sentence. `doing` completes "it could not …"; only names in `columns` are repeated.
pub(crate) fn failure(doing: &str, columns: &[String], cause: tokio_postgres::Error) -> Error {
    let Some(answer) = cause.as_db_error() else {
        return broken(doing, cause);
    };
    let (is_permanent, sentence) = judge(doing, columns, answer);
    if is_permanent {
        Error::permanent(sentence, cause)
    } else {
        Error::retryable(sentence, cause)
    }
}

/// A column of the owner's table whose type does not take our values.
pub(crate) fn unsuited(column: &str, value: &str) -> Error {
    Error::plain(format!(
        "the column {column} of the table does not accept {value}; change its type, or let the export create a new table"
    ))
}

fn broken(doing: &str, cause: tokio_postgres::Error) -> Error {
    match tls_failure(&cause) {
        Some(rustls::Error::InvalidCertificate(_)) => Error::permanent(
            "the server's certificate is not trusted; use one issued by a trusted authority for the hostname, or set \
             has_self_signed_cert if it is self-signed",
            cause,
        ),
        Some(_) => Error::retryable("the TLS handshake with the server failed", cause),
        None => Error::retryable(
            format!("the connection to the database was lost while it tried to {doing}; it will be retried"),
            cause,
        ),
    }
}

/// What went wrong with TLS, if it was that.
pub(super) fn tls_failure(cause: &tokio_postgres::Error) -> Option<&rustls::Error> {
    let mut next: Option<&(dyn StdError + 'static)> = Some(cause);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<rustls::Error>() {
            return Some(found);
        }
        // An I/O error keeps what it wraps to itself, and shows only what is behind that.
        if let Some(inner) = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
            next = Some(inner);
            continue;
        }
        next = error.source();
    }
    None
}

/// Whether it is permanent, and the sentence, by the five characters of the SQL standard.
fn judge(doing: &str, columns: &[String], answer: &DbError) -> (bool, String) {
    let code = answer.code().code();
    let column = offending_column(columns, answer).map_or_else(String::new, |name| format!(" in the column {name}"));
    match (code, code.get(..2).unwrap_or(code)) {
        (_, "28") => (
            true,
            "the database refused the user or the password; check both, and that the user can connect from this server"
                .into(),
        ),
        ("3D000", _) => (true, "the server has no such database; check its name".into()),
        ("42501", _) => (
            true,
            format!("the user is not allowed to {doing}; grant the permission, or have someone else do it"),
        ),
        ("25006", _) => (
            false,
            "the database is read-only at the moment; enter the host of the primary".into(),
        ),
        ("53100", _) => (false, "the database's disk is full; free up space".into()),
        ("53300", _) => (false, "the database has too many connections; raise its limit".into()),
        (_, "53" | "54" | "57" | "58" | "XX" | "08") => (
            false,
            format!("the database was temporarily unable to {doing}; it will be retried"),
        ),
        (_, "40" | "55" | "25") => (
            false,
            format!("the database could not {doing} because of a conflicting lock or transaction; it will be retried"),
        ),
        ("42P10", _) => (
            true,
            "the table has no primary key or unique constraint on (team_id, distinct_id), which is needed to \
             update persons; add one"
                .into(),
        ),
        ("42P01" | "42703" | "3F000", _) => (
            false,
            format!("the table changed while the database tried to {doing}; it will be retried"),
        ),
        ("23505", _) => (
            true,
            "some rows violate a unique constraint of the table; drop it, or choose another table".into(),
        ),
        (_, "22" | "23") => (
            true,
            format!(
                "the table does not accept some of the values{column}; check the types and constraints of its columns"
            ),
        ),
        (_, "42") => (
            true,
            format!("the database could not {doing}{column}; check that the table matches the documentation"),
        ),
        _ => (false, format!("the database could not {doing}; it will be retried")),
    }
}

/// The column that the database blames, if it is one of ours.
fn offending_column<'a>(columns: &'a [String], answer: &DbError) -> Option<&'a str> {
    let said = answer.column().or_else(|| {
        let (_, behind) = answer.where_()?.split_once(", column ")?;
        // In text format the value follows behind a colon.
        Some(behind.split(": ").next().unwrap_or(behind))
    })?;
    columns.iter().map(String::as_str).find(|column| *column == said)
}
