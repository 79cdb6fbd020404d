//! The least a server can do that keeps what it is sent: it appends bodies to a file, flushes, and answers.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Router, body::Bytes};
use tokio::sync::{mpsc, oneshot};

/// One body, and who waits until it is on the disk.
struct Entry {
    body: Bytes,
    is_kept: oneshot::Sender<()>,
}

/// Serves until it is killed. It parses nothing and checks no token.
pub async fn journal(listen: SocketAddr, file: &Path) -> anyhow::Result<()> {
    let file = OpenOptions::new().create(true).append(true).open(file)?;
    let (sender, receiver) = mpsc::channel(4096);
    let writer = tokio::task::spawn_blocking(move || write(file, receiver));
    let app = Router::new()
        .route("/", axum::routing::get(|| async { StatusCode::OK }))
        .route("/batch/", post(keep))
        .layer(DefaultBodyLimit::max(64 << 20))
        .with_state(sender);
    let listener = tokio::net::TcpListener::bind(listen).await?;
    tokio::select! {
        served = async { axum::serve(listener, app).await } => Ok(served?),
        written = writer => Ok(written??),
    }
}

async fn keep(State(writer): State<mpsc::Sender<Entry>>, body: Bytes) -> Response {
    let (is_kept, kept) = oneshot::channel();
    if writer.send(Entry { body, is_kept }).await.is_err() || kept.await.is_err() {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    ([(header::CONTENT_TYPE, "application/json")], r#"{"status":1}"#).into_response()
}

/// All bodies that have come while the disk was busy share the next flush.
fn write(mut file: File, mut entries: mpsc::Receiver<Entry>) -> std::io::Result<()> {
    while let Some(first) = entries.blocking_recv() {
        let mut waiting = vec![first];
        while let Ok(next) = entries.try_recv() {
            waiting.push(next);
        }
        for entry in &waiting {
            file.write_all(&entry.body)?;
        }
        file.sync_data()?;
        for entry in waiting {
            // Whoever has hung up does not hear of it.
            let _ = entry.is_kept.send(());
        }
    }
    Ok(())
}
