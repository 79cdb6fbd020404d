//! Where apps are read and opened.

use std::sync::Arc;

use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use crate::budget::Budgets;
use crate::fair_queue::{FairQueue, Reader};
use crate::limits::GRACE;
use crate::process::{Lines, Process};
use crate::spares::Spares;
use crate::wire::{Report, Task, line};
use crate::{Failure, Fault, Files, Host, Instance, Json, Layers, Limits, Meta, Program, Reading, Strictness, Unread};

/// An app beyond these sizes is refused unread. Whoever stores apps has limits of its own below these.
const MAX_FILES: usize = 5000;
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Reads apps and opens them, each in a process of its own. Clones share their limits.
#[derive(Debug, Clone)]
pub struct Sandbox {
    program: Program,
    limits: Arc<Limits>,
    strictness: Strictness,
    readings: FairQueue,
    instances: Arc<Semaphore>,
    budgets: Budgets,
    spares: Spares,
}

impl Sandbox {
    pub fn new(program: Program, limits: Limits) -> Self {
        Self {
            program,
            readings: FairQueue::new(limits.readings),
            instances: Arc::new(Semaphore::new(limits.instances)),
            budgets: Budgets::default(),
            spares: Spares::default(),
            limits: Arc::new(limits),
            strictness: Strictness::default(),
        }
    }

    /// The same, with this much asked of the system.
    #[must_use]
    pub fn with(self, strictness: Strictness) -> Self {
        Self { strictness, ..self }
    }

    /// Which layers hold here.
    pub async fn check(&self) -> Result<Layers, Failure> {
        let (mut process, layers) = Process::start(&self.program, &self.limits).await?;
        process.kill().await;
        Ok(layers)
    }

    /// Whether apps run with these layers.
    pub fn takes(&self, layers: &Layers) -> bool {
        layers.are_enough(self.strictness)
    }

    /// What is started for each app.
    pub fn program(&self) -> &Program {
        &self.program
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Reads an app for nobody in particular.
    pub async fn read(&self, files: &Files) -> Result<Reading, Fault> {
        match self.read_for(Uuid::nil(), 0, files).await {
            Ok(reading) => Ok(reading),
            Err(Unread::Fault(fault)) => Err(fault),
            Err(busy @ Unread::Busy) => Err(Fault::new(busy.to_string())),
        }
    }

    /// Reads an app: transpiles it, loads it and finds what it offers. Of one person one is read at a time, and of one organization,
    /// unless it takes long.
    pub async fn read_for(&self, organization: Uuid, person: i64, files: &Files) -> Result<Reading, Unread> {
        check_size(files)?;
        let longest = 2 * self.limits.load_time;
        let reader = Reader { organization, person };
        let mut turn = self.readings.take(reader, longest).await.ok_or(Unread::Busy)?;
        tokio::select! {
            reading = self.read_now(files) => Ok(reading?),
            () = turn.is_ended() => Err(Unread::Busy),
        }
    }

    async fn read_now(&self, files: &Files) -> Result<Reading, Fault> {
        let task: Task = Task::Read { files: files.clone() };
        match self.first_report(&task, Limits::MAX_READING).await {
            Ok((Report::Read(reading), _)) => Ok(*reading),
            Ok((Report::Fault(fault), _)) => Err(fault),
            Ok((Report::Failed(failure), _)) | Err(failure) => {
                Err(Fault::new(format!("the app cannot be loaded: {failure}")))
            }
            Ok(_) => Err(Fault::new(
                "the app cannot be validated: unexpected message from its process",
            )),
        }
    }

    /// Starts a process with the app loaded, ready for calls.
    pub async fn open(&self, code: &impl Serialize, meta: Meta, host: Arc<dyn Host>) -> Result<Instance, Failure> {
        let place = self.place(&self.instances).await?;
        let process = self.start_for_calls().await?;
        let task = Lines(line(&Task::Open { code, meta }), None);
        Instance::open(process, task, self.limits.clone(), host, self.budgets.clone(), place).await
    }

    /// The same with code of so many bytes that is loaded when there is room for it. It is not kept here: it takes memory until the process
    /// has it. Its rank is that of [`Instance::lower_priority`].
    pub async fn open_loading(
        &self,
        (bytes, load): (usize, impl Future<Output = Result<Json, Failure>>),
        meta: Meta,
        host: Arc<dyn Host>,
        rank: u32,
    ) -> Result<Instance, Failure> {
        let place = self.place(&self.instances).await?;
        let process = self.start_for_calls().await?;
        process.lower_priority(rank);
        let memory = self.budgets.code.reserve_for(host.organization());
        // As it is loaded, and as it is sent.
        let room = timeout(self.limits.load_time, memory.take(2 * bytes, 2 * bytes)).await;
        room.map_err(|_| Failure::Busy)?;
        let code = tokio::select! {
            code = load => code?,
            () = memory.is_ended() => return Err(Failure::Busy),
        };
        let text = line(&Task::Open { code, meta });
        let task = Lines(text, Some(Arc::new(memory)));
        Instance::open(process, task, self.limits.clone(), host, self.budgets.clone(), place).await
    }

    /// Whoever opens an app opens others.
    async fn start_for_calls(&self) -> Result<Process, Failure> {
        let (process, _) = self.start(self.limits.longest_line()).await?;
        self.spares.refill(&self.program, &self.limits);
        Ok(process)
    }

    /// A place among those that may go on at once.
    async fn place(&self, places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Failure> {
        match timeout(self.limits.load_time, places.clone().acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) | Err(_) => Err(Failure::Busy),
        }
    }

    /// Starts a process that is kept apart as well as the operator wants it.
    async fn start(&self, longest: usize) -> Result<(Process, Layers), Failure> {
        let (mut process, layers) = match self.spares.take() {
            Some(spare) => spare,
            None => Process::start(&self.program, &self.limits).await?,
        };
        if self.takes(&layers) {
            process.expect_lines_of(longest);
            return Ok((process, layers));
        }
        process.kill().await;
        let missing: Vec<&str> = layers.missing().iter().map(|(layer, _)| layer.name()).collect();
        Err(Failure::Unconfined(missing.join(", ")))
    }

    async fn first_report(&self, task: &Task, longest: usize) -> Result<(Report, Process), Failure> {
        let (mut process, _) = self.start(longest).await?;
        process.send(task);
        let deadline = Instant::now() + self.limits.load_time + GRACE;
        match process.report(deadline).await {
            Ok(report) => Ok((report, process)),
            Err(failure) => {
                process.kill().await;
                Err(failure)
            }
        }
    }
}

fn check_size(files: &Files) -> Result<(), Fault> {
    let bytes: usize = files.iter().map(|(name, text)| name.len() + text.len()).sum();
    if files.len() > MAX_FILES {
        return Err(Fault::new(format!("an app has at most {MAX_FILES} files")));
    }
    if bytes > MAX_BYTES {
        return Err(Fault::new(format!("an app has at most {MAX_BYTES} bytes")));
    }
    let is_odd = |name: &&String| name.is_empty() || name.len() > 400 || name.contains(|c: char| c.is_control());
    match files.keys().find(is_odd) {
        Some(name) => Err(Fault::new(format!("{name:?} is not a valid file name"))),
        None => Ok(()),
    }
}
