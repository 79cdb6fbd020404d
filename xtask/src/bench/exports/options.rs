//! The arguments of `cargo xtask bench exports`.

use anyhow::{Context, Result, bail, ensure};

const USAGE: &str = "usage: cargo xtask bench exports [--rows NUMBER]… [--only NAME]…
  --rows NUMBER  how many rows to export; may be repeated; 1000000 and 10000000 by default
  --only NAME    rows or schedule; may be repeated; the report then goes to target/bench instead of docs";

const PARTS: [&str; 2] = ["rows", "schedule"];
const ROWS: [u64; 2] = [1_000_000, 10_000_000];

/// What to measure.
pub(super) struct Options {
    pub(super) rows: Vec<u64>,
    /// None means all.
    pub(super) only: Vec<String>,
}

impl Options {
    pub(super) fn read(arguments: &[String]) -> Result<Self> {
        let mut options = Self {
            rows: Vec::new(),
            only: Vec::new(),
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let value = arguments
                .next()
                .with_context(|| format!("{argument} needs a value, or is unknown\n{USAGE}"))?;
            match argument.as_str() {
                "--rows" => options.rows.push(value.parse().with_context(|| USAGE)?),
                "--only" => {
                    ensure!(PARTS.contains(&value.as_str()), "unknown part {value}\n{USAGE}");
                    options.only.push(value.clone());
                }
                _ => bail!("unknown argument {argument}\n{USAGE}"),
            }
        }
        if options.rows.is_empty() {
            options.rows = ROWS.to_vec();
        }
        Ok(options)
    }

    pub(super) fn wants(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options> {
        Options::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn sizes_and_parts_are_chosen_and_unknown_words_refused() -> Result<()> {
        assert_eq!(read("")?.rows, ROWS);
        assert_eq!(read("--rows 5 --rows 7")?.rows, [5, 7]);
        assert!(read("")?.wants("schedule"));
        assert!(!read("--only rows")?.wants("schedule"));
        for wrong in ["--rows", "--rows many", "--only all", "--fast 1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        Ok(())
    }
}
