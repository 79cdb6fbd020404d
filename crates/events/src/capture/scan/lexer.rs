//! Follows JSON as it comes, and picks out what may be the token.

use std::io::{self, Write};

use memchr::memchr2;

use crate::capture::refusal::MAX_PACKED_BYTES;

/// How much text is read in search of a token. All plain bodies are shorter; only what was compressed may be longer.
pub const MAX_SCANNED_BYTES: usize = MAX_PACKED_BYTES;
/// No parser of ours goes deeper.
const MAX_DEPTH: usize = 127;
/// Tokens and the names of fields are shorter.
const MAX_CAPTURED: usize = 256;
/// Names like `token` may be the sender's own; so many of them are looked up.
const MAX_CANDIDATES: usize = 8;

/// A text that may be the token of the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub token: String,
    /// If this is not a token, then the body has none that is.
    pub is_only: bool,
}

/// How far the search has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// More may follow.
    Searching,
    /// The only token there can be was found.
    Found,
    /// It is packed in a way that can be read only as a whole.
    Opaque,
    /// There is no token in the part that is searched.
    NotFound,
    /// Nothing can be made of it.
    Damaged,
}

/// What a field is called, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Name {
    ApiKey,
    Token,
    DollarToken,
    Batch,
    Properties,
    #[default]
    Other,
}

impl Name {
    fn read(text: &[u8]) -> Self {
        match text {
            b"api_key" => Self::ApiKey,
            b"token" => Self::Token,
            b"$token" => Self::DollarToken,
            b"batch" => Self::Batch,
            b"properties" => Self::Properties,
            _ => Self::Other,
        }
    }
}

/// Follows JSON byte by byte as far as it takes to know where a string stands. Damaged JSON is the parser's business.
#[derive(Debug, Default)]
pub(super) struct Lexer {
    pub(super) seen: usize,
    pub(super) has_started: bool,
    pub(super) depth: usize,
    /// For each depth whether an object stands there; else it is an array.
    objects: u128,
    /// The field that is being read at each of the first depths.
    names: [Name; 5],
    expects_name: bool,
    string: Option<Text>,
    captured: usize,
    pub(super) candidates: Vec<Candidate>,
    pub(super) stopped: Option<Progress>,
}

/// A string that is being read.
#[derive(Debug)]
struct Text {
    is_escaped: bool,
    /// What was read of it, if it matters.
    bytes: Option<Vec<u8>>,
}

impl Write for Lexer {
    /// An error ends the decoder that writes here, however much it has left.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.seen += bytes.len();
        if self.stopped.is_none() {
            self.read(bytes);
        }
        if self.stopped.is_none() && self.seen > MAX_SCANNED_BYTES {
            self.stopped = Some(Progress::NotFound);
        }
        match self.stopped {
            None => Ok(bytes.len()),
            Some(_) => Err(io::Error::other("nothing more is wanted")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lexer {
    fn read(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() && self.stopped.is_none() {
            if self.string.is_some() {
                at += self.read_string(&bytes[at..]);
                continue;
            }
            let byte = bytes[at];
            at += 1;
            match byte {
                b'{' | b'[' => self.open(byte == b'{'),
                _ if byte.is_ascii_whitespace() => {}
                _ if self.has_started && self.depth == 0 => self.stopped = Some(Progress::Damaged),
                _ if self.depth == 0 => self.stopped = Some(Progress::Opaque),
                b'}' | b']' => {
                    self.depth -= 1;
                    self.expects_name = false;
                }
                b',' => self.expects_name = self.is_object(self.depth),
                b':' => self.expects_name = false,
                b'"' => self.start_string(),
                _ => {}
            }
        }
    }

    fn open(&mut self, is_object: bool) {
        self.has_started = true;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            self.stopped = Some(Progress::Damaged);
            return;
        }
        let bit = 1 << self.depth;
        self.objects = if is_object {
            self.objects | bit
        } else {
            self.objects & !bit
        };
        self.expects_name = is_object;
        if let Some(name) = self.names.get_mut(self.depth) {
            *name = Name::Other;
        }
    }

    fn start_string(&mut self) {
        let is_wanted = match self.names.get_mut(self.depth) {
            Some(name) if self.expects_name => {
                *name = Name::Other;
                true
            }
            _ => self.token_name().is_some(),
        };
        self.string = Some(Text {
            is_escaped: false,
            bytes: is_wanted.then(Vec::new),
        });
    }

    fn is_object(&self, depth: usize) -> bool {
        self.objects & (1 << depth) != 0
    }

    /// How deep the events stand that are being read.
    fn event_depth(&self) -> usize {
        if !self.is_object(1) {
            2
        } else if self.names[1] == Name::Batch && self.depth > 2 {
            3
        } else {
            1
        }
    }

    /// The name of the field that is being read, if it may hold the token.
    fn token_name(&self) -> Option<Name> {
        let name = *self.names.get(self.depth)?;
        let event = self.event_depth();
        if self.expects_name || !self.is_object(self.depth) || !self.is_object(event) {
            return None;
        }
        let is_of_event = self.depth == event && matches!(name, Name::ApiKey | Name::Token | Name::DollarToken);
        let is_of_properties = self.depth == event + 1 && self.names[event] == Name::Properties && name == Name::Token;
        (is_of_event || is_of_properties).then_some(name)
    }

    /// Reads until the end of the string or of the bytes, and says how far that is.
    fn read_string(&mut self, bytes: &[u8]) -> usize {
        let Some(text) = &mut self.string else { return 0 };
        if text.is_escaped {
            text.is_escaped = false;
            text.push(&bytes[..1]);
            return 1;
        }
        let Some(end) = memchr2(b'"', b'\\', bytes) else {
            text.push(bytes);
            return bytes.len();
        };
        text.push(&bytes[..end]);
        if bytes[end] == b'\\' {
            text.push(b"\\");
            text.is_escaped = true;
        } else if let Some(captured) = self.string.take().and_then(|text| text.bytes) {
            self.end_string(&captured);
        }
        end + 1
    }

    fn end_string(&mut self, text: &[u8]) {
        if self.expects_name {
            self.names[self.depth] = Name::read(text);
            return;
        }
        let Some(name) = self.token_name() else { return };
        let quoted = [b"\"", text, b"\""].concat();
        let Ok(token) = serde_json::from_slice::<String>(&quoted) else {
            return;
        };
        let token = token.trim();
        if token.is_empty() {
            return;
        }
        // The body's own field wins over all others, and of a list all events have the same token.
        let is_only = name == Name::ApiKey && (self.depth == 1 || !self.is_object(1));
        if self.depth != 1 && !is_only {
            self.captured += 1;
            if self.captured > MAX_CANDIDATES {
                return;
            }
        }
        self.candidates.push(Candidate {
            token: token.to_owned(),
            is_only,
        });
        if is_only || self.candidates.len() > 2 * MAX_CANDIDATES {
            self.stopped = Some(Progress::Found);
        }
    }
}

impl Text {
    /// Too long a text is none that matters.
    fn push(&mut self, more: &[u8]) {
        if let Some(bytes) = &mut self.bytes {
            if bytes.len() + more.len() > MAX_CAPTURED {
                self.bytes = None;
            } else {
                bytes.extend_from_slice(more);
            }
        }
    }
}
