//! Tells what commits did: a caller may hold locks that the listener needs.

use std::sync::Arc;
use std::thread;

use clock::tasks;
use domain::{Offset, TopicId};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::front::Listening;
use crate::{Position, Result};

/// What one commit did.
pub(super) struct News {
    pub(super) ends: Vec<(TopicId, Offset)>,
    pub(super) position: Position,
    pub(super) answer: Option<oneshot::Sender<Result<Position>>>,
}

impl News {
    /// Answers the caller, then notifies the listener.
    fn tell(self, listening: &Listening) {
        if let Some(answer) = self.answer {
            // The caller may have stopped waiting.
            drop(answer.send(Ok(self.position)));
        }
        if !self.ends.is_empty() {
            listening.tell(|listener| listener.visible(&self.ends));
        }
    }
}

/// Starts the herald: a thread, or a task in a simulation. It ends when the sender is dropped.
pub(super) fn start(listening: Arc<Listening>) -> UnboundedSender<News> {
    let (sender, news) = unbounded_channel();
    if tasks::is_simulated() {
        drop(tasks::spawn("memory-herald", follow(news, listening)));
    } else {
        thread::spawn(move || run(news, &listening));
    }
    sender
}

fn run(mut news: UnboundedReceiver<News>, listening: &Listening) {
    while let Some(news) = news.blocking_recv() {
        news.tell(listening);
    }
}

async fn follow(mut news: UnboundedReceiver<News>, listening: Arc<Listening>) {
    while let Some(news) = news.recv().await {
        news.tell(&listening);
    }
}
