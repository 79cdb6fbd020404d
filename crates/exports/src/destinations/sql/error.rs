//! What a database's refusal means to the export's owner. Its own words are for the log.

use std::error::Error as StdError;

use tokio_postgres::error::DbError;

use crate::Error;

/// Turns what the driver says into a sentence. `doing` completes "it could not …"; only names in `columns` are repeated.
pub(in crate::destinations) fn failure(doing: &str, columns: &[String], cause: tokio_postgres::Error) -> Error {
    let Some(answer) = cause.as_db_error() else {
        return broken(doing, cause);
    };
    let (is_lasting, sentence) = judge(doing, columns, answer);
    if is_lasting {
        Error::permanent(sentence, cause)
    } else {
        Error::retryable(sentence, cause)
    }
}

/// A column of the owner's table whose type does not take our values.
pub(in crate::destinations) fn unsuited(column: &str, value: &str) -> Error {
    Error::plain(format!(
        "the column {column} of the table does not take {value}; change its type, or let the export make a new table"
    ))
}

fn broken(doing: &str, cause: tokio_postgres::Error) -> Error {
    match tls_failure(&cause) {
        Some(rustls::Error::InvalidCertificate(_)) => Error::permanent(
            "the server's certificate is not trusted; use one of a known authority for the host's name, or set \
             has_self_signed_cert if the server vouches for itself",
            cause,
        ),
        Some(_) => Error::retryable(
            "the server could not agree with us on how to encrypt the connection",
            cause,
        ),
        None => Error::retryable(
            format!("the connection to the database broke while it was to {doing}; it will be tried again"),
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

/// Whether it lasts, and the sentence, by the five characters of the SQL standard.
fn judge(doing: &str, columns: &[String], answer: &DbError) -> (bool, String) {
    let code = answer.code().code();
    let column = culprit(columns, answer).map_or_else(String::new, |name| format!(" in the column {name}"));
    match (code, &code[..code.len().min(2)]) {
        (_, "28") => (
            true,
            "the database refused the user or the password; check both, and that the user may connect from here".into(),
        ),
        ("3D000", _) => (true, "the server has no such database; check its name".into()),
        ("42501", _) => (
            true,
            format!("the user is not allowed to {doing}; grant it, or let someone else make it ready"),
        ),
        ("25006", _) => (
            false,
            "the database is read-only at present; give the address of the one that takes writes".into(),
        ),
        ("53100", _) => (false, "the database's disk is full; make room".into()),
        ("53300", _) => (false, "the database has no connection to spare; allow more".into()),
        (_, "53" | "54" | "57" | "58" | "XX" | "08") => (
            false,
            format!("the database was not able to {doing} just now; it will be tried again"),
        ),
        (_, "40" | "55" | "25") => (
            false,
            format!("something else in the database was in the way when it was to {doing}; it will be tried again"),
        ),
        ("42P10", _) => (
            true,
            "the table has no primary key or unique constraint on (team_id, distinct_id), by which persons are \
             brought up to date; add one"
                .into(),
        ),
        ("42P01" | "42703" | "3F000", _) => (
            false,
            format!("the table changed while the database was to {doing}; it will be tried again"),
        ),
        ("23505", _) => (
            true,
            "the table has a unique constraint that some of the rows break; drop it, or choose another table".into(),
        ),
        (_, "22" | "23") => (
            true,
            format!(
                "the table does not take some of the values{column}; check the types and constraints of its columns"
            ),
        ),
        (_, "42") => (
            true,
            format!("the database could not {doing}{column}; check that the table is as the documentation says"),
        ),
        _ => (false, format!("the database could not {doing}; it will be tried again")),
    }
}

/// The column that the database blames, if it is one of ours.
fn culprit<'a>(columns: &'a [String], answer: &DbError) -> Option<&'a str> {
    let said = answer.column().or_else(|| {
        let (_, behind) = answer.where_()?.split_once(", column ")?;
        // In text format the value follows behind a colon.
        Some(behind.split(": ").next().unwrap_or(behind))
    })?;
    columns.iter().map(String::as_str).find(|column| *column == said)
}
