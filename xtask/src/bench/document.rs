//! `docs/benchmarks.md`: sections that are replaced, and how numbers are written in them.

use anyhow::{Context, Result};

/// Puts the section between the marks of its benchmark, or at the end of a document that has none; the rest stays as it
/// is.
pub(super) fn replaced(document: &str, benchmark: &str, section: &str) -> Result<String> {
    let (begin, end) = marks(benchmark);
    let marked = format!("{begin}\n{section}{end}");
    let Some((before, rest)) = document.split_once(&begin) else {
        let start = if document.is_empty() {
            "# Benchmarks\n"
        } else {
            document
        };
        return Ok(format!("{}\n\n{marked}\n", start.trim_end()));
    };
    let (_, after) = rest
        .split_once(&end)
        .with_context(|| format!("docs/benchmarks.md has {begin} but not {end}"))?;
    Ok(format!("{before}{marked}{after}"))
}

fn marks(benchmark: &str) -> (String, String) {
    ["begin", "end"]
        .map(|place| format!("<!-- bench {benchmark}: {place} -->"))
        .into()
}

/// A whole number with commas between the thousands.
pub(super) fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_marks_is_replaced() -> Result<()> {
        let (begin, end) = marks("api");
        let first = replaced("# Mine\n\nhand-written\n", "api", "one\n")?;
        assert_eq!(first, format!("# Mine\n\nhand-written\n\n{begin}\none\n{end}\n"));
        let again = replaced(&format!("{first}\nbelow\n"), "api", "two\n")?;
        assert_eq!(
            again,
            format!("# Mine\n\nhand-written\n\n{begin}\ntwo\n{end}\n\nbelow\n")
        );
        assert!(replaced(&again, "exports", "three\n")?.starts_with(again.trim_end()));
        assert!(replaced(&begin, "api", "x").is_err());
        Ok(())
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(grouped(999.4), "999");
        assert_eq!(grouped(1_234_567.0), "1,234,567");
    }
}
