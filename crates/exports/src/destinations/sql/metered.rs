//! A connection that takes in only so much.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The driver keeps a message in memory until it is whole, and the other side says how long it is. Answers to what we ask
/// are short: whoever sends more than this before the next question has something else in mind.
const MAX: usize = 16 * 1024 * 1024;

pub(super) struct Metered<S = TcpStream> {
    stream: S,
    left: usize,
}

impl<S> Metered<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, left: MAX }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left == 0 {
            return Poll::Ready(Err(io::Error::other("the server sends more than any answer is long")));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let read = buffer.filled().len() - before;
        self.left = self.left.saturating_sub(read);
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        // A delivery can have any number of statements, and each is answered.
        self.left = MAX;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn each_question_has_an_answer_of_its_own() {
        let (near, mut far) = duplex(64 * 1024);
        tokio::spawn(async move { while far.write_all(&[0; 8192]).await.is_ok() {} });
        let mut metered = Metered::new(near);
        let mut answer = vec![0; MAX];
        for _ in 0..2 {
            metered.write_all(b"a question").await.unwrap();
            metered.read_exact(&mut answer).await.unwrap();
        }
        assert!(metered.read_exact(&mut answer).await.is_err());
    }
}
