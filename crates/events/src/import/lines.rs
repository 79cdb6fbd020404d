//! JSON lines.

use std::io::{self, BufRead, Read};

use super::item::{Item, expect_no_reserved_name};
use super::row::Row;
use crate::{Incoming, Time};

/// A line longer than this is no event, and is not held in memory.
const MAX: u64 = 64 << 20;

pub(super) struct Lines<R> {
    input: R,
    now: Time,
    number: u64,
    line: Vec<u8>,
    has_failed: bool,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R, now: Time) -> Self {
        Self {
            input,
            now,
            number: 0,
            line: Vec::new(),
            has_failed: false,
        }
    }

    /// False: there are no more lines.
    fn read_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        self.input.by_ref().take(MAX).read_until(b'\n', &mut self.line)?;
        Ok(!self.line.is_empty())
    }

    fn is_cut(&self) -> bool {
        self.line.len() as u64 == MAX && !self.line.ends_with(b"\n")
    }

    fn skip_rest(&mut self) -> io::Result<()> {
        while self.is_cut() {
            self.read_line()?;
        }
        Ok(())
    }

    fn parse(&self) -> Result<Incoming, String> {
        expect_no_reserved_name(&self.line)?;
        let item: Item = serde_json::from_slice(&self.line).map_err(|error| match error.classify() {
            serde_json::error::Category::Data => format!("not an event: {error}"),
            _ => format!("not valid JSON: {error}"),
        })?;
        item.into_incoming(self.now)
    }

    fn next_row(&mut self) -> io::Result<Option<Row>> {
        while self.read_line()? {
            self.number += 1;
            if self.is_cut() {
                self.skip_rest()?;
                return Ok(Some((self.number, Err("line longer than 64 MiB".to_owned()))));
            }
            if !self.line.trim_ascii().is_empty() {
                return Ok(Some((self.number, self.parse())));
            }
        }
        Ok(None)
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        if self.has_failed {
            return None;
        }
        self.next_row().unwrap_or_else(|error| {
            self.has_failed = true;
            Some((
                self.number + 1,
                Err(format!("the rest of the file cannot be read: {error}")),
            ))
        })
    }
}
