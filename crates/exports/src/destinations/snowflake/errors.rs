//! Snowflake's numbered errors, as sentences.

use http::StatusCode;

use crate::Error;

/// What the server said no with. For the log.
#[derive(Debug, thiserror::Error)]
#[error("Snowflake answered {code:06}: {message}")]
pub(super) struct Refused {
    pub(super) code: u32,
    message: String,
}

/// The object is not there, or may not be seen, which the server does not tell apart.
const MISSING: [u32; 2] = [2003, 2043];

pub(super) fn unreadable(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::retryable(
        "the response from Snowflake could not be understood; check the account, or its endpoint_url",
        cause,
    )
}

pub(super) fn refused(code: u32, message: Option<String>) -> Error {
    let cause = Refused {
        code,
        message: message.unwrap_or_default(),
    };
    let permanent = |sentence: &str| (sentence.to_owned(), true);
    let retryable = |sentence: &str| (sentence.to_owned(), false);
    let (sentence, is_permanent) = match code {
        390_100 | 390_101 => permanent("Snowflake does not accept the username or the password; check both"),
        390_102 | 390_103 => permanent("the user is locked or disabled in Snowflake"),
        390_144 | 394_300..=394_310 => permanent(
            "Snowflake does not accept the key; check the username, and that the public key is set as its RSA_PUBLIC_KEY",
        ),
        390_189 | 390_186 => permanent("the role cannot be used; check its name, and that it was granted to the user"),
        390_420..=390_433 => permanent("a Snowflake network policy blocks this server; allow its IP address there"),
        390_104 | 390_110..=390_115 | 390_195 => retryable("the Snowflake session has ended; it will be retried"),
        606 | 57_014 => permanent("warehouse not found; check its name, and grant USAGE on it to the role"),
        2003 | 2043 => permanent(
            "an object does not exist in Snowflake, or the role cannot use it; check the names, which are \
             case-sensitive, and the role's grants",
        ),
        3001 => permanent(
            "the role lacks a permission in Snowflake; it needs USAGE on database and schema, CREATE TABLE and CREATE \
             STAGE on the schema, and INSERT, SELECT, UPDATE and DELETE on the table",
        ),
        90_073 | 90_078 => permanent("a Snowflake resource monitor suspended the warehouse; its quota is used up"),
        904 | 1003 | 2010..=2029 => {
            permanent("the table does not match the rows; compare its columns and types with the export's")
        }
        100_000..=100_200 => {
            permanent("a value does not fit its column in Snowflake; compare the table's columns with the export's")
        }
        625 | 626 | 630 | 603 | 604 => retryable("Snowflake cancelled a statement; it will be retried"),
        code => (format!("Snowflake rejected a statement with error {code:06}"), false),
    };
    if is_permanent {
        Error::permanent(sentence, cause)
    } else {
        Error::retryable(sentence, cause)
    }
}

/// An answer that is not one of Snowflake's own.
pub(super) fn status(status: StatusCode) -> Error {
    let cause = format!("status {status}");
    match status {
        StatusCode::NOT_FOUND | StatusCode::FORBIDDEN => {
            Error::permanent("Snowflake account not found; check the account", cause)
        }
        StatusCode::TOO_MANY_REQUESTS => {
            Error::retryable("Snowflake is rate limiting requests; it will be retried", cause)
        }
        status if status.is_server_error() => {
            Error::retryable("Snowflake is temporarily unavailable; it will be retried", cause)
        }
        _ => Error::retryable(
            "the response is not from Snowflake; check the account, or its endpoint_url",
            cause,
        ),
    }
}

pub(super) fn code_of(error: &Error) -> Option<u32> {
    let cause = std::error::Error::source(error)?;
    cause.downcast_ref::<Refused>().map(|refused| refused.code)
}

pub(super) fn is_missing(error: &Error) -> bool {
    code_of(error).is_some_and(|code| MISSING.contains(&code))
}

/// The same error with a sentence that says which thing it is about, if it is one about a thing.
pub(super) fn about(mut error: Error, sentence: &str) -> Error {
    if matches!(code_of(&error), Some(2003 | 2043 | 3001 | 390_189)) {
        sentence.clone_into(&mut error.sentence);
    }
    error
}
