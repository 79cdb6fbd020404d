//! What a server sends, checked before the driver gets it.
//!
//! The driver asks the server about each type that it does not know, and about the types that it consists of, one question within
//! the other: a server that answers with ever new types makes the stack overflow, which ends the process. The driver also keeps
//! all rows and settings, and the text of errors goes to the log. A genuine server answers our statements within these limits.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_postgres::types::Type;

/// The type of a message, one byte, and the length of what follows, which includes itself.
const HEAD: usize = 5;
const MAX_LENGTH: usize = 64 * 1024;
/// A statement can have as many parameters as two bytes count.
const MAX_OF_PARAMETERS: usize = 2 + 4 * u16::MAX as usize;
/// Of one connection, as are the settings.
const MAX_ROWS: usize = 20_000;
/// The driver has 24 bytes for each value, of which the shortest has 4.
const MAX_BYTES_OF_ROWS: usize = 2 * 1024 * 1024;
const MAX_SETTINGS: usize = 200;
/// Of one statement: until a connection is ready, the driver keeps them.
const MAX_NOTICES: usize = 1_000;

const ROW: u8 = b'D';
const SETTING: u8 = b'S';
const NOTICE: u8 = b'N';
const NOTIFICATION: u8 = b'A';
const READY: u8 = b'Z';
const COLUMNS: u8 = b'T';
const PARAMETERS: u8 = b't';

/// A stream of messages, past TLS.
pub(super) struct Checked<S> {
    stream: S,
    messages: Messages,
}

impl<S> Checked<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            messages: Messages::default(),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Checked<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        match self.messages.check(&buffer.filled()[before..]) {
            Ok(()) => polled,
            Err(reason) => Poll::Ready(Err(io::Error::other(reason))),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Checked<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl<S: TlsStream + Unpin> TlsStream for Checked<S> {
    fn channel_binding(&self) -> ChannelBinding {
        self.stream.channel_binding()
    }
}

/// Makes TLS connections whose messages are checked.
pub(super) struct CheckedTls<T>(pub(super) T);

impl<S, T> TlsConnect<S> for CheckedTls<T>
where
    T: TlsConnect<S>,
    T::Future: Send + 'static,
{
    type Stream = Checked<T::Stream>;
    type Error = T::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Stream, Self::Error>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        let connecting = self.0.connect(stream);
        Box::pin(async move { connecting.await.map(Checked::new) })
    }
}

/// How far the messages have come.
#[derive(Debug, Default)]
struct Messages {
    head: Vec<u8>,
    /// Of a message that describes types.
    body: Vec<u8>,
    /// Bytes of the message that have not come yet, once its head has.
    left: usize,
    rows: usize,
    bytes_of_rows: usize,
    settings: usize,
    notices: usize,
}

impl Messages {
    fn check(&mut self, mut bytes: &[u8]) -> Result<(), &'static str> {
        while !bytes.is_empty() {
            let is_head = self.head.len() < HEAD;
            let missing = if is_head { HEAD - self.head.len() } else { self.left };
            let (part, rest) = bytes.split_at(missing.min(bytes.len()));
            bytes = rest;
            if is_head {
                self.head.extend_from_slice(part);
                if self.head.len() < HEAD {
                    return Ok(());
                }
                self.start()?;
            } else {
                self.left -= part.len();
                if matches!(self.head[0], COLUMNS | PARAMETERS) {
                    self.body.extend_from_slice(part);
                }
            }
            if self.left == 0 {
                self.end()?;
            }
        }
        Ok(())
    }

    fn start(&mut self) -> Result<(), &'static str> {
        let length: [u8; 4] = self.head[1..].try_into().expect("a head is a type and four bytes");
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        self.left = length
            .checked_sub(4)
            .ok_or("the server sends a message without a length")?;
        match self.head[0] {
            ROW => {
                self.rows += 1;
                self.bytes_of_rows += self.left;
            }
            SETTING => self.settings += 1,
            NOTICE | NOTIFICATION => self.notices += 1,
            READY => self.notices = 0,
            _ => {}
        }
        let longest = if self.head[0] == PARAMETERS {
            MAX_OF_PARAMETERS
        } else {
            MAX_LENGTH
        };
        if self.left > longest {
            return Err("the server sends a longer message than any answer has");
        }
        let are_too_many = self.rows > MAX_ROWS || self.settings > MAX_SETTINGS || self.notices > MAX_NOTICES;
        if are_too_many || self.bytes_of_rows > MAX_BYTES_OF_ROWS {
            return Err("the server sends more than it was asked for");
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), &'static str> {
        let types = match self.head[0] {
            COLUMNS => types_of_columns(&self.body),
            PARAMETERS => types_of_parameters(&self.body),
            _ => Some(Vec::new()),
        };
        let are_known = |types: Vec<u32>| types.into_iter().all(|oid| Type::from_oid(oid).is_some());
        if !types.is_some_and(are_known) {
            return Err("the server refers to a type that no statement uses");
        }
        self.head.clear();
        self.body.clear();
        Ok(())
    }
}

