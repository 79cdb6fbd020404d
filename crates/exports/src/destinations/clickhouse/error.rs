//! ClickHouse's codes, as sentences for an export's owner.

use events::Error as Cause;

use crate::Error;

/// `what` ends the sentence "ClickHouse did not …".
pub(super) fn explained(what: &str, database: &str, cause: Cause) -> Error {
    match cause {
        Cause::Unreachable(cause) => cause.into(),
        Cause::Refused { code, .. } => {
            let permanent = |sentence: String| Err(sentence);
            let sentence = match code {
                192..=194 | 516 => {
                    permanent("ClickHouse does not accept the user and the password; check both".to_owned())
                }
                81 => permanent(format!(
                    "ClickHouse has no database {database}, or the user cannot see it; create it, or choose another"
                )),
                497 => permanent(format!(
                    "the ClickHouse user is not allowed to {what}; grant CREATE TABLE, DROP TABLE, SELECT, INSERT \
                     and ALTER on the database {database}"
                )),
                164 => permanent("the ClickHouse user is read-only; choose one that can write".to_owned()),
                16 | 20 | 44 => permanent(
                    "the table lacks a column that the export has; add it, or let the export create another table"
                        .to_owned(),
                ),
                6 | 26 | 27 | 38 | 41 | 53 | 70 | 72 | 131 | 349 => permanent(
                    "a column of the table has a type that does not accept the export's values; change it, or let \
                     the export create another table"
                        .to_owned(),
                ),
                36 | 48 | 62 | 80 => permanent(format!(
                    "this ClickHouse table does not allow Hedgerow to {what} (code {code}); let the export create its own"
                )),
                60 => Ok("a table was deleted during the export; another attempt may be in progress".to_owned()),
                241 => Ok("ClickHouse ran out of memory; it will be retried".to_owned()),
                252 => Ok(
                    "ClickHouse has too many parts to merge, or the rows belong to too many partitions of the table"
                        .to_owned(),
                ),
                243 => Ok("ClickHouse's disk is full; free up space".to_owned()),
                0 => Ok("the server at the url is not ClickHouse; check the url and its port".to_owned()),
                code => Ok(format!(
                    "ClickHouse did not {what} (code {code}; see its log for details); it will be retried"
                )),
            };
            match sentence {
                Ok(retryable) => Error::retryable(retryable, cause),
                Err(permanent) => Error::permanent(permanent, cause),
            }
        }
        cause @ Cause::TooSlow => Error::retryable(format!("ClickHouse took too long to {what}"), cause),
        cause => Error::retryable(
            format!("ClickHouse's response could not be read when it tried to {what}"),
            cause,
        ),
    }
}
