//! Finds a project's token in a body while it arrives, and keeps nothing of the rest: until the token is known, nobody
//! knows who sends.

use std::io::{self, Write};

use flate2::write::MultiGzDecoder;
use memchr::memchr2;

use super::unpack::GZIP;

/// How much text is read in search of a token. All plain bodies are shorter; only what was compressed may be longer.
pub const MOST_SCANNED_BYTES: usize = super::MOST_PACKED_BYTES;
/// So much of it is read whatever the body is. More is read only of what was not compressed better than events ever are:
/// who makes us read much has to send something for it.
pub const FIRST_SCANNED_BYTES: usize = 512 * 1024;
const MOST_TIMES_PACKED: usize = 64;
/// No more than half a megabyte comes out of so many bytes of gzip.
const UNPACKED_AT_ONCE: usize = 512;
/// No parser of ours goes deeper.
const MOST_DEPTH: usize = 127;
/// Tokens and the names of fields are shorter.
const MOST_CAPTURED: usize = 256;
/// Names like `token` may be the sender's own; so many of them are looked up.
const MOST_CANDIDATES: usize = 8;

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
        .saturating_mul(MOST_TIMES_PACKED)
        .clamp(FIRST_SCANNED_BYTES, MOST_SCANNED_BYTES)
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
        if self.progress == Progress::Searching && self.seen() > most_scanned(self.fed) {
            self.progress = Progress::NotFound;
        }
        self.progress
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
struct Lexer {
    seen: usize,
    has_started: bool,
    depth: usize,
    /// For each depth whether an object stands there; else it is an array.
    objects: u128,
    /// The field that is being read at each of the first depths.
    names: [Name; 5],
    expects_name: bool,
    string: Option<Text>,
    captured: usize,
    candidates: Vec<Candidate>,
    stopped: Option<Progress>,
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
        if self.stopped.is_none() && self.seen > MOST_SCANNED_BYTES {
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
        if self.depth > MOST_DEPTH {
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
            if self.captured > MOST_CANDIDATES {
                return;
            }
        }
        self.candidates.push(Candidate {
            token: token.to_owned(),
            is_only,
        });
        if is_only || self.candidates.len() > 2 * MOST_CANDIDATES {
            self.stopped = Some(Progress::Found);
        }
    }
}

