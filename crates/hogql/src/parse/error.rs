//! Why a text is refused.

/// Why a text is not a query that can be exported. Says what would be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct ParseError {
    pub detail: String,
}

pub(super) type Result<T, E = ParseError> = std::result::Result<T, E>;

/// The longest error: most of it may be what the user wrote.
const MAX_LENGTH: usize = 400;

pub(super) fn refuse(detail: impl Into<String>) -> ParseError {
    let mut detail = detail.into();
    if detail.len() > MAX_LENGTH {
        detail.truncate(detail.floor_char_boundary(MAX_LENGTH));
        detail.push('…');
    }
    ParseError { detail }
}
