//! Finds a team's token in a body while it arrives, and keeps nothing of the rest: until the token is known, nobody
//! knows who sends.

mod lexer;
#[cfg(test)]
mod tests;

use std::io::Write;

use flate2::write::MultiGzDecoder;

use self::lexer::Lexer;
pub use self::lexer::{Candidate, MAX_SCANNED_BYTES, Progress};
use super::unpack::{GZIP, most_packed};

/// So much of it is read whatever the body is. More is read only of what was not compressed better than events ever are:
/// who makes us read much has to send something for it.
pub const FIRST_SCANNED_BYTES: usize = 512 * 1024;
const MAX_TIMES_PACKED: usize = 64;
/// No more than half a megabyte comes out of so many bytes of gzip.
const UNPACKED_AT_ONCE: usize = 512;

/// The search through one body.
#[derive(Debug)]
pub struct TokenScan {
    source: Source,
    progress: Progress,
    /// How many bytes came so far, packed.
    fed: usize,
}

#[derive(Debug)]
enum Source {
    /// Nothing has come yet that tells.
    Unknown(Vec<u8>),
    Plain(Lexer),
    Gzip(Box<MultiGzDecoder<Lexer>>),
}

impl Default for TokenScan {
    fn default() -> Self {
        Self {
            source: Source::Unknown(Vec::new()),
            progress: Progress::Searching,
            fed: 0,
        }
    }
}

/// How large a body may be that has so many bytes when it is packed, for it to be searched.
pub fn most_scanned(packed: usize) -> usize {
    packed
        .saturating_mul(MAX_TIMES_PACKED)
        .clamp(FIRST_SCANNED_BYTES, MAX_SCANNED_BYTES)
}

impl TokenScan {
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// Whether reading these bytes means to unpack them, which may take much longer than it took to send them.
    pub fn will_unpack(&self, bytes: &[u8]) -> bool {
        match &self.source {
            Source::Unknown(start) => start.first().or(bytes.first()) == GZIP.first(),
            Source::Plain(_) => false,
            Source::Gzip(_) => true,
        }
    }

    /// How much text was read so far.
    pub fn seen(&self) -> usize {
        self.lexer().map_or(0, |lexer| lexer.seen)
    }

    /// Reads on until there were about half a megabyte of text, and says how many of the bytes that took.
    pub fn feed_some(&mut self, bytes: &[u8]) -> usize {
        let (before, mut taken) = (self.seen(), 0);
        for piece in bytes.chunks(UNPACKED_AT_ONCE) {
            taken += piece.len();
            if self.feed(piece) != Progress::Searching || self.seen() - before >= FIRST_SCANNED_BYTES {
                break;
            }
        }
        taken
    }

    /// Reads on. What came before need not be kept.
    pub fn feed(&mut self, bytes: &[u8]) -> Progress {
        if self.progress != Progress::Searching {
            return self.progress;
        }
        self.fed += bytes.len();
        self.read(bytes);
        if self.progress == Progress::Searching {
            self.progress = self.limited();
        }
        self.progress
    }

    /// Whether it is worth to read on: nobody packs so well, or so badly.
    fn limited(&self) -> Progress {
        let is_gzip = matches!(self.source, Source::Gzip(_));
        if self.seen() > most_scanned(self.fed) {
            Progress::NotFound
        } else if is_gzip && self.fed > most_packed(self.seen()) {
            Progress::Damaged
        } else {
            Progress::Searching
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        let result = match &mut self.source {
            Source::Unknown(start) => {
                start.extend_from_slice(bytes);
                if start.len() < GZIP.len() {
                    return;
                }
                let start = std::mem::take(start);
                self.source = if start.starts_with(&GZIP) {
                    Source::Gzip(Box::new(MultiGzDecoder::new(Lexer::default())))
                } else {
                    Source::Plain(Lexer::default())
                };
                return self.read(&start);
            }
            Source::Plain(lexer) => lexer.write_all(bytes),
            Source::Gzip(decoder) => decoder.write_all(bytes),
        };
        self.note(result.is_ok());
    }

    /// All of the body has come.
    pub fn end(&mut self) -> Progress {
        if self.progress == Progress::Searching {
            let result = match &mut self.source {
                Source::Unknown(_) => Ok(()),
                Source::Plain(lexer) => lexer.flush(),
                Source::Gzip(decoder) => decoder.try_finish(),
            };
            self.note(result.is_ok());
            if self.progress == Progress::Searching {
                self.progress = match self.lexer() {
                    Some(lexer) if lexer.has_started && lexer.depth == 0 => Progress::NotFound,
                    Some(lexer) if lexer.has_started => Progress::Damaged,
                    _ => Progress::Opaque,
                };
            }
        }
        self.progress
    }

    /// What was found since the last time.
    pub fn candidates(&mut self) -> Vec<Candidate> {
        let lexer = match &mut self.source {
            Source::Unknown(_) => return Vec::new(),
            Source::Plain(lexer) => lexer,
            Source::Gzip(decoder) => decoder.get_mut(),
        };
        std::mem::take(&mut lexer.candidates)
    }

    fn lexer(&self) -> Option<&Lexer> {
        match &self.source {
            Source::Unknown(_) => None,
            Source::Plain(lexer) => Some(lexer),
            Source::Gzip(decoder) => Some(decoder.get_ref()),
        }
    }

    fn note(&mut self, is_ok: bool) {
        let stopped = self.lexer().and_then(|lexer| lexer.stopped);
        self.progress = stopped.unwrap_or(if is_ok { Progress::Searching } else { Progress::Damaged });
    }
}
