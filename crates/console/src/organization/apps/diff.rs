//! What is different between two versions of an app's files, line by line. What is in them is text to us, and the template
//! escapes it. Somebody else may have written it to be overlooked: there is an end to it, and what is hidden is shown.

use std::time::{Duration, Instant};

use apps::FileChange;
use askama::Template;
use askama::filters::HtmlSafe;
use similar::{Change, ChangeTag, DiffOp, TextDiff, TextDiffConfig};
use tokio::task::spawn_blocking;

use crate::show;

/// So many lines around each change show where it is.
const AROUND: usize = 3;
/// What is longer is not compared, but for its name.
const MAX_FILE: usize = 200_000;
const MAX_LINE: usize = 400;
/// As many as somebody may read on one page.
const MAX_FILES: usize = 40;
const MAX_LINES: usize = 1000;
/// After that, what is left is compared less well: whole parts are taken away and added.
const TIME: Duration = Duration::from_millis(300);

#[derive(Debug, Template)]
#[template(path = "organization/apps/diff.html")]
pub(super) struct Diff {
    files: Vec<File>,
    left_out: Option<String>,
}

/// Its template escapes what it holds.
impl HtmlSafe for Diff {}

#[derive(Debug)]
struct File {
    name: String,
    summary: String,
    lines: Vec<Line>,
    /// Why not all of it is shown.
    note: Option<&'static str>,
}

#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// The number is that in the new file.
    Same(usize, String),
    Added(usize, String),
    /// The number is that in the old file.
    Removed(usize, String),
    /// What stands between, and is the same in both.
    Gap(String),
}

impl Diff {
    /// Made on a thread that nobody else needs, as it is much work. None: no file is different.
    pub(super) async fn of(changes: Vec<FileChange>) -> (Vec<FileChange>, Option<Self>) {
        let compared = spawn_blocking(move || {
            let diff = Self::new(&changes);
            (changes, diff)
        });
        // Nothing to show would look like nothing to agree to.
        compared.await.expect("comparing files does not panic")
    }

    fn new(changes: &[FileChange]) -> Option<Self> {
        if changes.is_empty() {
            return None;
        }
        let mut config = TextDiff::configure();
        config.deadline(Instant::now() + TIME);
        let mut room = MAX_LINES;
        let shown = changes.iter().take(MAX_FILES);
        let files = shown.map(|change| File::new(change, &config, &mut room)).collect();
        let left_out = match i64::try_from(changes.len().saturating_sub(MAX_FILES)).unwrap_or(i64::MAX) {
            0 => None,
            1 => Some("1 more changed file is not shown line by line.".to_owned()),
            count => Some(format!("{count} more changed files are not shown line by line.")),
        };
        Some(Self { files, left_out })
    }
}

impl File {
    /// Takes what it shows from the room that is left.
    fn new(change: &FileChange, config: &TextDiffConfig, room: &mut usize) -> Self {
        let before = change.before.as_deref().unwrap_or_default();
        let after = change.after.as_deref().unwrap_or_default();
        let mut told = match (&change.before, &change.after) {
            (None, _) => vec!["new file".to_owned()],
            (_, None) => vec!["deleted".to_owned()],
            _ => Vec::new(),
        };
        let (mut shown, mut note) = (Vec::new(), None);
        if before.len().max(after.len()) > MAX_FILE {
            note = Some("This file is too large to compare here.");
        } else {
            let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
            let diff = config.diff_slices(&old, &new);
            told.extend(counted(diff.ops()));
            if told.is_empty() {
                note = Some("Only line endings changed.");
            } else if !lines(&diff, room, &mut shown) {
                note = Some("There are more changes, which are not shown here.");
            }
        }
        Self {
            name: visible(&change.name),
            summary: told.join(", "),
            lines: shown,
            note,
        }
    }
}

/// How many lines come, and how many go.
fn counted(ops: &[DiffOp]) -> Vec<String> {
    let changed = ops.iter().filter(|op| !matches!(op, DiffOp::Equal { .. }));
    let (removed, added) = changed.fold((0, 0), |(removed, added), op| {
        (removed + op.old_range().len(), added + op.new_range().len())
    });
    let words = |count: usize, what: &str| {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        (count > 0).then(|| format!("{} {what}", show::counted(count, "line")))
    };
    let told = [words(added, "added"), words(removed, "removed")];
    told.into_iter().flatten().collect()
}

