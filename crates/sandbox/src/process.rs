//! A child process, as its parent sees it.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Pid, setpriority_process};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Duration, Instant, timeout, timeout_at};

use crate::limits::{NICE, NICEST};
use crate::wire::{self, Report};
use crate::{Failure, Layers, Limits, Program, Reservation};

/// How much of what a child writes to its standard error is kept: the end of it.
const ERRORS_KEPT: usize = 4096;

/// How long a child that closed its output may take to end.
const TIME_TO_END: Duration = Duration::from_secs(2);

/// What a child says takes so much: as it was written, and what is made of it.
pub(crate) const WEIGHT: usize = 2;
/// What is kept to read lines into.
const LINE_KEPT: usize = 64 * 1024;

/// Lines on their way to a child, and the memory they take.
pub(crate) struct Lines(pub(crate) String, pub(crate) Option<Arc<Reservation>>);

/// A running child. Dropped, it is killed.
pub(crate) struct Process {
    child: Child,
    input: UnboundedSender<Lines>,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
    /// What a line of it may have, in bytes.
    longest: usize,
    /// What the line takes that is being read; none: it is not counted.
    memory: Option<Reservation>,
    errors: Arc<Mutex<Vec<u8>>>,
    /// Bytes that were sent and that the child has not taken yet.
    unread: Arc<AtomicUsize>,
}

/// For the allocator: it takes memory in small portions, as there is a limit to it, and asks the system nothing about the machine.
const ALLOCATOR: [(&str, &str); 2] = [("MIMALLOC_ARENA_RESERVE", "32MiB"), ("MIMALLOC_USE_NUMA_NODES", "1")];

impl Process {
    /// Starts a child, and tells it its limits. It is good for work once it has said what the system keeps from it.
    pub(crate) async fn start(program: &Program, limits: &Limits) -> Result<(Self, Layers), Failure> {
        let mut process = Self::spawn(program)?;
        process.send(limits);
        match process.report(Instant::now() + limits.load_time).await {
            Ok(Report::Confined(layers)) => Ok((process, layers)),
            Ok(_) => Err(Failure::unexpected_message()),
            Err(failure) => Err(failure),
        }
    }

