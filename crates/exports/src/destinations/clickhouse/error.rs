//! ClickHouse's codes, as sentences for an export's owner.

use events::Error as Cause;

use super::session::Session;
use crate::Error;

/// `what` ends the sentence "ClickHouse did not …".
pub(super) fn explained(what: &str, session: &Session, cause: Cause) -> Error {
    let database = session.database();
    match cause {
        Cause::Unreachable(cause) => cause.into(),
        Cause::Refused { code, .. } => {
            let permanent = |sentence: String| Err(sentence);
            let sentence = match code {
                192..=194 | 516 => {
                    permanent("ClickHouse does not accept the user and the password; check both".to_owned())
                }
                81 => permanent(format!(
                    "ClickHouse has no database {database}, or the user may not see it; create it, or choose another"
                )),
                497 => permanent(format!(
                    "the user of ClickHouse lacks the right to {what}; grant CREATE TABLE, DROP TABLE, SELECT, INSERT \
                     and ALTER on the database {database}"
                )),
                164 => permanent("the user of ClickHouse may only read; choose one who may write".to_owned()),
                16 | 20 | 44 => permanent(
                    "the table lacks a column that the export has; add it, or let another table be created".to_owned(),
                ),
                6 | 26 | 27 | 38 | 41 | 53 | 70 | 72 | 131 | 349 => permanent(
                    "a column of the table has a type that does not take what the export has; change it, or let \
                     another table be created"
                        .to_owned(),
                ),
                36 | 48 | 62 | 80 => permanent(format!(
                    "this table of ClickHouse does not allow to {what} (code {code}); let the export create its own"
                )),
                60 => Ok(
                    "a table went away while ClickHouse was to be written to; another attempt may be under way"
                        .to_owned(),
                ),
                241 => Ok("ClickHouse ran out of memory; it is tried again".to_owned()),
                252 => Ok(
                    "ClickHouse has too many parts to merge, or the rows belong to too many partitions of the table"
                        .to_owned(),
                ),
                243 => Ok("the disk of ClickHouse is full; make room".to_owned()),
                0 => Ok("something answers at the url, but not ClickHouse; check the url and its port".to_owned()),
                code => Ok(format!(
                    "ClickHouse did not {what} (code {code}); its own log tells more, and it is tried again"
                )),
            };
            match sentence {
                Ok(retryable) => Error::retryable(retryable, cause),
                Err(permanent) => Error::permanent(permanent, cause),
            }
        }
        cause @ Cause::TooSlow => Error::retryable(format!("ClickHouse took too long to {what}"), cause),
        cause => Error::retryable(
            format!("ClickHouse's answer could not be read when it was to {what}"),
            cause,
        ),
    }
}
