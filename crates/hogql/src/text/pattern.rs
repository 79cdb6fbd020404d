//! Patterns of LIKE.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    /// `%`
    Anything,
    /// `_`
    AnyChar,
    Char(char),
}

/// Takes a pattern apart. A backslash takes the meaning from `%`, `_` and itself, and stands for itself elsewhere.
pub(crate) fn pieces(pattern: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut chars = pattern.chars().peekable();
    while let Some(char) = chars.next() {
        pieces.push(match char {
            '%' => Piece::Anything,
            '_' => Piece::AnyChar,
            '\\' => Piece::Char(chars.next_if(|next| matches!(next, '%' | '_' | '\\')).unwrap_or('\\')),
            other => Piece::Char(other),
        });
    }
    // Several in a row mean the same as one, and cost more.
    pieces.dedup_by(|next, previous| *next == Piece::Anything && *previous == Piece::Anything);
    pieces
}
