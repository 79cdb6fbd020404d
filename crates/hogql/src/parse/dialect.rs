//! How the text is cut into words.

use sqlparser::dialect::Dialect;

/// As ClickHouse reads it, but names may contain `$` and letters of every script.
#[derive(Debug)]
pub(super) struct HogQl;

impl Dialect for HogQl {
    fn is_identifier_start(&self, char: char) -> bool {
        char.is_alphabetic() || matches!(char, '_' | '$')
    }

    fn is_identifier_part(&self, char: char) -> bool {
        self.is_identifier_start(char) || char.is_ascii_digit()
    }

    fn is_delimited_identifier_start(&self, char: char) -> bool {
        matches!(char, '"' | '`')
    }

    fn supports_string_literal_backslash_escape(&self) -> bool {
        true
    }

    fn ignores_wildcard_escapes(&self) -> bool {
        true
    }

    fn supports_nested_comments(&self) -> bool {
        true
    }

    fn supports_settings(&self) -> bool {
        true
    }

    fn supports_select_format(&self) -> bool {
        true
    }

    fn supports_prewhere(&self) -> bool {
        true
    }

    fn supports_limit_by(&self) -> bool {
        true
    }
}
