//! What is measured of ingest, and the section on it of `docs/benchmarks.md`.

use std::fmt::Write as _;

use super::document::grouped;
use super::figures::{f64_of, verdict};
use super::names::SQLITE;

const LEAST_EVENTS: f64 = 250_000.0;
const LEAST_REQUESTS: f64 = 40_000.0;
const MOST_P99: f64 = 25.0;
/// How much more memory a thousand connections may take than eight.
const CROWD_MEMORY: f64 = 1.5;

pub(super) const JOURNAL: &str = "bare handler";
/// Of one round.
pub(super) const SECONDS: u32 = 8;

/// How clients send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) title: &'static str,
    pub(super) connections: u32,
    pub(super) events: u32,
}

pub(super) const BATCHES: Pattern = Pattern {
    title: "500 events a request, 8 connections",
    connections: 8,
    events: 500,
};
pub(super) const SINGLE: Pattern = Pattern {
    title: "1 event a request, 64 connections",
    connections: 64,
    events: 1,
};
pub(super) const CROWD: Pattern = Pattern {
    title: "20 events a request, 1,000 connections",
    connections: 1000,
    events: 20,
};
pub(super) const PATTERNS: [Pattern; 3] = [BATCHES, SINGLE, CROWD];

/// The median round of one pattern at one server.
pub(super) struct Ingested {
    pub(super) server: &'static str,
    pub(super) pattern: Pattern,
    /// Events a second.
    pub(super) rate: f64,
    /// Of one request, in milliseconds.
    pub(super) p50: f64,
    pub(super) p99: f64,
    /// Of the server's processes after it, in megabytes.
    pub(super) memory: f64,
}

impl Ingested {
    /// Requests a second.
    pub(super) fn requests(&self) -> f64 {
        self.rate / f64::from(self.pattern.events)
    }
}

/// All that a run found out.
#[derive(Default)]
pub(super) struct Report {
    pub(super) facts: Vec<(&'static str, String)>,
    pub(super) ingested: Vec<Ingested>,
    /// Of Hedgerow: all that was answered with 200, and all that the store held afterwards.
    pub(super) sent: u64,
    pub(super) stored: u64,
}

impl Report {
    pub(super) fn markdown(&self) -> String {
        let mut text = format!(
            "## Ingest\n\nMeasured by `cargo xtask bench ingest`: requests to `/batch/` over connections that are kept open, each event with an ID \
             that was never sent before, from the same machine; the median of three rounds of {SECONDS} s. An answer means that the \
             events survive a crash. The bare handler appends bodies to a file, flushes once for all that came in the meantime, and answers; it \
             parses nothing, knows no tokens, and finds no duplicates. Django stores a batch with one statement. Hedgerow answered {} events with \
             200, and {} were in its store afterwards.\n\n| | |\n| --- | --- |\n",
            grouped(f64_of(self.sent)),
            grouped(f64_of(self.stored))
        );
        for (name, value) in &self.facts {
            let _ = writeln!(text, "| {name} | {value} |");
        }
        for pattern in PATTERNS {
            text += &self.table(pattern);
        }
        text + &self.targets()
    }

    fn table(&self, pattern: Pattern) -> String {
        let mut text = format!(
            "\n### {}\n\n| server | events/s | requests/s | p50 | p99 | memory |\n| --- | ---: | ---: | ---: | ---: | ---: |\n",
            pattern.title
        );
        for row in self.ingested.iter().filter(|row| row.pattern == pattern) {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {:.1} ms | {:.1} ms | {:.0} MB |",
                row.server,
                grouped(row.rate),
                grouped(row.requests()),
                row.p50,
                row.p99,
                row.memory
            );
        }
        text
    }

    fn of(&self, server: &str, pattern: Pattern) -> Option<&Ingested> {
        let mut rows = self.ingested.iter();
        rows.find(|row| row.server == server && row.pattern == pattern)
    }

    fn targets(&self) -> String {
        let mut text = String::from("\n### Targets of ingest\n\n| target | measured | |\n| --- | ---: | --- |\n");
        let ours = |pattern| self.of(SQLITE, pattern);
        if let Some(batches) = ours(BATCHES) {
            let promise = format!("{} events/s in batches", grouped(LEAST_EVENTS));
            let measured = format!("{}/s", grouped(batches.rate));
            line(&mut text, &promise, &measured, batches.rate >= LEAST_EVENTS);
        }
        if let Some(single) = ours(SINGLE) {
            let promise = format!("{} single events/s, p99 under {MOST_P99} ms", grouped(LEAST_REQUESTS));
            let measured = format!("{}/s, {:.1} ms", grouped(single.rate), single.p99);
            line(
                &mut text,
                &promise,
                &measured,
                single.rate >= LEAST_REQUESTS && single.p99 < MOST_P99,
            );
        }
        if let (Some(few), Some(many)) = (ours(BATCHES), ours(CROWD)) {
            let promise = format!("1,000 connections take at most {CROWD_MEMORY} times the memory of 8");
            let times = many.memory / few.memory;
            line(&mut text, &promise, &format!("{times:.2} times"), times <= CROWD_MEMORY);
        }
        for pattern in PATTERNS {
            if let (Some(our), Some(floor)) = (ours(pattern), self.of(JOURNAL, pattern)) {
                let _ = writeln!(
                    text,
                    "| {}: of the bare handler's rate | {:.2} | no target |",
                    pattern.title,
                    our.rate / floor.rate
                );
            }
        }
        text
    }
}

fn line(text: &mut String, promise: &str, measured: &str, is_met: bool) {
    let _ = writeln!(text, "| {promise} | {measured} | {} |", verdict(is_met));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(server: &'static str, pattern: Pattern, rate: f64, memory: f64) -> Ingested {
        Ingested {
            server,
            pattern,
            rate,
            p50: 1.0,
            p99: 24.9,
            memory,
        }
    }

    #[test]
    fn each_target_is_judged_at_its_limit() {
        let met = |batches, single, crowd| {
            let ingested = vec![
                row(SQLITE, BATCHES, batches, 100.0),
                row(SQLITE, SINGLE, single, 100.0),
                row(SQLITE, CROWD, 1.0, crowd),
            ];
            let text = Report {
                ingested,
                ..Report::default()
            }
            .markdown();
            text.matches("| met |").count()
        };
        assert_eq!(met(250_000.0, 40_000.0, 150.0), 3);
        assert_eq!(met(249_999.0, 40_000.0, 150.0), 2);
        assert_eq!(met(250_000.0, 39_999.0, 150.0), 2);
        assert_eq!(met(250_000.0, 40_000.0, 151.0), 2);
    }
}
