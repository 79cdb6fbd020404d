//! Names that senders give: of events, and of those who cause them.

/// What is longer is cut.
const MAX_CHARACTERS: usize = 200;

pub(crate) fn cut(mut text: String) -> String {
    if text.len() > MAX_CHARACTERS
        && let Some((end, _)) = text.char_indices().nth(MAX_CHARACTERS)
    {
        text.truncate(end);
    }
    text
}

/// What programs send when they have no id; merging by it would make strangers one person.
pub(crate) fn names_someone(distinct_id: &str) -> bool {
    const NOBODY: &[&str] = &[
        "",
        "0",
        "[object object]",
        "anonymous",
        "distinct_id",
        "distinctid",
        "email",
        "false",
        "guest",
        "id",
        "nan",
        "none",
        "not_authenticated",
        "null",
        "true",
        "undefined",
    ];
    let bare = distinct_id.trim().trim_matches(['"', '\'']).to_lowercase();
    !NOBODY.contains(&bare.as_str())
}
