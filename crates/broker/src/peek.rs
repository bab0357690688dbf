//! Reading messages without taking them: no lease, no attempt, no cursor change.

use std::sync::Arc;
use std::time::Duration;

use domain::delivery::RecordView;
use domain::{Filter, Moment, Offset, Record, SubscriptionName, Timestamp, TopicName};
use storage::{Batch, ReadLimit};

use crate::error::{Error, Result};
use crate::registry::Registry;
use crate::runtime::Runtime;
use crate::source::read_some;
use crate::subscription::Subscription;
use crate::topic::Topic;

/// Maximum number of offsets examined for one answer.
const LOOKED_THROUGH_MAX: u64 = 20_000;

/// Approximate bytes of messages in one answer.
const PAGE_BYTES_MAX: usize = 8 << 20;

/// The longest a caller may wait for a message.
pub const WAIT_MAX: Duration = Duration::from_secs(30);

/// Where to look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PeekFrom {
    /// At the first one kept; for a subscription, the first one not settled.
    #[default]
    Earliest,
    /// After the last.
    Latest,
    /// At this offset.
    Offset(Offset),
    /// At the first published at this time or later.
    Time(Timestamp),
}

/// What to read.
#[derive(Clone, Debug, Default)]
pub struct Peek {
    /// Where to start.
    pub from: PeekFrom,
    /// Only messages that match.
    pub filter: Option<Filter>,
    /// Maximum number in one answer.
    pub limit: usize,
    /// How long to wait for the first if there is none yet.
    pub wait: Duration,
}

/// A message that was read.
#[derive(Clone, Debug)]
pub struct Peeked {
    /// The message.
    pub record: Record,
    /// Its state in the subscription; `None` if a topic is read.
    pub view: Option<RecordView>,
}

/// Messages, oldest first.
#[derive(Clone, Debug)]
pub struct PeekPage {
    /// The messages. May be empty although there are more.
    pub messages: Vec<Peeked>,
    /// Where to continue.
    pub next: Offset,
    /// Whether there is nothing after them yet.
    pub is_end: bool,
}

/// What is read.
struct View<'view> {
    topic: &'view Topic,
    subscription: Option<&'view Subscription>,
}

/// Reads messages without taking them.
pub(crate) struct Peeker {
    registry: Arc<Registry>,
}

impl Peeker {
    pub(crate) fn new(registry: Arc<Registry>) -> Self {
        Self { registry }
    }

    /// Reads the messages of a topic, including those addressed to one subscription.
    pub(crate) async fn topic(&self, name: &TopicName, peek: &Peek) -> Result<PeekPage> {
        let topic = self.registry.topic(name)?;
        View { topic: &topic, subscription: None }.look(peek).await
    }

    /// Reads the messages that a subscription has not settled and that pass its filter.
    pub(crate) async fn subscription(
        &self,
        name: &SubscriptionName,
        peek: &Peek,
    ) -> Result<PeekPage> {
        let subscription = self.registry.subscription(name)?;
        if subscription.settings().detached {
            let why = format!("subscription {name} is detached from its topic and has no messages");
            return Err(Error::FailedPrecondition(why));
        }
        let topic = Arc::clone(subscription.topic());
        View { topic: &topic, subscription: Some(&*subscription) }.look(peek).await
    }
}

impl View<'_> {
    async fn look(&self, peek: &Peek) -> Result<PeekPage> {
        let Runtime { clock, .. } = &**self.topic.runtime();
        self.topic.runtime().check_serving()?;
        let deadline = clock.now().plus(peek.wait.min(WAIT_MAX));
        let mut at = self.start(peek.from).await?;
        let looked_to = at.plus(LOOKED_THROUGH_MAX);
        loop {
            let visible = self.topic.watchers.notified();
            tokio::pin!(visible);
            visible.as_mut().enable();
            let page = self.read(at, looked_to, peek).await?;
            if !page.is_end || !page.messages.is_empty() || clock.now() >= deadline {
                return Ok(page);
            }
            at = page.next;
            self.wait(visible, deadline).await?;
        }
    }

    async fn wait(&self, visible: impl Future<Output = ()>, deadline: Moment) -> Result<()> {
        tokio::select! {
            biased;
            () = visible => {}
            () = self.topic.runtime().clock.sleep_until(deadline) => {}
        }
        self.topic.runtime().check_serving()
    }

    async fn start(&self, from: PeekFrom) -> Result<Offset> {
        let log = self.topic.log();
        let time = match from {
            PeekFrom::Latest => return Ok(log.end(self.topic.id())),
            PeekFrom::Offset(offset) => return Ok(offset),
            PeekFrom::Earliest => Timestamp(0),
            PeekFrom::Time(time) => time,
        };
        Ok(log.offset_at(self.topic.id(), time).await?)
    }

    /// Reads until there is enough, or the end.
    async fn read(&self, from: Offset, looked_to: Offset, peek: &Peek) -> Result<PeekPage> {
        let (mut messages, mut bytes, mut at) = (Vec::new(), 0, from);
        loop {
            at = self.subscription.map_or(at, |subscription| subscription.next_unsettled(at));
            let batch = self.batch(at).await?;
            if batch.covered.is_empty() {
                return Ok(PeekPage { messages, next: at, is_end: true });
            }
            at = batch.covered.to;
            for peeked in self.wanted(batch, peek) {
                if messages.len() >= peek.limit || bytes > PAGE_BYTES_MAX {
                    return Ok(PeekPage { messages, next: peeked.record.offset, is_end: false });
                }
                bytes += peeked.record.body.len();
                messages.push(peeked);
            }
            if at >= looked_to {
                return Ok(PeekPage { messages, next: at, is_end: false });
            }
        }
    }

    async fn batch(&self, at: Offset) -> Result<Batch> {
        const LIMIT: ReadLimit = ReadLimit { records: 1_000, bytes: 4 << 20 };
        let batch = read_some(&**self.topic.log(), self.topic.id(), at, LIMIT).await?;
        // Reading from memory never waits; yield so that others get their turn.
        tokio::task::coop::consume_budget().await;
        Ok(batch)
    }

    fn wanted(&self, batch: Batch, peek: &Peek) -> Vec<Peeked> {
        let is_wanted = |record: &Record| {
            let filter = peek.filter.as_ref();
            filter.is_none_or(|filter| filter.matches(&record.body) == Ok(true))
        };
        let records: Vec<_> = batch.records.into_iter().filter(is_wanted).collect();
        let Some(subscription) = self.subscription else {
            return records.into_iter().map(|record| Peeked { record, view: None }).collect();
        };
        let views = subscription.view_records(&records);
        let seen = records.into_iter().zip(views);
        let unsettled =
            seen.filter_map(|(record, view)| Some(Peeked { record, view: Some(view?) }));
        unsettled.collect()
    }
}
