//! The section of `docs/benchmarks.md` that a run writes.

use std::fmt::Write as _;

use super::document::grouped;
use super::growth::Growth;
use super::load::CONNECTIONS;
use super::measure::{Measured, Plan, ROUNDS};
use super::names::{FLOOR, POSTGRES, SQLITE};
use super::plot::{Group, Plot};
use super::servers::Operation;
use super::targets::{self, Target};

/// All that a run found out.
pub(super) struct Report {
    pub(super) command: String,
    pub(super) plan: Plan,
    pub(super) facts: Vec<(&'static str, String)>,
    pub(super) servers: Vec<Measured>,
    pub(super) growth: Vec<Growth>,
}

impl Report {
    /// The whole section in Markdown.
    pub(super) fn markdown(&self) -> String {
        let mut text = String::from("## The API\n\n");
        text += &self.how();
        text += "\n![Requests a second of each server, for each operation](benchmarks-api.svg)\n";
        for operation in Operation::ALL {
            text += &self.speeds(operation);
        }
        text += &self.memory();
        text += &self.ratios();
        text += &self.growth();
        text += &targets_table(&targets::judge(&self.servers, &self.growth), self.growth.is_empty());
        text
    }

    pub(super) fn plot(&self) -> Plot {
        let group = |operation: Operation| {
            let rates = self.servers.iter().filter_map(|server| {
                let speed = server.speeds.get(&operation)?;
                Some((server.name.to_owned(), speed.full.rate))
            });
            Group {
                title: operation.title().to_owned(),
                bars: rates.collect(),
            }
        };
        Plot {
            title: "Requests a second of each server, for each operation",
            heading: "Requests a second",
            groups: Operation::OF_ALL_SERVERS.map(group).into(),
        }
    }

    fn how(&self) -> String {
        let mut text = format!(
            "Measured by `{}`: one server after the other, over loopback, `wrk` with one thread and {CONNECTIONS} \
             connections on the same machine. Warm-up until the rate stops rising, then {ROUNDS} rounds of {} s, of \
             which the median counts; then one round at half that rate, sent at random moments. Each server was seen \
             to refuse the same requests without a credential and with a wrong one. \
             `bench/README.md` says what each of them is.\n\n| | |\n| --- | --- |\n",
            self.command, self.plan.round
        );
        for (name, value) in &self.facts {
            let _ = writeln!(text, "| {name} | {value} |");
        }
        text
    }

    fn speeds(&self, operation: Operation) -> String {
        let mut text = format!(
            "\n### {}\n\n| server | requests/s | p50, full load | p99, full load | p99, half load |\n\
             | --- | ---: | ---: | ---: | ---: |\n",
            operation.title()
        );
        for server in &self.servers {
            let Some(speed) = server.speeds.get(&operation) else {
                continue;
            };
            let (full, half) = (speed.full, speed.half);
            let _ = writeln!(
                text,
                "| {} | {} | {:.2} ms | {:.2} ms | {:.2} ms |",
                server.name,
                grouped(full.rate),
                full.p50,
                full.p99,
                half.p99
            );
        }
        text
    }

    fn memory(&self) -> String {
        let mut text = String::from(
            "\n### Memory and start\n\nResident memory of all processes of a server; PostgreSQL's own is not counted \
             for those that use it.\n\n| server | idle | after load | ready on an existing database |\n\
             | --- | ---: | ---: | ---: |\n",
        );
        for server in &self.servers {
            let ready = server
                .ready_after
                .map_or_else(|| "–".into(), |time| format!("{} ms", time.as_millis()));
            let _ = writeln!(
                text,
                "| {} | {:.0} MB | {:.0} MB | {ready} |",
                server.name, server.idle, server.loaded
            );
        }
        text
    }

    /// How many times as fast Hedgerow is as each other server.
    fn ratios(&self) -> String {
        let is_ours = |server: &&Measured| server.name == SQLITE || server.name == POSTGRES;
        let (ours, others): (Vec<&Measured>, Vec<&Measured>) = self.servers.iter().partition(is_ours);
        let mut text = String::from("\n### Ratios\n\nHow many times as fast Hedgerow is.\n\n| | ");
        for other in &others {
            let _ = write!(text, "| {} ", other.name);
        }
        let _ = write!(text, "|\n| --- | --- {}|", "| ---: ".repeat(others.len()));
        for our in ours {
            for operation in Operation::ALL {
                if !our.speeds.contains_key(&operation) {
                    continue;
                }
                let _ = write!(text, "\n| {} | {} |", our.name, operation.title());
                for other in &others {
                    let _ = write!(text, " {} |", ratio(our, other, operation));
                }
            }
        }
        text + "\n"
    }

    fn growth(&self) -> String {
        let mut text = String::from(
            "\n### Growth\n\n100 organizations with one of 100 members against 1,000,000 organizations with one of \
             100,000 members. Cost is the time of a request, in multiples of the small database.\n\n",
        );
        if self.growth.is_empty() {
            return text + "Not measured in this run; `--growth` adds it.\n";
        }
        text += "| database | request | small, requests/s | large, requests/s | cost |\n| --- | --- | ---: | ---: | ---: |\n";
        for row in &self.growth {
            let (small, large) = (grouped(row.small), grouped(row.large));
            let _ = writeln!(
                text,
                "| {} | {} | {small} | {large} | {:.2} |",
                row.database,
                row.request,
                row.cost()
            );
        }
        text
    }
}

fn ratio(our: &Measured, other: &Measured, operation: Operation) -> String {
    let digits = if other.name == FLOOR { 2 } else { 1 };
    targets::ratio(our, other, operation).map_or_else(|| "–".into(), |ratio| format!("{ratio:.digits$}"))
}

fn targets_table(targets: &[Target], is_growth_open: bool) -> String {
    let met = targets.iter().filter(|target| target.is_met).count();
    let mut text = format!("\n### Targets: {met} of {} met\n\n", targets.len());
    text += "Peers are held against Hedgerow on the same kind of database.\n\n| target | measured | |\n| --- | ---: | --- |\n";
    for target in targets {
        let verdict = if target.is_met { "met" } else { "**not met**" };
        let _ = writeln!(text, "| {} | {} | {verdict} |", target.promise, target.measured);
    }
    if is_growth_open {
        text += "| a large database costs at most 1.5 times a small one | – | not measured |\n";
    }
    text
}
