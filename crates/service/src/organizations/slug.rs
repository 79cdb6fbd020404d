//! Names for addresses: lower-case ASCII, made once from what people call the thing.

use crate::clock::RandomSource;

const MAX: usize = 48;
const SUFFIX_LENGTH: usize = 4;
/// For names that leave nothing behind, such as one of punctuation only.
const FALLBACK: &str = "organization";

/// `Łódź & Søn` becomes `lodz-son`. Never empty.
pub(super) fn slug(name: &str) -> String {
    let ascii = deunicode::deunicode(name).to_ascii_lowercase();
    let words: Vec<&str> = ascii
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let slug = cut(&words.join("-"), MAX);
    if slug.is_empty() { FALLBACK.to_owned() } else { slug }
}

/// The same with a random end, for a name that is taken.
pub(super) fn slug_with_suffix(slug: &str, random: &RandomSource) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let suffix: String = random
        .bytes::<SUFFIX_LENGTH>()
        .iter()
        .map(|byte| char::from(LETTERS[usize::from(byte % 32)]))
        .collect();
    format!("{}-{suffix}", cut(slug, MAX - SUFFIX_LENGTH - 1))
}

fn cut(slug: &str, most: usize) -> String {
    slug[..slug.len().min(most)].trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_gives_a_slug() {
        assert_eq!(slug("Łódź & Søn"), "lodz-son");
        assert_eq!(slug("北京"), "bei-jing");
        assert_eq!(slug("!!!"), "organization");
        assert_eq!(
            slug(&"words ".repeat(20)),
            "words-words-words-words-words-words-words-words"
        );
    }

    #[test]
    fn a_suffix_keeps_within_the_limit() {
        let long = slug(&"x".repeat(60));
        assert_eq!(slug_with_suffix(&long, &RandomSource::seeded(1)).len(), 48);
    }
}
