//! Two versions of an app's code, side by side.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use service::pipeline::Files;
use similar::TextDiff;

/// What is longer is not compared, but for its name.
const MAX_FILE: usize = 200_000;
/// So many lines around each change show where it is.
const AROUND: usize = 3;
/// As many as somebody may look through.
const MAX_FILES: usize = 40;
/// After that, what is left is compared less well: whole parts are taken away and added.
const TIME: Duration = Duration::from_millis(300);

/// A file that is not the same in both. A side that does not have it has no text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    pub name: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

/// The differences of files in lines, as `diff -u` writes them. None: a side is too long to be compared, or there are too many before it.
///
/// This is much work, and not for a thread that others need.
pub fn unified(changes: &[FileChange]) -> Vec<Option<String>> {
    let deadline = Instant::now() + TIME;
    let compared = changes.iter().take(MAX_FILES).map(|change| change.unified(deadline));
    let left = changes.len().saturating_sub(MAX_FILES);
    compared.chain(std::iter::repeat_n(None, left)).collect()
}

impl FileChange {
    fn unified(&self, deadline: Instant) -> Option<String> {
        let before = self.before.as_deref().unwrap_or_default();
        let after = self.after.as_deref().unwrap_or_default();
        if before.len().max(after.len()) > MAX_FILE {
            return None;
        }
        let diff = TextDiff::configure().deadline(deadline).diff_lines(before, after);
        Some(diff.unified_diff().context_radius(AROUND).to_string())
    }
}

/// The files that only one side has, or that are not the same on both, by name.
pub fn different_files(before: &Files, after: &Files) -> Vec<FileChange> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changed = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    let change = |name: &String| FileChange {
        name: name.clone(),
        before: before.get(name).cloned(),
        after: after.get(name).cloned(),
    };
    changed.map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(all: &[(&str, &str)]) -> Files {
        let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        all.iter().map(owned).collect()
    }

    #[test]
    fn files_are_changed_added_and_taken_away() {
        let before = files(&[("a.ts", "1"), ("gone.ts", "2"), ("same.ts", "3")]);
        let after = files(&[("a.ts", "4"), ("new.ts", ""), ("same.ts", "3")]);
        let change = |name: &str, before: Option<&str>, after: Option<&str>| FileChange {
            name: name.to_owned(),
            before: before.map(str::to_owned),
            after: after.map(str::to_owned),
        };
        let expected = [
            change("a.ts", Some("1"), Some("4")),
            change("gone.ts", Some("2"), None),
            change("new.ts", None, Some("")),
        ];
        assert_eq!(different_files(&before, &after), expected);
        assert!(different_files(&before, &before).is_empty());
    }

    #[test]
    fn a_change_is_told_line_by_line_unless_it_is_too_long() {
        let change = FileChange {
            name: "a.ts".to_owned(),
            before: Some("one\ntwo\n".to_owned()),
            after: Some("one\nthree\n".to_owned()),
        };
        assert_eq!(
            unified(std::slice::from_ref(&change))[0].as_deref(),
            Some("@@ -1,2 +1,2 @@\n one\n-two\n+three\n")
        );
        let long = FileChange {
            after: Some("x".repeat(MAX_FILE + 1)),
            ..change.clone()
        };
        assert_eq!(unified(&[long]), [None]);
        let many = vec![change; MAX_FILES + 2];
        assert_eq!(unified(&many).iter().flatten().count(), MAX_FILES);
    }

    /// Security case A2: lines that are all different are what takes longest.
    #[test]
    fn many_files_take_no_longer_than_one() {
        let numbered = |word: &str| (0..8_000).map(|n| format!("{word}{n}\n")).collect::<Vec<_>>().concat();
        let change = FileChange {
            name: "a.ts".to_owned(),
            before: Some(numbered("a")),
            after: Some(numbered("b")),
        };
        let began = Instant::now();
        assert_eq!(unified(&vec![change; MAX_FILES]).len(), MAX_FILES);
        // If each file had the time for itself, it would be twelve seconds.
        assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    }
}
