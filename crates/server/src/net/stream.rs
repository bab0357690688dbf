//! A connection's bytes: those read to find out the protocol are read again, a peer that stops
//! reading is noticed, and one that still sends when it has its answer gets to read it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::sockopt::set_tcp_user_timeout;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// What every HTTP/2 connection begins with.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How long a client that has its answer may go on sending. Were the connection closed before, the
/// system would tell it so, and it might never read why it was refused.
const LINGER_MAX: Duration = Duration::from_secs(2);

/// How much it may send then.
const LINGER_BYTES_MAX: usize = 32 << 20;

/// The protocol a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Http1,
    Http2,
}

/// Reads until it is clear which protocol the client speaks; `None` if it went away before.
pub(super) async fn detect(
    mut tcp: TcpStream,
    write_timeout: Duration,
) -> io::Result<Option<(Version, Stream)>> {
    let mut seen = Seen { bytes: [0; PREFACE.len()], from: 0, to: 0 };
    loop {
        let count = tcp.read(seen.bytes.get_mut(seen.to..).unwrap_or_default()).await?;
        if count == 0 {
            return Ok(None);
        }
        seen.to += count;
        let version = if !PREFACE.starts_with(seen.unread()) {
            Version::Http1
        } else if seen.to == PREFACE.len() {
            Version::Http2
        } else {
            continue;
        };
        // Pings find out about a silent HTTP/2 client; HTTP/1 has none.
        let write_timeout = (version == Version::Http1).then_some(write_timeout);
        if let Some(timeout) = write_timeout {
            end_if_gone(&tcp, timeout);
        }
        return Ok(Some((
            version,
            Stream { tcp, seen, write_timeout, stalled: None, lingering: None },
        )));
    }
}

/// A peer that is gone without a word takes no bytes, and the system would go on sending for a
/// quarter of an hour. A socket that cannot be set so still works.
fn end_if_gone(tcp: &TcpStream, timeout: Duration) {
    let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
    if let Err(error) = set_tcp_user_timeout(tcp, timeout_ms) {
        tracing::debug!(%error, "cannot set TCP_USER_TIMEOUT");
    }
}

/// A TCP stream that first gives back what `detect` read.
pub(super) struct Stream {
    tcp: TcpStream,
    seen: Seen,
    write_timeout: Option<Duration>,
    /// Runs while the peer takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    lingering: Option<Lingering>,
}

/// The answer is sent, and the client still sends what nobody wants.
struct Lingering {
    end: Pin<Box<Sleep>>,
    bytes: usize,
}

struct Seen {
    bytes: [u8; PREFACE.len()],
    from: usize,
    to: usize,
}

impl Seen {
    fn unread(&self) -> &[u8] {
        self.bytes.get(self.from..self.to).unwrap_or_default()
    }
}

impl Stream {
    /// Passes on how a write went; an error if the peer has taken nothing for too long.
    fn watch_write<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        let (Poll::Pending, Some(timeout)) = (&written, self.write_timeout) else {
            self.stalled = None;
            return written;
        };
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Throws away what comes, until the client ends or has had its time. Without anything on its
    /// way there is nothing to wait for.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut scratch = [0; 16 << 10];
        loop {
            let mut buffer = ReadBuf::new(&mut scratch);
            match Pin::new(&mut self.tcp).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => break,
            }
            let end = || Box::pin(tokio::time::sleep(LINGER_MAX));
            let lingering =
                self.lingering.get_or_insert_with(|| Lingering { end: end(), bytes: 0 });
            lingering.bytes += buffer.filled().len();
            if lingering.bytes > LINGER_BYTES_MAX {
                return Poll::Ready(());
            }
        }
        match &mut self.lingering {
            Some(lingering) => lingering.end.as_mut().poll(context),
            None => Poll::Ready(()),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.seen.from < this.seen.to {
            let unread = this.seen.unread();
            let count = unread.len().min(buffer.remaining());
            buffer.put_slice(unread.get(..count).unwrap_or_default());
            this.seen.from += count;
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut this.tcp).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write(context, bytes);
        self.watch_write(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write_vectored(context, slices);
        self.watch_write(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.tcp).poll_shutdown(context))?;
        self.poll_linger(context).map(Ok)
    }
}