impl Text {
    /// Too long a text is none that matters.
    fn push(&mut self, more: &[u8]) {
        if let Some(bytes) = &mut self.bytes {
            if bytes.len() + more.len() > MOST_CAPTURED {
                self.bytes = None;
            } else {
                bytes.extend_from_slice(more);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;

    use super::*;

    /// What is found in a body that comes in parts of this size.
    fn scan(body: &[u8], part: usize) -> (Vec<Candidate>, Progress) {
        let mut scan = TokenScan::default();
        let mut found = Vec::new();
        for part in body.chunks(part) {
            scan.feed(part);
            found.append(&mut scan.candidates());
        }
        let progress = scan.end();
        found.append(&mut scan.candidates());
        (found, progress)
    }

    fn tokens(body: &str) -> Vec<String> {
        let (found, _) = scan(body.as_bytes(), 7);
        found.into_iter().map(|candidate| candidate.token).collect()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_token_is_found_where_it_counts_and_nowhere_else() {
        for (body, expected) in [
            (r#"{"api_key":"t","batch":[]}"#, vec!["t"]),
            (
                r#"{"batch":[{"event":"e","properties":{"a":[{"token":"no"}]}}],"api_key":" t "}"#,
                vec!["t"],
            ),
            (r#"{ "token" : "t" , "event":"token"}"#, vec!["t"]),
            (r#"[{"event":"e","$token":"t"}]"#, vec!["t"]),
            (
                r#"{"event":"e","properties":{"distinct_id":"d","token":"t"}}"#,
                vec!["t"],
            ),
            (
                r#"{"batch":[{"properties":{"token":"own"}},{"api_key":"u"}],"api_key":"t"}"#,
                vec!["own", "u", "t"],
            ),
            (
                r#"{"properties":{"$set":{"token":"no"},"api_key":"no"},"x":{"api_key":"no"}}"#,
                vec![],
            ),
            (r#"{"api_key":"","token":null,"$token":7,"event":"e"}"#, vec![]),
            (
                r#"{"event":"\"api_key\":\"no\"","distinct_id":"\\","api_key":"\u0074"}"#,
                vec!["t"],
            ),
            (r#"{"x":["api_key","no"],"api_key":["no"]}"#, vec![]),
        ] {
            assert_eq!(tokens(body), expected, "{body}");
        }
        let long = format!(r#"{{"{}":"no","api_key":"t"}}"#, "x".repeat(1000));
        assert_eq!(tokens(&long), ["t"]);
    }

    #[test]
    fn only_what_nothing_else_can_outrank_is_the_only_token() {
        for (body, is_only) in [
            (r#"{"api_key":"t","#, true),
            (r#"[{"api_key":"t","#, true),
            (r#"{"token":"t","#, false),
            (r#"{"properties":{"token":"t"},"#, false),
            (r#"{"batch":[{"api_key":"t"},"#, false),
        ] {
            let (found, progress) = scan(body.as_bytes(), 100);
            assert_eq!(found[0].is_only, is_only, "{body}");
            assert_eq!(progress == Progress::Found, is_only, "{body}");
        }
    }

    #[test]
    fn it_reads_gzip_and_says_what_it_cannot_read() {
        let (found, progress) = scan(&gzip(br#"{"event":"e","api_key":"t"}"#), 3);
        assert_eq!((found[0].token.as_str(), progress), ("t", Progress::Found));
        for (body, expected) in [
            (b"eyJhIjoxfQ==".to_vec(), Progress::Opaque),
            (b"data=x".to_vec(), Progress::Opaque),
            (gzip(b"data=x"), Progress::Opaque),
            (gzip(b"  "), Progress::Opaque),
            (b" ".to_vec(), Progress::Opaque),
            (b"{}x".to_vec(), Progress::Damaged),
            (br#"{"a":"#.to_vec(), Progress::Damaged),
            ("[".repeat(1000).into(), Progress::Damaged),
            (gzip(b"{}")[..12].to_vec(), Progress::Damaged),
            (br#"{"event":"e"}"#.to_vec(), Progress::NotFound),
        ] {
            assert_eq!(scan(&body, 5), (vec![], expected), "{}", String::from_utf8_lossy(&body));
        }
    }

    #[test]
    fn a_body_that_unpacks_to_much_is_not_read_to_its_end() {
        let mut bomb = br#"{"event":""#.to_vec();
        bomb.resize(3 * MOST_SCANNED_BYTES, b'x');
        let (found, progress) = scan(&gzip(&bomb), 4096);
        assert_eq!((found, progress), (vec![], Progress::NotFound));
    }

    #[test]
    fn who_makes_us_read_much_has_to_send_something_for_it() {
        let late = |filler: &str, count: usize| {
            let body = format!(r#"{{"a":[{}],"api_key":"t"}}"#, vec![filler; count].join(","));
            (gzip(body.as_bytes()), body.len())
        };
        let (tiny, size) = late("1", 2_000_000);
        assert!(size > 3_000_000 && tiny.len() < size / 64, "{}", tiny.len());
        let (found, progress) = scan(&tiny, 4096);
        assert_eq!((found, progress), (vec![], Progress::NotFound));
        let mut search = TokenScan::default();
        search.feed_some(&tiny);
        assert!(search.seen() < 3 * FIRST_SCANNED_BYTES, "{}", search.seen());
        let (short, _) = late("1", 200_000);
        assert_eq!(
            scan(&short, 4096).1,
            Progress::Found,
            "the first part is searched in any case"
        );
        let words: Vec<String> = (0..200_000_u64).map(|n| (n * n * 7_919).to_string()).collect();
        let (usual, size) = late(&words.join(","), 1);
        assert!(size > 2_000_000 && usual.len() > size / 64);
        assert_eq!(scan(&usual, 4096).1, Progress::Found);
    }

    proptest! {
        #[test]
        fn parts_make_no_difference(text in r#"[\[\]{}",:\\a-z_ ]{0,80}"#, part in 1_usize..9) {
            let body = format!(r#"{{"token":"t",{text}"api_key":"u"}}"#);
            prop_assert_eq!(scan(body.as_bytes(), part), scan(body.as_bytes(), 1000));
        }
    }
}
