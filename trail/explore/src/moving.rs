//! A connection that ends if its client takes nothing for a while. Otherwise, a few clients that ask and never read would
//! hold every connection that the server has.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream whose writes fail after a standstill.
pub(crate) struct Moving<S> {
    stream: S,
    /// Called when the client took something.
    moved: Box<dyn Fn() + Send>,
    patience: Duration,
    /// Runs while a write waits.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> Moving<S> {
    pub(crate) fn new(stream: S, patience: Duration, moved: impl Fn() + Send + 'static) -> Self {
        Self {
            stream,
            moved: Box::new(moved),
            patience,
            until: None,
        }
    }

    /// Returns the result of a write, or an error if none has made progress for too long.
    fn within<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.until = None;
            return written;
        }
        let patience = self.patience;
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(until.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Moving<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Moving<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if matches!(written, Poll::Ready(Ok(_))) {
            (self.moved)();
        }
        self.within(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        if matches!(written, Poll::Ready(Ok(_))) {
            (self.moved)();
        }
        self.within(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.within(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.within(context, shut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    fn runtime() -> tokio::runtime::Runtime {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    }

    #[test]
    fn a_client_that_takes_nothing_loses_its_connection() {
        runtime().block_on(async {
            let (ours, _theirs) = tokio::io::duplex(8);
            let mut stream = Moving::new(ours, Duration::from_millis(20), || ());
            let error = stream.write_all(&[0; 9]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }

    #[test]
    fn whatever_a_client_takes_starts_the_time_again() {
        runtime().block_on(async {
            let (ours, mut theirs) = tokio::io::duplex(8);
            let mut stream = Moving::new(ours, Duration::from_secs(3600), || ());
            for _ in 0..3 {
                let full = stream.write(&[0; 8]).await.unwrap();
                assert_eq!((full, stream.until.is_some()), (8, false));
                let mut context = Context::from_waker(std::task::Waker::noop());
                let waits = Pin::new(&mut stream).poll_write(&mut context, &[0]);
                assert!(waits.is_pending() && stream.until.is_some());
                theirs.read_exact(&mut [0; 8]).await.unwrap();
            }
            stream.write_all(&[0]).await.unwrap();
            assert!(stream.until.is_none());
        });
    }
}
