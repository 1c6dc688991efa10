//! The bytes of a connection, with and without TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// A connection's bytes.
#[derive(Debug)]
pub(crate) enum Stream {
    /// Plain bytes on the wire.
    Plain(TcpStream),
    /// Encrypted on the wire, decrypted in memory.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Wraps a TLS connection whose handshake is over.
    pub(crate) fn tls(stream: impl Into<TlsStream<TcpStream>>) -> Self {
        Self::Tls(Box::new(stream.into()))
    }

    /// Returns the underlying socket.
    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }

    /// Returns whether there is nothing to read: no byte, no end, no error. TLS messages such as session tickets do not
    /// count.
    pub(crate) fn is_silent(&mut self) -> bool {
        let mut byte = [0_u8; 1];
        match self {
            Self::Plain(stream) => {
                matches!(stream.try_read(&mut byte), Err(e) if e.kind() == io::ErrorKind::WouldBlock)
            }
            Self::Tls(stream) => {
                let mut context = Context::from_waker(Waker::noop());
                Pin::new(stream)
                    .poll_read(&mut context, &mut ReadBuf::new(&mut byte))
                    .is_pending()
            }
        }
    }

    /// Writes as many bytes as possible without waiting; returns their number.
    ///
    /// # Errors
    /// If the connection is broken.
    pub(crate) fn write_now(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => match stream.try_write(bytes) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(0),
                written => written,
            },
            Self::Tls(stream) => {
                let mut context = Context::from_waker(Waker::noop());
                match Pin::new(stream).poll_write(&mut context, bytes) {
                    Poll::Ready(written) => written,
                    Poll::Pending => Ok(0),
                }
            }
        }
    }

    /// Returns whether the kernel has all written bytes.
    pub(crate) fn is_flushed(&self) -> bool {
        match self {
            Self::Plain(_) => true,
            Self::Tls(stream) => !stream.get_ref().1.wants_write(),
        }
    }

    /// Writes bytes until the kernel has all of them.
    ///
    /// # Errors
    /// If the connection is broken.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes).await?;
        self.flush().await
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, into),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, into),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
