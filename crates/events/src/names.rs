//! Names that senders give: of events, and of those who cause them.

/// What is longer is cut.
const MOST_CHARACTERS: usize = 200;

pub(crate) fn cut(mut text: String) -> String {
    if text.len() > MOST_CHARACTERS
        && let Some((end, _)) = text.char_indices().nth(MOST_CHARACTERS)
    {
        text.truncate(end);
    }
    text
}
