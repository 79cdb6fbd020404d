//! Helpers of `cargo xtask bench`: the bare handler that is the limit, and large amounts of made-up data.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use axum::Router;
use axum::http::header;
use axum::routing::any;
use bytes::Bytes;
use clap::Parser;
use serde_json::{Value, json};
use testkit::bench::{self, Form, Load};
use testkit::seed::SeedSizes;

#[derive(Debug, Parser)]
enum Command {
    /// Answer every request with the bytes of a file, by the same HTTP library.
    Floor {
        #[arg(long)]
        listen: SocketAddr,
        #[arg(long)]
        body_file: PathBuf,
    },
    /// Fill a database that `hedgerow migrate` has made, and print the organization to ask about as JSON.
    Seed {
        #[arg(long)]
        database_url: String,
        #[arg(long)]
        organizations: i64,
        #[arg(long)]
        members: i64,
        #[arg(long, default_value_t = 0)]
        exports: i64,
    },
    /// Fill an embedded store with made-up events.
    Fill {
        #[arg(long)]
        store: PathBuf,
        #[arg(long)]
        rows: u64,
    },
    /// Count the events of a team in an embedded store.
    Count {
        #[arg(long)]
        store: PathBuf,
        #[arg(long)]
        team: i64,
    },
    /// Deliver what `fill` made, and print what it took.
    Deliver {
        #[arg(long)]
        store: PathBuf,
        /// Where files go.
        #[arg(long)]
        root: PathBuf,
        #[arg(long)]
        form: Form,
        /// To an S3 server of its own instead.
        #[arg(long)]
        s3: bool,
    },
    /// Answer requests to `/batch/` as soon as their bodies are in a file, and do nothing else.
    Journal {
        #[arg(long)]
        listen: SocketAddr,
        #[arg(long)]
        file: PathBuf,
    },
    /// Send events to `/batch/`, and print how many were taken.
    Ingest(Load),
    /// Hand events to an app, and print what it took.
    Apps,
    /// Hold many configurations that have nothing to do, and print what that takes.
    IdleApps {
        #[arg(long)]
        configs: i64,
    },
    /// Make many hourly exports on the PostgreSQL server of `TESTKIT_POSTGRES`, and print what a tick takes.
    Schedule {
        #[arg(long)]
        exports: i64,
    },
    /// The same, and carry out all runs.
    CarryOut {
        #[arg(long)]
        exports: i64,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Floor { listen, body_file } => floor(listen, body_file).await,
        Command::Seed {
            database_url,
            organizations,
            members,
            exports,
        } => {
            let amounts = SeedSizes {
                organizations,
                members,
                exports,
            };
            let organization = testkit::seed::fill(&database_url, amounts).await?;
            print(&json!({ "organization": organization }))
        }
        Command::Fill { store, rows } => bench::fill(&store, rows).await,
        Command::Count { store, team } => print(&json!({ "events": bench::count(&store, team).await? })),
        Command::Deliver { store, root, form, s3 } => print(&bench::deliver(&store, &root, form, s3).await?),
        Command::Journal { listen, file } => bench::journal(listen, &file).await,
        Command::Ingest(load) => print(&bench::ingest(&load).await?),
        Command::Apps => print(&Box::pin(bench::apps()).await?),
        Command::IdleApps { configs } => print(&Box::pin(bench::idle_apps(configs)).await?),
        Command::CarryOut { exports } => print(&bench::carry_out(exports).await?),
        Command::Schedule { exports } => print(&bench::schedule(exports).await?),
    }
}

fn print(value: &Value) -> anyhow::Result<()> {
    Ok(serde_json::to_writer(std::io::stdout(), value)?)
}

async fn floor(listen: SocketAddr, body_file: PathBuf) -> anyhow::Result<()> {
    let body = std::fs::read(&body_file).with_context(|| format!("cannot read {}", body_file.display()))?;
    let body = Bytes::from(body);
    let answer = move || {
        let body = body.clone();
        async move { ([(header::CONTENT_TYPE, "application/json")], body) }
    };
    let app = Router::new()
        .route("/", any(answer.clone()))
        .route("/{*path}", any(answer));
    let listener = tokio::net::TcpListener::bind(listen).await?;
    Ok(axum::serve(listener, app).await?)
}
