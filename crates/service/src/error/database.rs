//! What an error of the database means.

/// Whether it is the database's state that is to blame, and not what it was asked for.
pub(super) fn is_outage(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed => true,
        sqlx::Error::Database(error) => error.code().is_some_and(|code| is_outage_code(&code)),
        _ => false,
    }
}

/// Two transactions waited for each other, or could not be put in order, and PostgreSQL ended this one.
pub(super) fn is_deadlock(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| ["40001", "40P01"].contains(&&*code))
}

/// The database says that a file is damaged, or none of its own: <https://sqlite.org/rescode.html>, and class XX of PostgreSQL's codes.
pub(super) fn is_damage(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(error) = error else {
        return false;
    };
    error.code().is_some_and(|code| {
        let kind = code.parse::<u32>().map(|code| code & 0xff);
        let is_sqlite = code.len() < 5;
        ["XX001", "XX002"].contains(&&*code) || (is_sqlite && matches!(kind, Ok(11 | 26)))
    })
}

fn is_outage_code(code: &str) -> bool {
    // SQLite's are numbers, of which the lowest byte is the kind: busy, read-only, input or output failed, disk full, cannot
    // open. https://sqlite.org/rescode.html
    if code.len() < 5 || !code.is_ascii() {
        return code
            .parse::<u32>()
            .is_ok_and(|code| [5, 8, 10, 13, 14].contains(&(code & 0xff)));
    }
    // PostgreSQL's have five characters: connection lost, resources exhausted, shutting down, input or output failed; a lock or an
    // answer that did not come in time, a deadlock, a server that only reads.
    // https://www.postgresql.org/docs/current/errcodes-appendix.html
    ["08", "53", "57P", "58"].iter().any(|class| code.starts_with(class))
        || ["25006", "25P03", "40001", "40P01", "55P03", "57014"].contains(&code)
}
