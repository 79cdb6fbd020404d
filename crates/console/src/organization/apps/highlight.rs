//! Code in colors, line by line, with a mark where something is wrong. What is in it is text to us, and the template
//! escapes it.

use askama::Template;
use askama::filters::HtmlSafe;

use super::lexer::{Language, Lexer};

/// Longer files are shown without colors: nobody reads them here.
const MAX_LENGTH: usize = 200_000;

#[derive(Debug, Template)]
#[template(path = "organization/apps/code.html")]
pub(super) struct Listing {
    file: String,
    /// Where marks are found: an id of its own on the page.
    id: &'static str,
    lines: Vec<Line>,
}

/// Its template escapes what it holds.
impl HtmlSafe for Listing {}

#[derive(Debug, PartialEq)]
struct Line {
    number: usize,
    is_marked: bool,
    pieces: Vec<Piece>,
}

#[derive(Debug, PartialEq)]
struct Piece {
    class: &'static str,
    text: String,
}

impl Listing {
    /// None: there is too much of it.
    pub(super) fn new(id: &'static str, file: &str, source: &str, marked: &[usize]) -> Option<Self> {
        if source.len() > MAX_LENGTH {
            return None;
        }
        let source = source.replace("\r\n", "\n");
        let mut lines = lines(&source, Language::of(file));
        for line in &mut lines {
            line.is_marked = marked.contains(&line.number);
        }
        Some(Self {
            file: file.to_owned(),
            id,
            lines,
        })
    }
}

fn lines(source: &str, language: Language) -> Vec<Line> {
    let mut lines = vec![Vec::new()];
    for (kind, text) in Lexer::new(source, language) {
        for (place, part) in text.split('\n').enumerate() {
            if place > 0 {
                lines.push(Vec::new());
            }
            if let Some(line) = lines.last_mut() {
                append(line, kind.class(), part);
            }
        }
    }
    // What ends with the end of a line has no line after it.
    if lines.len() > 1 && lines.last().is_some_and(Vec::is_empty) {
        lines.pop();
    }
    let numbered = lines.into_iter().zip(1..);
    numbered
        .map(|(pieces, number)| Line {
            number,
            is_marked: false,
            pieces,
        })
        .collect()
}

fn append(line: &mut Vec<Piece>, class: &'static str, text: &str) {
    match line.last_mut() {
        _ if text.is_empty() => {}
        Some(last) if last.class == class => last.text.push_str(text),
        _ => line.push(Piece {
            class,
            text: text.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn kinds(source: &str, language: Language) -> Vec<(&'static str, String)> {
        let lines = lines(source, language);
        let pieces = lines.into_iter().flat_map(|line| line.pieces);
        let colored = pieces.filter(|piece| !piece.class.is_empty());
        colored.map(|piece| (piece.class, piece.text)).collect()
    }

    fn script(source: &str) -> Vec<(&'static str, String)> {
        kinds(source, Language::Script)
    }

    fn of(pieces: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
        pieces
            .iter()
            .map(|(class, text)| (*class, (*text).to_owned()))
            .collect()
    }

    #[test]
    fn words_texts_numbers_and_comments_are_told_apart() {
        let found = script("const count = 0x1F // \"so\"\nreturn 'it\\'s' + constant /* a */");
        let expected = of(&[
            ("code-word", "const"),
            ("code-digits", "0x1F"),
            ("code-comment", "// \"so\""),
            ("code-word", "return"),
            ("code-text", "'it\\'s'"),
            ("code-comment", "/* a */"),
        ]);
        assert_eq!(found, expected);
    }

    #[test]
    fn code_inside_a_template_is_code() {
        let found = script("`a ${ {b: `c`}.b + 1 } d` + 2");
        let expected = of(&[
            ("code-text", "`a ${"),
            ("code-text", "`c`"),
            ("code-digits", "1"),
            ("code-text", "} d`"),
            ("code-digits", "2"),
        ]);
        assert_eq!(found, expected);
        assert_eq!(script("`\\${x` + 1").last(), of(&[("code-digits", "1")]).last());
    }

    #[test]
    fn a_slash_divides_or_begins_a_pattern() {
        assert_eq!(script("x = /[/'\"]+/g"), of(&[("code-text", "/[/'\"]+/")]));
        assert_eq!(script("a / b / c"), []);
        assert_eq!(
            script("this / 2 / x"),
            of(&[("code-word", "this"), ("code-digits", "2")])
        );
        assert_eq!(
            script("return /'/"),
            of(&[("code-word", "return"), ("code-text", "/'/")])
        );
        assert_eq!(script("(1) / 'a'"), of(&[("code-digits", "1"), ("code-text", "'a'")]));
    }

    #[test]
    fn json_has_keys_and_values() {
        let found = kinds("{\"name\" : \"const\", \"on\": [true, -1.5]}", Language::Json);
        let expected = of(&[
            ("code-key", "\"name\""),
            ("code-text", "\"const\""),
            ("code-key", "\"on\""),
            ("code-word", "true"),
            ("code-digits", "1.5"),
        ]);
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_not_ended_ends_with_its_line_or_the_file() {
        assert_eq!(script("'a\n'b'"), of(&[("code-text", "'a"), ("code-text", "'b'")]));
        assert_eq!(script("/*/ x"), of(&[("code-comment", "/*/ x")]));
        assert_eq!(script("`x\ny"), of(&[("code-text", "`x"), ("code-text", "y")]));
        assert_eq!(script("'\\"), of(&[("code-text", "'\\")]));
    }

    #[test]
    fn lines_are_counted_and_nothing_is_lost() {
        for source in [
            "",
            "a",
            "a\n",
            "\n\na",
            "/* ä\n\n€ */ x\n",
            "`${`${",
            "}}}{{`}",
            "'ü\\\nx'",
            "a/b\u{2028}/c",
        ] {
            let found = lines(source, Language::Script);
            let texts = found.iter().map(|line| {
                let pieces = line.pieces.iter().map(|piece| piece.text.as_str());
                pieces.collect::<String>()
            });
            let whole = texts.collect::<Vec<_>>().join("\n");
            assert_eq!(whole, source.strip_suffix('\n').unwrap_or(source), "{source:?}");
            let numbers: Vec<usize> = found.iter().map(|line| line.number).collect();
            assert_eq!(numbers, (1..=found.len()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn everything_is_escaped_and_the_line_is_marked() {
        let source = "const a = '</pre><script>'\n// & <b>\n";
        let html = Listing::new("text", "a<b>.ts", source, &[2]).unwrap().render().unwrap();
        assert!(!html.contains("<script") && !html.contains("<b>"), "{html}");
        assert!(
            html.contains("&#60;script&#62;") && html.contains("id=\"text-line-2\""),
            "{html}"
        );
        assert_eq!(html.matches("code-marked").count(), 1);
    }

    /// A piece that is looked at again and again would take minutes.
    #[test]
    fn no_code_takes_long() {
        let begun = Instant::now();
        for hard in ["=/[", "`${", "\"a\" ", "/*", "'", "{", "(/", "a/", "\\`"] {
            let source = hard.repeat(MAX_LENGTH / hard.len());
            for language in [Language::Script, Language::Json] {
                assert!(!lines(&source, language).is_empty());
            }
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        assert!(Listing::new("text", "a.ts", &"x".repeat(MAX_LENGTH + 1), &[]).is_none());
    }
}
