//! A gateway's stream of Server-Sent Events, as far as the load reads it.

use anyhow::{Context, Result};
use h2::RecvStream;
use serde::Deserialize;

use crate::rest::Rest;

/// A frame, with what the load looks at.
#[derive(Debug, Deserialize)]
pub(super) struct Frame {
    #[serde(default)]
    pub(super) message: Message,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Message {
    #[serde(default)]
    pub(super) attributes: Attributes,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Attributes {
    pub(super) mark: Option<String>,
}

/// An open stream.
pub(super) struct Frames {
    body: RecvStream,
    unread: Vec<u8>,
}

impl Frames {
    /// Opens a gateway's stream.
    pub(super) async fn open(rest: &Rest, gateway: &str) -> Result<Self> {
        let body = rest.stream(&format!("/internal/v1/gateways/{gateway}/stream")).await?;
        Ok(Self { body, unread: Vec::new() })
    }

    /// The frames that come next.
    pub(super) async fn next(&mut self) -> Result<Vec<Frame>> {
        let data = self.body.data().await.context("the stream has ended")??;
        self.body.flow_control().release_capacity(data.len())?;
        self.unread.extend_from_slice(&data);
        let whole = self.unread.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = self.unread.drain(..whole).collect();
        let lines = lines.split(|byte| *byte == b'\n');
        let frames = lines.filter_map(|line| line.strip_prefix(b"data:"));
        frames.map(|frame| Ok(serde_json::from_slice(frame)?)).collect()
    }
}
