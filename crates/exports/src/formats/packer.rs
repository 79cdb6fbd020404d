//! Rows in, pieces of files out: chunks are encoded side by side and come out in order.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::chunks::{Chunk, Chunks};
use super::encoder::{Encoded, Encoder};
use super::file::{OpenFile, Piece};
use super::format::Format;
use crate::Error;

/// One delivery never has more chunks in the works, however many cores there are: each takes memory.
const MAX_AT_ONCE: usize = 4;
/// What chunks in the works weigh together, unless it is one alone. A heavy one is alone.
const MAX_WEIGHT: usize = 128 * 1024 * 1024;

/// A chunk that is being encoded.
struct InProgress {
    rows: usize,
    weight: usize,
    is_heavy: bool,
    work: JoinHandle<Result<Encoded, Error>>,
}

/// Makes the files of one delivery.
pub struct Packer {
    encoder: Arc<Encoder>,
    chunks: Chunks,
    in_progress: VecDeque<InProgress>,
    at_once: usize,
    file: Option<OpenFile>,
}

impl Packer {
    /// `notes` are kept in the files where the format has room for them.
    pub fn new(format: Format, schema: SchemaRef, notes: &[(&str, String)]) -> Result<Self, Error> {
        Ok(Self {
            encoder: Arc::new(Encoder::new(format, schema, notes)?),
            chunks: Chunks::new(format),
            in_progress: VecDeque::new(),
            // One more than can be encoded at a time, so that no core waits for the next.
            at_once: (cores() + 1).min(MAX_AT_ONCE),
            file: None,
        })
    }

    /// Takes rows, and gives out what is ready. It waits while enough is in the works.
    pub async fn write(&mut self, rows: &RecordBatch) -> Result<Vec<Piece>, Error> {
        let mut pieces = Vec::new();
        for chunk in self.chunks.push(rows) {
            self.encode(chunk);
            while self.has_enough() {
                self.take_next(&mut pieces).await?;
            }
        }
        Ok(pieces)
    }

    /// Gives out all the rest.
    pub async fn finish(&mut self) -> Result<Vec<Piece>, Error> {
        let mut pieces = Vec::new();
        if let Some(chunk) = self.chunks.rest() {
            self.encode(chunk);
        }
        while !self.in_progress.is_empty() {
            self.take_next(&mut pieces).await?;
        }
        if let Some(file) = self.file.take() {
            end(file, &mut pieces)?;
        }
        Ok(pieces)
    }

    fn has_enough(&self) -> bool {
        let weight: usize = self.in_progress.iter().map(|chunk| chunk.weight).sum();
        let is_heavy = self.in_progress.iter().any(|chunk| chunk.is_heavy);
        self.in_progress.len() > self.at_once || is_heavy || (self.in_progress.len() > 1 && weight > MAX_WEIGHT)
    }

    fn encode(&mut self, chunk: Chunk) {
        let encoder = self.encoder.clone();
        let (rows, weight, is_heavy) = (chunk.rows, chunk.weight, chunk.is_heavy());
        let work = async move {
            let _core = free_core().acquire().await;
            on_a_thread(move || encoder.encode(&chunk.batches)).await
        };
        let work = tokio::spawn(work);
        self.in_progress.push_back(InProgress {
            rows,
            weight,
            is_heavy,
            work,
        });
    }

    /// Puts the oldest chunk into its file, which ends if it is then large enough.
    async fn take_next(&mut self, pieces: &mut Vec<Piece>) -> Result<(), Error> {
        let Some(InProgress { rows, work, .. }) = self.in_progress.pop_front() else {
            return Ok(());
        };
        let chunk = work.await.map_err(broken)??;
        let (encoder, file) = (self.encoder.clone(), self.file.take());
        let (file, mut added) = on_a_thread(move || append(&encoder, file, chunk, rows)).await?;
        self.file = file;
        pieces.append(&mut added);
        Ok(())
    }
}

impl Drop for Packer {
    fn drop(&mut self) {
        for chunk in &self.in_progress {
            chunk.work.abort();
        }
    }
}

fn append(
    encoder: &Encoder,
    file: Option<OpenFile>,
    chunk: Encoded,
    rows: usize,
) -> Result<(Option<OpenFile>, Vec<Piece>), Error> {
    let mut pieces = Vec::new();
    let mut file = if let Some(file) = file {
        file
    } else {
        let (file, first) = OpenFile::begin(encoder)?;
        pieces.push(Piece::Bytes(first));
        file
    };
    pieces.push(Piece::Bytes(file.append(chunk, rows)?));
    if encoder.format.largest_file.is_some_and(|largest| file.bytes >= largest) {
        end(file, &mut pieces)?;
        return Ok((None, pieces));
    }
    Ok((Some(file), pieces))
}

fn end(file: OpenFile, pieces: &mut Vec<Piece>) -> Result<(), Error> {
    let (last, facts) = file.finish()?;
    pieces.extend([Piece::Bytes(last), Piece::End(facts)]);
    Ok(())
}

async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(broken)?
}

fn broken(cause: tokio::task::JoinError) -> Error {
    Error::retryable("the server was interrupted while it wrote the rows", cause)
}

/// All deliveries together encode on as many threads as there are cores.
fn free_core() -> &'static Semaphore {
    static CORES: OnceLock<Semaphore> = OnceLock::new();
    CORES.get_or_init(|| Semaphore::new(cores()))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
