//! A receiver that does what a test says.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Accepts connections and serves each as it is told.
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    accepts: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

/// One accepted connection.
pub(super) struct Call {
    pub(super) stream: TcpStream,
    /// Counted from 1.
    pub(super) number: usize,
}

impl Peer {
    #[expect(clippy::disallowed_methods, reason = "ended when the peer is dropped")]
    pub(super) async fn start<F, W>(serve: F) -> Self
    where
        F: Fn(Call) -> W + Send + Sync + 'static,
        W: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (count, accepts) = watch::channel(0);
        let serve = Arc::new(serve);
        let task = tokio::spawn(async move {
            let mut calls = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                count.send_modify(|count| *count += 1);
                let call = Call { stream, number: *count.borrow() };
                calls.spawn(serve(call));
            }
        });
        Self { address, accepts, task }
    }

    /// Answers every request with `answer`, connection by connection.
    pub(super) async fn answering(answer: &'static str) -> Self {
        Self::start(move |mut call| async move {
            while call.request().await.is_some() {
                call.write(answer).await;
            }
        })
        .await
    }

    /// Answers the first request with these bytes, and keeps the connection open.
    pub(super) async fn saying(answer: Vec<u8>) -> Self {
        Self::start(move |mut call| {
            let answer = answer.clone();
            async move {
                if call.request().await.is_some() {
                    call.stream.write_all(&answer).await.unwrap_or_default();
                    call.closed().await;
                }
            }
        })
        .await
    }

    pub(super) fn accepts(&self) -> usize {
        *self.accepts.borrow()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Call {
    /// The next request, head and body; `None` = the connection was closed.
    pub(super) async fn request(&mut self) -> Option<String> {
        let mut text = Vec::new();
        loop {
            let so_far = String::from_utf8_lossy(&text).into_owned();
            if let Some((head, body)) = so_far.split_once("\r\n\r\n")
                && body.len() >= content_length(head)
            {
                return Some(so_far);
            }
            let count = self.stream.read_buf(&mut text).await.unwrap_or(0);
            if count == 0 {
                return None;
            }
        }
    }

    pub(super) async fn write(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap_or_default();
    }

    /// Waits until the other side has closed the connection.
    pub(super) async fn closed(&mut self) {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).await.map(drop).unwrap_or_default();
    }

    /// Ends the connection with a reset instead of an orderly end.
    pub(super) fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }
}

fn content_length(head: &str) -> usize {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    let mut lengths = lines.filter(|(name, _)| *name == "content-length");
    lengths.next().map_or(0, |(_, value)| value.parse().unwrap())
}
