//! The arguments of `cargo xtask bench api`.

use anyhow::{Context, Result, bail, ensure};

use super::measure::Plan;
use super::names::PEERS;

const USAGE: &str = "usage: cargo xtask bench api [--growth] [--quick] [--only NAME]…
  --growth     also compares a large database with a small one (some minutes more)
  --quick      rounds of two seconds instead of five
  --only NAME  one of sqlite (with the bare handler), postgres, django, better-auth, pocketbase;
               may be repeated; the report then goes to target/bench instead of docs";

/// What to measure, and how long.
#[derive(Default)]
pub(super) struct Options {
    pub(super) growth: bool,
    pub(super) quick: bool,
    /// Names of servers; none means all.
    pub(super) only: Vec<String>,
}

impl Options {
    pub(super) fn read(arguments: &[String]) -> Result<Self> {
        let mut options = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--growth" => options.growth = true,
                "--quick" => options.quick = true,
                "--only" => {
                    let name = arguments
                        .next()
                        .with_context(|| format!("--only needs a name\n{USAGE}"))?;
                    let is_known =
                        matches!(name.as_str(), "sqlite" | "postgres") || PEERS.iter().any(|peer| peer.0 == name);
                    ensure!(is_known, "unknown server {name}\n{USAGE}");
                    options.only.push(name.clone());
                }
                _ => bail!("unknown argument {argument}\n{USAGE}"),
            }
        }
        Ok(options)
    }

    pub(super) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    pub(super) fn plan(&self) -> Plan {
        if self.quick {
            Plan { round: 2, warm_up: 1 }
        } else {
            Plan { round: 5, warm_up: 2 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options> {
        Options::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn names_choose_servers_and_unknown_words_are_refused() -> Result<()> {
        assert!(read("--growth")?.wants("django"));
        assert!(!read("--only sqlite --only django")?.wants("postgres"));
        assert!(read("--only sqlite --only django")?.wants("django"));
        for wrong in ["--only", "--only rails", "--fast"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        Ok(())
    }
}
