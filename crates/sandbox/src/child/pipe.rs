//! The child's end of the pipe.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Stdin, Write, stdin, stdout};
use std::process::exit;

use crate::wire::{Report, line};

pub(crate) struct Pipe {
    input: RefCell<BufReader<Stdin>>,
}

impl Pipe {
    pub(crate) fn new() -> Self {
        Self {
            input: RefCell::new(BufReader::with_capacity(64 * 1024, stdin())),
        }
    }

    /// The next line; none when the parent has nothing more to say.
    pub(crate) fn read(&self) -> Option<String> {
        let mut line = String::new();
        match self.input.borrow_mut().read_line(&mut line) {
            Ok(1..) => Some(line),
            Ok(0) | Err(_) => None,
        }
    }

    pub(crate) fn report(&self, report: &Report) {
        self.write(&line(report));
    }

    /// Writes a line immediately. A parent that no longer reads has no use for a child.
    #[expect(
        clippy::unused_self,
        reason = "there is one output, and whoever writes to it holds the pipe"
    )]
    pub(crate) fn write(&self, line: &str) {
        let mut output = stdout().lock();
        if output.write_all(line.as_bytes()).and_then(|()| output.flush()).is_err() {
            exit(0);
        }
    }
}