/// Puts down what is different, with what is around it. False: there was no room for all of it.
fn lines(diff: &TextDiff<'_, '_, '_, str>, room: &mut usize, shown: &mut Vec<Line>) -> bool {
    let mut end = 0;
    for group in diff.grouped_ops(AROUND) {
        if *room == 0 {
            return false;
        }
        let start = group.first().map_or(end, |op| op.old_range().start);
        if start > end {
            shown.push(gap(start - end));
        }
        for op in &group {
            for change in diff.iter_changes(op) {
                if *room == 0 {
                    return false;
                }
                *room -= 1;
                shown.push(Line::new(&change));
            }
            end = op.old_range().end;
        }
    }
    let rest = diff.old_slices().len() - end;
    if rest > 0 {
        shown.push(gap(rest));
    }
    true
}

fn gap(count: usize) -> Line {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    Line::Gap(format!("{} unchanged", show::counted(count, "line")))
}

impl Line {
    fn new(change: &Change<&str>) -> Self {
        let number = |index: Option<usize>| index.map_or(0, |index| index + 1);
        let text = visible(change.value());
        match change.tag() {
            ChangeTag::Equal => Self::Same(number(change.new_index()), text),
            ChangeTag::Insert => Self::Added(number(change.new_index()), text),
            ChangeTag::Delete => Self::Removed(number(change.old_index()), text),
        }
    }
}

/// What would not be seen, or would make a line look like another, by its number; and no line without end.
fn visible(line: &str) -> String {
    let mut text = String::with_capacity(line.len().min(MAX_LINE));
    for (place, sign) in line.chars().enumerate() {
        if place == MAX_LINE {
            let left = line.chars().count() - MAX_LINE;
            text.extend(format!("… ({left} more)").chars());
            break;
        }
        match sign {
            '\t' => text.push(sign),
            _ if sign.is_control() || is_hidden(sign) => text.extend(format!("<U+{:04X}>", u32::from(sign)).chars()),
            _ => text.push(sign),
        }
    }
    text
}

