//! Patterns of LIKE.

use std::collections::HashMap;

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

/// Whether a text matches a pattern, in time proportional to the text: SQLite's own LIKE and GLOB try every combination,
/// and a short pattern can keep them busy for minutes.
///
/// Between two `%`, the first place where a part matches is always a right one, so nothing is tried twice.
pub(crate) fn is_like(text: &str, pattern: &[Piece]) -> bool {
    let mut parts = pattern.split(|piece| *piece == Piece::Anything);
    let (first, last) = (parts.next().unwrap_or_default(), parts.next_back());
    let Some(rest) = after_start(text, first) else {
        return false;
    };
    let Some(last) = last else {
        return rest.is_empty();
    };
    let Some(mut rest) = before_end(rest, last) else {
        return false;
    };
    for part in parts {
        match after_match(rest, part) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    true
}

fn fits(piece: Piece, char: char) -> bool {
    piece == Piece::AnyChar || piece == Piece::Char(char)
}

/// What is left of a text that starts with a part.
fn after_start<'a>(text: &'a str, part: &[Piece]) -> Option<&'a str> {
    let mut chars = text.chars();
    part.iter()
        .all(|piece| chars.next().is_some_and(|char| fits(*piece, char)))
        .then_some(chars.as_str())
}

fn before_end<'a>(text: &'a str, part: &[Piece]) -> Option<&'a str> {
    let mut chars = text.chars();
    part.iter()
        .rev()
        .all(|piece| chars.next_back().is_some_and(|char| fits(*piece, char)))
        .then_some(chars.as_str())
}

/// What follows the first place where a part is found.
fn after_match<'a>(text: &'a str, part: &[Piece]) -> Option<&'a str> {
    let literal = part.iter().map(|piece| match piece {
        Piece::Char(char) => Some(*char),
        _ => None,
    });
    match literal.collect::<Option<String>>() {
        Some(literal) => text.find(&literal).map(|at| &text[at + literal.len()..]),
        None => after_match_with_gaps(text, part),
    }
}

/// The shift-and algorithm: a bit for each piece says whether all pieces up to it match the characters up to this one.
fn after_match_with_gaps<'a>(text: &'a str, part: &[Piece]) -> Option<&'a str> {
    let words = part.len().div_ceil(64);
    let set = |mask: &mut Vec<u64>, at: usize| mask[at / 64] |= 1 << (at % 64);
    let mut any = vec![0_u64; words];
    for (at, _) in part.iter().enumerate().filter(|(_, piece)| **piece == Piece::AnyChar) {
        set(&mut any, at);
    }
    let mut masks: HashMap<char, Vec<u64>> = HashMap::new();
    for (at, piece) in part.iter().enumerate() {
        if let Piece::Char(char) = piece {
            set(masks.entry(*char).or_insert_with(|| any.clone()), at);
        }
    }
    let (last_word, last_bit) = ((part.len() - 1) / 64, 1 << ((part.len() - 1) % 64));
    let mut state = vec![0_u64; words];
    for (at, char) in text.char_indices() {
        let mask = masks.get(&char).unwrap_or(&any);
        let mut carry = 1;
        for (word, mask) in state.iter_mut().zip(mask) {
            let shifted = (*word << 1) | carry;
            carry = *word >> 63;
            *word = shifted & mask;
        }
        if state[last_word] & last_bit != 0 {
            return Some(&text[at + char.len_utf8()..]);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    /// What LIKE means, said as simply as can be.
    fn is_like_by_definition(text: &[char], pattern: &[Piece]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((Piece::Anything, rest)) => (0..=text.len()).any(|at| is_like_by_definition(&text[at..], rest)),
            Some((piece, rest)) => text
                .split_first()
                .is_some_and(|(char, text)| fits(*piece, *char) && is_like_by_definition(text, rest)),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn a_match_is_what_the_definition_says(text in "[abé]{0,12}", pattern in "[abé%_]{0,9}") {
            let chars: Vec<_> = text.chars().collect();
            let pieces = pieces(&pattern);
            prop_assert_eq!(is_like(&text, &pieces), is_like_by_definition(&chars, &pieces));
        }

        #[test]
        fn a_part_of_more_than_64_characters_is_found_as_well(lead in "[ab]{0,30}", gap in 60_usize..200) {
            let text = format!("{lead}{}b{}", "a".repeat(gap), "a".repeat(70));
            let matching = pieces(&format!("%{}_{}%", "a".repeat(gap), "a".repeat(70)));
            let other = pieces(&format!("%{}_{}%", "a".repeat(gap), "c".repeat(70)));
            prop_assert_eq!((is_like(&text, &matching), is_like(&text, &other)), (true, false));
        }
    }

    #[test]
    fn the_worst_pattern_for_the_worst_text_takes_moments() {
        let text = "a".repeat(1 << 20);
        for pattern in [
            "%a".repeat(49) + "%b",
            format!("%{}_b%", "a".repeat(450)),
            "_%".repeat(50) + "b",
        ] {
            let started = Instant::now();
            assert!(!is_like(&text, &pieces(&pattern)));
            assert!(
                started.elapsed() < Duration::from_secs(3),
                "{pattern}: {:?}",
                started.elapsed()
            );
        }
    }
}
