//! One connection of a receiver: read, count, answer.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::parse::{Parsed, parse};
use super::tally::{Manner, Shared};

/// Room for a request of one message.
const READ_BYTES: usize = 8 << 10;

/// How long an endpoint that hangs takes to answer.
const HANG_TIME: Duration = Duration::from_secs(30);

const WELL: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";
const FAILED: &[u8] = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n";
const REFUSED: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Serves a port until dropped.
pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>) -> Result<()> {
    let mut connections = JoinSet::new();
    loop {
        let (socket, _) = listener.accept().await?;
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            // A sender that cuts its connection off shows by what does not arrive.
            drop(answer_all(socket, &shared).await);
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn answer_all(mut socket: TcpStream, shared: &Shared) -> Result<()> {
    let _connected = shared.connected();
    socket.set_nodelay(true)?;
    let mut read = BytesMut::with_capacity(READ_BYTES);
    let mut answers = Vec::new();
    loop {
        let missing = match take_all(&mut read, &mut answers, shared).await {
            Ok(missing) => missing,
            Err(error) => {
                shared.refuse(&error.context("a request was refused"));
                answers.extend_from_slice(REFUSED);
                return Ok(socket.write_all(&answers).await?);
            }
        };
        if !answers.is_empty() {
            socket.write_all(&answers).await?;
            answers.clear();
        }
        read.reserve(missing.max(READ_BYTES));
        if socket.read_buf(&mut read).await? == 0 {
            return Ok(());
        }
    }
}

/// Takes every whole request and collects the answers. Returns how much of the next is missing.
async fn take_all(read: &mut BytesMut, answers: &mut Vec<u8>, shared: &Shared) -> Result<usize> {
    loop {
        let (manner, bytes) = match parse(read)? {
            Parsed::Whole(request) => (shared.take(&request)?, request.bytes),
            Parsed::Partial { missing } => return Ok(missing),
        };
        read.advance(bytes);
        answers.extend_from_slice(match manner {
            Manner::Answers => WELL,
            Manner::Fails => FAILED,
            Manner::Hangs => {
                let _hangs = shared.hangs();
                sleep(HANG_TIME).await;
                WELL
            }
        });
    }
}
