//! The child's end of the pipe.

use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader, Stdin, Write, stdin, stdout};
use std::process::exit;
use std::time::{Duration, Instant};

use crate::wire::{Report, line};

/// How long, and how many bytes of, deferrable messages are buffered before they are written.
const MAX_WAIT: Duration = Duration::from_millis(5);
const MAX_WAITING: usize = 32 * 1024;

pub(crate) struct Pipe {
    input: RefCell<BufReader<Stdin>>,
    /// Lines that were not written yet: each write wakes the parent.
    waiting: RefCell<Vec<u8>>,
    written: Cell<Instant>,
}

impl Pipe {
    pub(crate) fn new() -> Self {
        Self {
            input: RefCell::new(BufReader::with_capacity(64 * 1024, stdin())),
            waiting: RefCell::default(),
            written: Cell::new(Instant::now()),
        }
    }

    /// The next line; none when the parent has nothing more to say.
    pub(crate) fn read(&self) -> Option<String> {
        if !self.input.borrow().buffer().contains(&b'\n') {
            // The parent may wait for what it has not been told.
            self.flush();
        }
        let mut line = String::new();
        match self.input.borrow_mut().read_line(&mut line) {
            Ok(1..) => Some(line),
            Ok(0) | Err(_) => None,
        }
    }

    pub(crate) fn report(&self, report: &Report) {
        self.write(&line(report));
    }

    /// Writes a line immediately, and those that wait before it.
    pub(crate) fn write(&self, line: &str) {
        self.waiting.borrow_mut().extend_from_slice(line.as_bytes());
        self.flush();
    }

    /// Writes a line together with those after it. It is lost if the process is killed before that.
    pub(crate) fn write_later(&self, line: &str) {
        self.waiting.borrow_mut().extend_from_slice(line.as_bytes());
        if self.waiting.borrow().len() > MAX_WAITING || self.written.get().elapsed() > MAX_WAIT {
            self.flush();
        }
    }

    /// A parent that no longer reads has no use for a child.
    fn flush(&self) {
        let mut waiting = self.waiting.borrow_mut();
        self.written.set(Instant::now());
        if waiting.is_empty() {
            return;
        }
        let mut output = stdout().lock();
        if output.write_all(&waiting).and_then(|()| output.flush()).is_err() {
            exit(0);
        }
        waiting.clear();
        waiting.shrink_to(MAX_WAITING);
    }
}
