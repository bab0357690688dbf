//! The bytes below HTTP, in plaintext or over TLS.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use rustix::net::RecvFlags;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::sockets::SocketSlot;

/// A connection to an endpoint.
pub(super) enum Stream {
    Plain(Socket),
    Secure(Box<TlsStream<Socket>>),
}

/// A TCP connection that knows whether a request has started to go out.
///
/// Before the first byte of a request that is not the connection's first, it asks the system
/// whether the endpoint has closed the connection. The runtime may not have noticed yet, and once a
/// byte is written we cannot tell whether it was read.
pub(super) struct Socket {
    tcp: TcpStream,
    has_begun: Arc<AtomicBool>,
    /// Declared after the socket, so that it is released when that is closed.
    _place: SocketSlot,
}

impl Socket {
    pub(super) fn new(tcp: TcpStream, place: SocketSlot) -> Self {
        Self { tcp, has_begun: Arc::new(AtomicBool::new(true)), _place: place }
    }

    /// Writes, unless it would be the first byte and the endpoint is gone.
    fn write(
        &mut self,
        write: impl FnOnce(Pin<&mut TcpStream>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if self.has_begun.load(Ordering::Relaxed) {
            return write(Pin::new(&mut self.tcp));
        }
        if !self.is_quiet() {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        let written = write(Pin::new(&mut self.tcp));
        if matches!(written, Poll::Ready(Ok(_))) {
            self.has_begun.store(true, Ordering::Relaxed);
        }
        written
    }

    /// Whether nothing came in, neither bytes nor an end: between two requests nothing should.
    fn is_quiet(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let came = rustix::net::recv(&self.tcp, &mut [0_u8], flags);
        came.is_err_and(|error| error == rustix::io::Errno::WOULDBLOCK)
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(|tcp| tcp.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(|tcp| tcp.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(context)
    }
}

impl Stream {
    /// Whether a byte of the request has gone out. Set it to `false` before each request except the
    /// first.
    pub(super) fn has_begun(&self) -> Arc<AtomicBool> {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Secure(stream) => stream.get_ref().0,
        };
        Arc::clone(&socket.has_begun)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Secure(stream) => Pin::new(stream).poll_read(context, buffer),
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
            Self::Secure(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Secure(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Secure(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Secure(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Secure(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