/// Of each column: the name, its table and number there, the type, its size and modifier, and the format.
fn types_of_columns(body: &[u8]) -> Option<Vec<u32>> {
    let (_, mut rest) = body.split_first_chunk::<2>()?;
    let mut types = Vec::new();
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == 0)?;
        let (facts, after) = rest[end + 1..].split_first_chunk::<18>()?;
        types.push(u32::from_be_bytes(facts[6..10].try_into().ok()?));
        rest = after;
    }
    Some(types)
}

fn types_of_parameters(body: &[u8]) -> Option<Vec<u32>> {
    let (_, rest) = body.split_first_chunk::<2>()?;
    let (types, rest) = rest.as_chunks::<4>();
    rest.is_empty()
        .then(|| types.iter().map(|oid| u32::from_be_bytes(*oid)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[kind], &length[..], body].concat()
    }

    fn columns(types: &[u32]) -> Vec<u8> {
        let mut body = u16::try_from(types.len()).unwrap().to_be_bytes().to_vec();
        for oid in types {
            body.extend(b"a name\0\0\0\0\0\0\0");
            body.extend(oid.to_be_bytes());
            body.extend([0; 8]);
        }
        message(COLUMNS, &body)
    }

    /// The same whether it comes in one piece or byte by byte.
    fn check(sent: &[u8]) -> bool {
        let whole = Messages::default().check(sent).is_ok();
        let mut messages = Messages::default();
        let bytes = sent.chunks(1).try_for_each(|byte| messages.check(byte)).is_ok();
        assert_eq!(whole, bytes);
        whole
    }

    #[test]
    fn answers_with_known_types_pass() {
        let known = [Type::TEXT, Type::INT8, Type::NAME, Type::BOOL].map(|known| known.oid());
        let parameters = message(PARAMETERS, &[&[0, 1], &Type::TEXT.oid().to_be_bytes()[..]].concat());
        let all = [
            message(b'1', b""),
            parameters,
            columns(&known),
            columns(&[]),
            message(ROW, b"\0\x01\0\0\0\x01x"),
            message(b'Z', b"I"),
        ];
        assert!(check(&all.concat()));
    }

    #[test]
    fn types_that_the_driver_would_ask_about_are_refused() {
        let parameters = message(PARAMETERS, &[&[0, 1], &90_000_u32.to_be_bytes()[..]].concat());
        let cut = message(COLUMNS, b"\0\x01name\0\0");
        for refused in [columns(&[Type::TEXT.oid(), 90_000]), parameters, cut] {
            assert!(!check(&refused));
        }
    }

    #[test]
    fn more_than_any_answer_is_refused() {
        assert!(check(&message(ROW, &vec![0; MAX_LENGTH])));
        let many = Type::TEXT.oid().to_be_bytes().repeat(u16::MAX.into());
        assert!(check(&message(PARAMETERS, &[&[0xff, 0xff], &many[..]].concat())));
        assert!(!check(&message(ROW, &vec![0; MAX_LENGTH + 1])));
        assert!(!check(&[b'E', 0, 0, 0, 3]));
        assert!(check(&message(ROW, &[0, 0]).repeat(MAX_ROWS)));
        assert!(!check(&message(ROW, &[0, 0]).repeat(MAX_ROWS + 1)));
        let wide = message(ROW, &vec![0; MAX_LENGTH]);
        let wide = wide.repeat(MAX_BYTES_OF_ROWS / MAX_LENGTH + 1);
        assert!(Messages::default().check(&wide).is_err());
        assert!(!check(&message(SETTING, b"a\0b\0").repeat(MAX_SETTINGS + 1)));
        let notices = message(NOTICE, b"\0").repeat(MAX_NOTICES);
        let ready = message(READY, b"I");
        assert!(check(&[&notices[..], &ready, &notices].concat()));
        assert!(!check(
            &[&notices[..], &message(NOTIFICATION, b"\0\0\0\0a\0b\0")].concat()
        ));
    }
}
