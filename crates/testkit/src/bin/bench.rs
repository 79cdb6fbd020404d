//! Helpers of `cargo xtask bench`: the bare handler that is the limit, and large amounts of made-up data.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use axum::Router;
use axum::http::header;
use axum::routing::any;
use bytes::Bytes;
use clap::Parser;

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
        } => {
            let organization = testkit::seed::fill(&database_url, organizations, members).await?;
            serde_json::to_writer(std::io::stdout(), &serde_json::json!({ "organization": organization }))?;
            Ok(())
        }
    }
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