    /// A process with nothing of ours: no environment, no files, no terminal.
    fn spawn(program: &Program) -> Result<Self, Failure> {
        let mut command = Command::new(&program.path);
        command
            .args(&program.args)
            .env_clear()
            .envs(ALLOCATOR)
            .current_dir("/")
            .kill_on_drop(true);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|_| Failure::Crashed("its process did not start".to_owned()))?;
        let (input, lines) = unbounded_channel();
        let errors = Arc::new(Mutex::new(Vec::new()));
        let unread = Arc::new(AtomicUsize::new(0));
        tokio::spawn(feed(child.stdin.take().expect("it is piped"), lines, unread.clone()));
        tokio::spawn(drain(child.stderr.take().expect("it is piped"), errors.clone()));
        let output = BufReader::with_capacity(64 * 1024, child.stdout.take().expect("it is piped"));
        Ok(Self {
            child,
            input,
            output,
            line: Vec::new(),
            longest: LINE_KEPT,
            memory: None,
            errors,
            unread,
        })
    }

    /// From here on, a line may have so many bytes.
    pub(crate) fn expect_lines_of(&mut self, longest: usize) {
        self.longest = longest;
    }

    /// Each level leaves it about four fifths of what the one before does.
    pub(crate) fn lower_priority(&self, rank: u32) {
        let nice = i32::try_from(rank).map_or(NICEST, |rank| NICE.saturating_add(rank.saturating_mul(2)).min(NICEST));
        let id = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        if let Some(id) = id {
            // Refused if it was of a lower rank before.
            let _ = setpriority_process(Some(id), nice);
        }
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub(crate) fn send(&self, message: &impl Serialize) {
        self.send_lines(Lines(wire::line(message), None));
    }

    /// Sends an answer; its memory is free when the child has taken it.
    pub(crate) fn send_answer(&self, answer: String, memory: Arc<Reservation>) {
        memory.settle(answer.len());
        self.send_lines(Lines(answer, Some(memory)));
    }

    /// A child that is gone is noticed where its next report is awaited.
    pub(crate) fn send_lines(&self, lines: Lines) {
        self.unread.fetch_add(lines.0.len(), Ordering::Relaxed);
        drop(self.input.send(lines));
    }

    /// Counts what the child says next in this. Answers with what counts what it has said.
    pub(crate) fn count_in(&mut self, memory: Reservation) -> Option<Reservation> {
        self.memory.replace(memory)
    }

    /// How much waits to be read by the child, in bytes.
    pub(crate) fn unread(&self) -> usize {
        self.unread.load(Ordering::Relaxed)
    }

    /// The next thing the child says. May be dropped while it waits.
    pub(crate) async fn report(&mut self, deadline: Instant) -> Result<Report, Failure> {
        let is_whole = timeout_at(deadline, self.read_line())
            .await
            .map_err(|_| Failure::TooSlow)??;
        if !is_whole {
            return Err(self.how_it_ended().await);
        }
        let report = serde_json::from_slice(&self.line);
        self.line.clear();
        self.line.shrink_to(LINE_KEPT);
        report.map_err(|_| Failure::Crashed("its process sent an invalid message".to_owned()))
    }

    /// Reads to the end of a line; false at the end of the output.
    async fn read_line(&mut self) -> Result<bool, Failure> {
        let broken = |_| Failure::Crashed("its process cannot be read from".to_owned());
        loop {
            let chunk = tokio::select! {
                chunk = self.output.fill_buf() => chunk.map_err(broken)?,
                () = is_ended(self.memory.as_ref()) => return Err(Failure::Evicted),
            };
            if chunk.is_empty() {
                return Ok(false);
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(chunk.len(), |end| end + 1);
            if let Some(memory) = &self.memory {
                let length = self.line.len() + taken;
                memory.take(WEIGHT * length, WEIGHT * self.longest).await;
            }
            self.line.extend_from_slice(&chunk[..taken]);
            self.output.consume(taken);
            if self.line.len() > self.longest {
                return Err(Failure::Crashed("its process wrote too much output".to_owned()));
            }
            if end.is_some() {
                return Ok(true);
            }
        }
    }

    async fn how_it_ended(&mut self) -> Failure {
        match timeout(TIME_TO_END, self.child.wait()).await {
            Ok(Ok(status)) => self.meaning_of(status),
            Ok(Err(_)) | Err(_) => Failure::Crashed("its process closed its output".to_owned()),
        }
    }

    fn meaning_of(&self, status: ExitStatus) -> Failure {
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let errors = String::from_utf8_lossy(&errors);
        match status.signal() {
            Some(libc::SIGXCPU) => return Failure::TooSlow,
            Some(libc::SIGSYS) => {
                tracing::error!("blocked a forbidden system call from an app: it may be an attack");
                return Failure::Forbidden;
            }
            _ => {}
        }
        if errors.contains("memory allocation of") {
            return Failure::TooMuchMemory;
        }
        match status.signal() {
            Some(signal) => Failure::Crashed(format!("its process ended with signal {signal}")),
            None => Failure::Crashed(format!("its process ended with {status}")),
        }
    }

    pub(crate) async fn kill(&mut self) {
        drop(timeout(TIME_TO_END, self.child.kill()).await);
    }
}

/// Waits until others need the memory more than what an app sends and does not go on.
pub(crate) async fn is_ended(memory: Option<&Reservation>) {
    match memory {
        Some(memory) => memory.is_ended().await,
        None => std::future::pending().await,
    }
}

async fn feed(mut input: ChildStdin, mut lines: UnboundedReceiver<Lines>, unread: Arc<AtomicUsize>) {
    while let Some(Lines(text, _memory)) = lines.recv().await {
        if input.write_all(text.as_bytes()).await.is_err() {
            return;
        }
        unread.fetch_sub(text.len(), Ordering::Relaxed);
    }
}

/// Reads what nobody may wait for, so that the child never waits for a reader.
async fn drain(mut output: impl AsyncRead + Unpin, kept: Arc<Mutex<Vec<u8>>>) {
    let mut chunk = [0; 1024];
    while let Ok(read @ 1..) = output.read(&mut chunk).await {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&chunk[..read]);
        let excess = kept.len().saturating_sub(ERRORS_KEPT);
        kept.drain(..excess);
    }
}
