//! The section on exports of `docs/benchmarks.md`.

use std::fmt::Write as _;

use super::super::document::grouped;
use super::super::figures::f64_of;
use super::super::plot::{Group, Plot};
use super::results::Report;
use super::rows::{Copied, Form};
use super::server::{CarriedOut, Cost, EXPORTS, RUNS};
use super::targets;

impl Report {
    pub(super) fn markdown(&self) -> String {
        let mut text = self.how();
        text += "\n![Rows a second of each engine, for each form and size](benchmarks-exports.svg)\n";
        for rows in self.sizes() {
            text += &self.of_size(rows);
        }
        text += &self.tick();
        text += &self.carried_out();
        text + &self.targets()
    }

    pub(super) fn plot(&self) -> Plot {
        let groups = self
            .sizes()
            .into_iter()
            .flat_map(|rows| Form::ALL.map(|form| group(&self.copies, rows, form)));
        Plot {
            title: "Rows a second of each engine, for each form and size",
            heading: "Rows a second",
            groups: groups.collect(),
        }
    }

    fn how(&self) -> String {
        let mut text = format!(
            "## Exports\n\nMeasured by `{}`: each engine reads the same generated events from its own table, all of them into \
             one file, one engine after the other, each time in a process of its own; of what takes under 30 s, the middle one of three. DuckDB and \
             chDB are held to two threads. Ours reads SQLite, makes a manifest besides and flushes the file; theirs do not. Stores and files \
             were on the file system named below, the schedule's on the disk. *Others* is the share of the \
             processor that other programs took in the meantime (for S3 that includes the S3 server).\n\n| | |\n| --- | --- |\n",
            self.command
        );
        for (name, value) in &self.facts {
            let _ = writeln!(text, "| {name} | {value} |");
        }
        text
    }

    fn of_size(&self, rows: u64) -> String {
        let mut text = format!(
            "\n### {} rows\n\n| engine | form | rows/s | wall | CPU | peak memory | written | others |\n\
             | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
            grouped(f64_of(rows))
        );
        for form in Form::ALL {
            let of = self.copies.iter();
            for copied in of.filter(|copied| copied.rows == rows && copied.form == form) {
                let _ = writeln!(
                    text,
                    "| {} | {} | {} | {:.1} s | {:.1} s | {:.0} MB | {:.0} MB | {:.0} % |",
                    copied.engine,
                    form.title(),
                    grouped(copied.rate()),
                    copied.wall,
                    copied.cpu,
                    copied.peak,
                    copied.written,
                    copied.others * 100.0
                );
            }
        }
        text
    }

    fn tick(&self) -> String {
        let mut text = String::from("\n### Schedule\n\n");
        let Some(tick) = &self.tick else {
            return text + "Not measured in this run.\n";
        };
        let _ = write!(
            text,
            "{} hourly exports on PostgreSQL {} (shared_buffers 256 MB, else as installed), all due at the same full hour; load \
             average before: {}.\n\n| | wall | CPU of Hedgerow | CPU of PostgreSQL |\n| --- | ---: | ---: | ---: |\n",
            grouped(EXPORTS.into()),
            tick.postgres,
            tick.load
        );
        let all = format!("all {} ticks until every run is made", tick.count);
        for (name, Cost { wall, ours, database }) in [
            (all.as_str(), &tick.all),
            ("the most expensive of them", &tick.due),
            ("the next, with nothing due", &tick.idle),
        ] {
            let _ = writeln!(text, "| {name} | {wall:.2} s | {ours:.2} s | {database:.2} s |");
        }
        text
    }

    fn carried_out(&self) -> String {
        let Some(CarriedOut { ours, temporal }) = &self.carried_out else {
            return String::new();
        };
        let runs = f64::from(RUNS);
        let mut text = format!(
            "\n{} runs to a destination that does nothing, carried out by one worker on the same PostgreSQL, beside as many empty workflows of \
             Temporal's development server with one worker of its Python SDK (`bench/schedule/temporal.py`), which keeps them in memory. A run is claimed, logged, \
             and finished in transactions of their own, each flushed to the disk.\n\n| | wall | runs/s |\n| --- | ---: | ---: |\n",
            grouped(runs)
        );
        let rows = [("Hedgerow", Some(ours.wall)), ("Temporal", *temporal)];
        for (name, wall) in rows.into_iter().filter_map(|(name, wall)| Some((name, wall?))) {
            let _ = writeln!(text, "| {name} | {wall:.1} s | {} |", grouped(runs / wall));
        }
        text
    }

    fn targets(&self) -> String {
        let targets = targets::judge(self);
        let met = targets
            .iter()
            .filter(|target| target.measured.as_ref().is_some_and(|(_, is_met)| *is_met));
        let mut text = format!(
            "\n### Targets of exports: {} of {} met\n\n| target | measured | |\n| --- | ---: | --- |\n",
            met.count(),
            targets.len()
        );
        for target in &targets {
            let (measured, verdict) = match &target.measured {
                Some((measured, true)) => (measured.as_str(), "met"),
                Some((measured, false)) => (measured.as_str(), "**not met**"),
                None => ("–", "not measured"),
            };
            let _ = writeln!(text, "| {} | {measured} | {verdict} |", target.promise);
        }
        text
    }
}

/// The bars of one size and form.
fn group(copies: &[Copied], rows: u64, form: Form) -> Group {
    let of = copies
        .iter()
        .filter(|copied| copied.rows == rows && copied.form == form);
    Group {
        title: format!("{}, {} rows", form.title(), grouped(f64_of(rows))),
        bars: of.map(|copied| (copied.engine.to_owned(), copied.rate())).collect(),
    }
}
