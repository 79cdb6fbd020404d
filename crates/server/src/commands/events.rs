use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::{Args, Subcommand};
use events::import::{self, BadRow, OpenError};
use events::{Events, Incoming, Time};
use indicatif::{ProgressBar, ProgressStyle};
use service::{OrganizationId, Service, TeamId};
use tokio::sync::mpsc;

use crate::settings::Settings;
use crate::store;

/// How many events are stored at once.
const BATCH: usize = 10_000;
/// How many bad rows are shown; the rest is counted.
const SHOWN: usize = 5;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Import events from JSONL or Parquet files, in the format of the capture API.
    Import {
        #[command(flatten)]
        target: Target,
        /// Skip invalid rows instead of failing.
        #[arg(long)]
        lenient: bool,
        /// The files to import (.jsonl or .parquet).
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

/// The team to import into.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Target {
    /// Import into the first team of this organization.
    #[arg(long, value_name = "ID")]
    organization: Option<OrganizationId>,
    /// Import into this team.
    #[arg(long, value_name = "ID")]
    team: Option<TeamId>,
    /// Import into the team with this API token.
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
}

impl Command {
    pub(crate) async fn run(self, settings: &Settings) -> anyhow::Result<()> {
        let service = super::service(settings).await?;
        let store = store::open(settings, &service).await?;
        match self {
            Self::Import { target, lenient, files } => {
                let team = target.team(&service).await?;
                let mut tally = Tally::new(&files)?;
                for file in &files {
                    let brought = bring_in(&service, &store, team, file, &mut tally).await;
                    brought.with_context(|| format!("cannot import {}", file.display()))?;
                }
                store::close(&store).await?;
                tally.report()?;
                ensure!(
                    lenient || tally.bad == 0,
                    "some rows could not be read; use --lenient to ignore them"
                );
            }
        }
        Ok(())
    }
}

impl Target {
    async fn team(&self, service: &Service) -> anyhow::Result<TeamId> {
        let found = if let Some(organization) = self.organization {
            service.first_team(organization).await?.map(|team| team.id)
        } else if let Some(team) = self.team {
            service.team_by_id(team).await?.map(|found| found.team)
        } else {
            let token = self.token.as_deref().unwrap_or_default();
            service.team_by_token(token).await?.map(|found| found.team)
        };
        found.context("team not found")
    }
}

/// What was brought in so far.
struct Tally {
    stored: u64,
    bad: u64,
    first_bad: Vec<String>,
    bar: ProgressBar,
}

impl Tally {
    fn new(files: &[PathBuf]) -> anyhow::Result<Self> {
        let size = |file: &PathBuf| std::fs::metadata(file).with_context(|| format!("cannot read {}", file.display()));
        let sizes = files.iter().map(|file| Ok(size(file)?.len()));
        let bar = ProgressBar::new(sizes.sum::<anyhow::Result<u64>>()?);
        let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {msg} {eta}");
        bar.set_style(style.expect("the template is right"));
        Ok(Self {
            stored: 0,
            bad: 0,
            first_bad: Vec::new(),
            bar,
        })
    }

    fn note_bad(&mut self, bad: &BadRow) {
        self.bad += 1;
        if self.first_bad.len() < SHOWN {
            self.first_bad.push(bad.to_string());
        }
    }

    fn report(&self) -> std::io::Result<()> {
        self.bar.finish_and_clear();
        let mut out = stdout().lock();
        for line in &self.first_bad {
            writeln!(out, "{line}")?;
        }
        writeln!(
            out,
            "imported {} events, skipped {} invalid rows",
            self.stored, self.bad
        )
    }
}

/// Some rows, and how much of the file was read for them.
struct Part {
    rows: Vec<Result<Incoming, BadRow>>,
    bytes_read: u64,
}

/// Reads on a thread of its own, so that reading and storing go on at the same time.
async fn bring_in(
    service: &Service,
    store: &Events,
    team: TeamId,
    file: &Path,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let (sender, mut parts) = mpsc::channel(2);
    let (path, now) = (file.to_owned(), service.clock().now());
    let reading = tokio::task::spawn_blocking(move || read(&path, now, &sender));
    let before = tally.bar.position();
    while let Some(Part { rows, bytes_read }) = parts.recv().await {
        let mut good = Vec::with_capacity(rows.len());
        for row in rows {
            match row {
                Ok(event) => good.push(event),
                Err(bad) => tally.note_bad(&bad),
            }
        }
        let count = good.len() as u64;
        store.append(team.0, good, service.clock().now()).await?;
        tally.stored += count;
        tally.bar.set_position(before + bytes_read);
        tally.bar.set_message(format!("{} events", tally.stored));
    }
    Ok(reading.await??)
}

fn read(file: &Path, now: Time, parts: &mpsc::Sender<Part>) -> Result<(), OpenError> {
    let mut import = import::open(file, now)?;
    loop {
        let rows: Vec<_> = import.by_ref().take(BATCH).collect();
        let is_over = rows.is_empty();
        let bytes_read = import.bytes_read();
        // If nobody takes it, storing has failed, and that is what is reported.
        if is_over || parts.blocking_send(Part { rows, bytes_read }).is_err() {
            return Ok(());
        }
    }
}