/// Signs without a shape, and those that turn the direction of what follows.
fn is_hidden(sign: char) -> bool {
    matches!(
        sign,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(before: Option<&str>, after: Option<&str>) -> FileChange {
        FileChange {
            name: "a.ts".to_owned(),
            before: before.map(str::to_owned),
            after: after.map(str::to_owned),
        }
    }

    fn file(before: Option<&str>, after: Option<&str>) -> File {
        Diff::new(&[change(before, after)]).unwrap().files.remove(0)
    }

    /// Lines with these words before their numbers, up to the last.
    fn numbered(word: &str, last: usize) -> String {
        let lines: Vec<String> = (1..=last).map(|number| format!("{word}{number}\n")).collect();
        lines.concat()
    }

    #[test]
    fn changed_lines_stand_between_those_around_them() {
        let before = numbered("line ", 20);
        let after = before.replace("line 10\n", "line ten\nand more\n");
        let found = file(Some(&before), Some(&after));
        let same = |number: usize, old: usize| Line::Same(number, format!("line {old}"));
        let expected = [
            Line::Gap("6 lines unchanged".to_owned()),
            same(7, 7),
            same(8, 8),
            same(9, 9),
            Line::Removed(10, "line 10".to_owned()),
            Line::Added(10, "line ten".to_owned()),
            Line::Added(11, "and more".to_owned()),
            same(12, 11),
            same(13, 12),
            same(14, 13),
            Line::Gap("7 lines unchanged".to_owned()),
        ];
        assert_eq!(found.lines, expected);
        assert_eq!(found.summary, "2 lines added, 1 line removed");
        assert_eq!(found.note, None);
    }

    #[test]
    fn changes_far_from_each_other_have_a_gap_between_them() {
        let before = numbered("", 20);
        let found = file(Some(&before), Some(&format!("first\n{before}last\n")));
        let gaps = found.lines.iter().filter(|line| matches!(line, Line::Gap(_)));
        assert_eq!(gaps.collect::<Vec<_>>(), [&Line::Gap("14 lines unchanged".to_owned())]);
        assert_eq!(found.lines.last(), Some(&Line::Added(22, "last".to_owned())));
    }

    #[test]
    fn files_come_and_go() {
        let new = file(None, Some("one\ntwo"));
        assert_eq!(new.summary, "new file, 2 lines added");
        assert_eq!(new.lines[1], Line::Added(2, "two".to_owned()));
        let gone = file(Some("one\n"), None);
        assert_eq!(gone.summary, "deleted, 1 line removed");
        assert_eq!(gone.lines, [Line::Removed(1, "one".to_owned())]);
        let empty = file(None, Some(""));
        assert!(
            empty.summary == "new file" && empty.lines.is_empty() && empty.note.is_none(),
            "{empty:?}"
        );
        let ends = file(Some("one\r\ntwo\r\n"), Some("one\ntwo"));
        assert!(ends.lines.is_empty() && ends.note.is_some(), "{ends:?}");
        assert!(Diff::new(&[]).is_none());
    }

    #[test]
    fn there_is_an_end_to_what_is_shown() {
        let long = "x\n".repeat(MAX_FILE / 2 + 1);
        let found = file(Some(""), Some(&long));
        assert!(found.lines.is_empty() && found.note.is_some_and(|note| note.contains("too large")));

        let many = numbered("", MAX_LINES + 5);
        let found = Diff::new(&[change(None, Some(&many)), change(None, Some("one more\n"))]).unwrap();
        assert_eq!(found.files[0].lines.len(), MAX_LINES, "all files share the room");
        assert!(found.files[1].lines.is_empty());
        assert!(found.files.iter().all(|file| file.note.is_some()));
        assert_eq!(
            found.files[0].summary,
            format!("new file, {} lines added", MAX_LINES + 5),
            "all are counted"
        );

        let files = vec![change(Some("a"), Some("b")); MAX_FILES + 2];
        let found = Diff::new(&files).unwrap();
        assert_eq!(found.files.len(), MAX_FILES);
        let html = found.render().unwrap();
        assert!(
            html.contains("2 more changed files are not shown line by line."),
            "{html}"
        );

        let found = file(None, Some(&"é".repeat(MAX_LINE + 1)));
        assert_eq!(
            found.lines,
            [Line::Added(1, format!("{}… (1 more)", "é".repeat(MAX_LINE)))]
        );
    }

    #[test]
    fn everything_is_escaped_and_signs_tell_what_colors_do() {
        let changes = [FileChange {
            name: "a<b>\".ts".to_owned(),
            ..change(Some("kept\n<i>old</i>\n"), Some("kept\n</pre><script>\n"))
        }];
        let html = Diff::new(&changes).unwrap().render().unwrap();
        assert!(
            !html.contains("<script") && !html.contains("<i>") && !html.contains("a<b>"),
            "{html}"
        );
        assert!(
            html.contains("data-line=\"2\">+ &#60;/pre&#62;&#60;script&#62;\n</ins>"),
            "{html}"
        );
        assert!(
            html.contains("data-line=\"2\">− &#60;i&#62;old&#60;/i&#62;\n</del>"),
            "{html}"
        );
        assert!(html.contains("data-line=\"1\">  kept\n</span>"), "{html}");
        assert!(html.contains("tabindex=\"0\" role=\"region\" aria-label=\"Changes in a&#60;b&#62;&#34;.ts\""));
    }

    #[test]
    fn what_would_not_be_seen_is_shown() {
        assert_eq!(visible("a\tb"), "a\tb");
        assert_eq!(
            visible("if (\u{202e}admin\u{2066}) \u{200b}\u{7}"),
            "if (<U+202E>admin<U+2066>) <U+200B><U+0007>"
        );
        assert_eq!(
            visible("const { \u{3164} } = x\u{e0100}"),
            "const { <U+3164> } = x<U+E0100>"
        );
        assert_eq!(visible("ü €"), "ü €");
    }

    /// Lines that are all different are what takes longest.
    #[test]
    fn no_difference_takes_long() {
        let begun = Instant::now();
        let (before, after) = (numbered("", 30_000), numbered("0", 25_000));
        let files = vec![change(Some(&before), Some(&after)); 10];
        assert!(Diff::new(&files).is_some());
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    }
}
