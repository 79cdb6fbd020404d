//! An HTTP server that takes batches of events and keeps them.

use std::fs;
use std::process::Command;

use serde::Deserialize;
use serde_json::Value;

use super::process::{Folder, Process};

/// A request as the server got it.
#[derive(Debug, Clone, Deserialize)]
pub struct Received {
    /// What was answered.
    pub status: u16,
    pub path: String,
    pub content_type: String,
    pub idempotency_key: Option<String>,
    pub size: usize,
    pub body: Value,
}

/// A running receiver.
#[derive(Debug)]
pub struct Receiver {
    // Before the folder: the server ends first.
    _process: Process,
    folder: Folder,
    port: u16,
}

impl Receiver {
    pub fn start() -> Self {
        let folder = Folder::new();
        fs::create_dir(folder.join("requests")).expect("a folder for requests");
        let mut command = Command::new("python3");
        command.arg(super::script("receiver.py")).arg(folder.path());
        let mut process = Process::start(&mut command, &folder.join("receiver.log"));
        let port = process.ready()["port"].as_u64().and_then(|port| port.try_into().ok());
        Self {
            _process: process,
            port: port.expect("the server says its port"),
            folder,
        }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/batch/", self.port)
    }

    /// The next answers: statuses, each with what Retry-After says, if anything. After them everything is fine again.
    pub fn answer(&self, answers: &[&str]) {
        fs::write(self.folder.join("answers"), answers.join("\n")).expect("the server is told");
    }

    /// From now on answers have bodies without an end.
    pub fn be_endless(&self) {
        fs::write(self.folder.join("manner"), "endless").expect("the server is told");
    }

    /// All requests so far, oldest first.
    pub fn requests(&self) -> Vec<Received> {
        let files = fs::read_dir(self.folder.join("requests")).expect("the folder of requests");
        let paths = files.map(|file| file.expect("a request").path());
        let mut finished: Vec<_> = paths
            .filter(|path| path.extension().is_some_and(|end| end == "json"))
            .collect();
        finished.sort();
        let read = |path| serde_json::from_slice(&fs::read(path).expect("a request")).expect("a request as JSON");
        finished.iter().map(read).collect()
    }
}
