//! Running a replay: letter by letter, in order, no faster than requested.
//!
//! There is no cursor: what is left to do is what is selected and not done, so an interrupted
//! replay continues where it was.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::delivery::Settings;
use domain::letter::{self, ORIGINAL_MESSAGE_ID};
use domain::replay::{Destination, Pace, in_order};
use domain::{Offset, Record, SubscriptionId, SubscriptionName, message};

use super::letters::LetterBox;
use super::replay::Run;
use super::{DeadLetterAdmin, LetterState};
use crate::error::{Error, Result};
use crate::handled_letters::Outgoing;
use crate::runtime::LogAccess;
use crate::subscription::Subscription;
use crate::topic::Topic;

/// How long to wait for space on a full disk before checking again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How a replay ended.
pub(super) enum Ended {
    Done,
    Cancelled,
}

/// A running replay.
pub(super) struct Work<'work> {
    pub(super) admin: &'work DeadLetterAdmin,
    pub(super) run: &'work Run,
    pub(super) letter_box: LetterBox,
}

/// Where the letters of a subscription go, or why they cannot.
type Target = Result<(Arc<Subscription>, Settings), String>;

/// A letter to replay.
struct Due {
    record: Record,
    source: Option<SubscriptionName>,
}

impl Work<'_> {
    /// Replays what is left. An error ends the replay, unless the server stops.
    pub(super) async fn go(&self) -> Result<Ended> {
        let (from, end) =
            self.admin.selection_range(&self.letter_box, &self.run.order.selection).await?;
        let end = end.min(self.run.order.until);
        self.count(from, end).await?;
        let mut pace = Pace::new(self.run.order.per_second, self.admin.access.clock.now());
        let mut at = from;
        loop {
            self.admin.access.check_serving()?;
            if self.letter_box.topic().is_deleted() {
                let name = self.letter_box.topic().name();
                let why = format!("dead letter topic {name} was deleted");
                return Err(Error::FailedPrecondition(why));
            }
            let stretch = self.admin.stretch(&self.letter_box, at, end).await?;
            let due = self.pick(stretch.letters);
            if let Some(ended) = self.send_all(due, &mut pace).await? {
                return Ok(ended);
            }
            match stretch.next {
                Some(next) => at = next,
                None => return Ok(Ended::Done),
            }
        }
    }

    /// Counts what is selected, whatever happened to it.
    async fn count(&self, from: Offset, end: Offset) -> Result<()> {
        let (mut at, mut total) = (from, 0);
        loop {
            let stretch = self.admin.stretch(&self.letter_box, at, end).await?;
            let is_selected = |(record, state): &&(Record, LetterState)| {
                *state != LetterState::Deleted && self.run.order.selection.wants(record)
            };
            total += stretch.letters.iter().filter(is_selected).count() as u64;
            match stretch.next {
                Some(next) if !self.run.is_cancelled() => at = next,
                _ => break,
            }
        }
        self.run.set_total(total);
        Ok(())
    }

    /// The letters to replay; the others are counted as skipped.
    fn pick(&self, letters: Vec<(Record, LetterState)>) -> Vec<Due> {
        let order = &self.run.order;
        let offsets: Vec<_> = letters.iter().map(|(record, _)| record.offset).collect();
        let sent = self.letter_box.letters().sent_by(self.run.id, &offsets);
        let mut due = Vec::new();
        let mut skipped = 0;
        for ((record, state), is_sent) in letters.into_iter().zip(sent) {
            if is_sent || state == LetterState::Deleted || !order.selection.wants(&record) {
                continue;
            }
            let goes = match state {
                LetterState::Waiting => true,
                LetterState::Acked => order.again || order.selection.is_by_name(),
                LetterState::Replayed => order.again,
                LetterState::Deleted => false,
            };
            if goes {
                let source = letter::subscription(&record.body);
                due.push(Due { record, source });
            } else {
                skipped += 1;
            }
        }
        self.run.note(self.admin.access.clock.wall(), |account| account.skipped += skipped);
        due
    }

    async fn send_all(&self, due: Vec<Due>, pace: &mut Pace) -> Result<Option<Ended>> {
        let targets = self.targets(&due);
        let lane = |due: &Due| place_in_lane(due, &targets);
        let mut due = in_order(due, lane).into_iter().peekable();
        while due.peek().is_some() {
            if self.wait(pace).await {
                return Ok(Some(Ended::Cancelled));
            }
            let step: Vec<_> = due.by_ref().take(pace.step()).collect();
            let sent = self.send(step, &targets).await?;
            pace.note(self.admin.access.clock.now(), sent);
        }
        Ok(None)
    }

    /// Waits until the next step is due. Returns whether the replay should end.
    async fn wait(&self, pace: &Pace) -> bool {
        loop {
            let changed = self.run.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let clock = &self.admin.access.clock;
            if self.run.is_cancelled() || pace.due() <= clock.now() {
                return self.run.is_cancelled();
            }
            tokio::select! {
                () = changed => {}
                () = clock.sleep_until(pace.due()) => {}
            }
        }
    }

    /// Sends some letters; returns how many.
    async fn send(
        &self,
        step: Vec<Due>,
        targets: &BTreeMap<SubscriptionName, Target>,
    ) -> Result<usize> {
        let mut sent = 0;
        let mut group: Vec<Outgoing> = Vec::new();
        let mut group_topic: Option<Arc<Topic>> = None;
        for due in step {
            match self.prepare(&due, targets) {
                Err(why) => self.note_failed(1, &due.record.offset.to_string(), &why),
                Ok((topic, outgoing)) => {
                    if let Some(before) = group_topic.replace(Arc::clone(&topic))
                        && before.id() != topic.id()
                    {
                        sent += self.commit(std::mem::take(&mut group), &before).await?;
                    }
                    group.push(outgoing);
                }
            }
        }
        if let Some(topic) = group_topic {
            sent += self.commit(group, &topic).await?;
        }
        Ok(sent)
    }

    /// Appends and records in one commit, once there is room for it.
    async fn commit(&self, group: Vec<Outgoing>, target: &Topic) -> Result<usize> {
        self.wait_for_room().await?;
        let (count, again) = (group.len(), self.run.order.again);
        let first = group.first().map(|one| one.offset.to_string()).unwrap_or_default();
        let append = |outgoing: Vec<Outgoing>, progress| {
            let messages = outgoing.into_iter().map(|one| (one.message, one.addressee));
            target.queue_addressed(messages, progress).map(|(_, receipt)| receipt)
        };
        let (letters, changed) = (self.letter_box.letters(), &self.admin.changed_letters);
        match letters.replay(changed, (self.run.id, again), group, append) {
            Ok((sent, receipt)) => {
                if let Some(receipt) = receipt {
                    receipt.await?;
                }
                self.run.note(self.admin.access.clock.wall(), |account| {
                    account.replayed += sent as u64;
                    account.skipped += (count - sent) as u64;
                });
                Ok(sent)
            }
            Err(Error::NotFound(resource, name)) => {
                let why = format!("{resource} {name} no longer exists");
                self.note_failed(count as u64, &first, &why);
                Ok(0)
            }
            Err(error) => Err(error),
        }
    }

    /// A full disk only delays a replay.
    async fn wait_for_room(&self) -> Result<()> {
        let LogAccess { log, clock, .. } = &self.admin.access;
        while !log.has_room() {
            match log.room().await {
                Err(storage::Error::Full) => {
                    let why = "waiting for disk space: free some, or ack stored messages";
                    self.run.note(clock.wall(), |account| {
                        account.error = Some(why.to_owned());
                    });
                    self.admin.changed.press();
                    clock.sleep_until(clock.now().plus(RETRY_AFTER)).await;
                    self.admin.access.check_serving()?;
                }
                other => {
                    other?;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn note_failed(&self, count: u64, message_id: &str, why: &str) {
        self.run.note(self.admin.access.clock.wall(), |account| {
            account.failed += count;
            let tell = || format!("dead letter {message_id}: {why}");
            account.error.get_or_insert_with(tell);
        });
    }

    fn targets(&self, due: &[Due]) -> BTreeMap<SubscriptionName, Target> {
        let mut targets = BTreeMap::new();
        for name in due.iter().filter_map(|due| due.source.as_ref()) {
            if !targets.contains_key(name) {
                targets.insert(name.clone(), self.target(name));
            }
        }
        targets
    }

    fn target(&self, name: &SubscriptionName) -> Target {
        let Ok(subscription) = self.admin.registry.subscription(name) else {
            return Err(format!("subscription {name} does not exist; create it to replay"));
        };
        let settings = subscription.settings();
        if settings.detached {
            return Err(format!("subscription {name} is detached from its topic"));
        }
        if subscription.topic().is_deleted() {
            return Err(format!("topic {} of subscription {name} is deleted", settings.topic));
        }
        let rules = subscription.rules();
        Ok((subscription, rules))
    }

    /// The message of a letter, and the topic to append it to.
    fn prepare(
        &self,
        due: &Due,
        targets: &BTreeMap<SubscriptionName, Target>,
    ) -> Result<(Arc<Topic>, Outgoing), String> {
        let Some(name) = &due.source else {
            return Err("it does not name the subscription that gave it up".to_owned());
        };
        let target = targets.get(name).ok_or_else(|| "it was not looked up".to_owned())?;
        let (subscription, _) = target.as_ref().map_err(Clone::clone)?;
        let offset = due.record.offset;
        let message = message::decode(&due.record.body).map_err(|error| error.to_string())?;
        let mut message = letter::restore(message);
        let first_id = message.attributes.entry(ORIGINAL_MESSAGE_ID.to_owned());
        first_id.or_insert_with(|| offset.to_string());
        let addressee = self.addressee(subscription);
        Ok((Arc::clone(subscription.topic()), Outgoing { offset, message, addressee }))
    }

    fn addressee(&self, subscription: &Subscription) -> Option<SubscriptionId> {
        match self.run.order.to {
            Destination::Subscription => Some(subscription.id()),
            Destination::Topic => None,
        }
    }
}

/// The lane that a letter's message was in, and its original id.
fn place_in_lane(due: &Due, targets: &BTreeMap<SubscriptionName, Target>) -> Option<(String, u64)> {
    let name = due.source.as_ref()?;
    let (_, rules) = targets.get(name)?.as_ref().ok()?;
    let key = rules.lane_key(&due.record)?;
    let first_id = message::attribute(&due.record.body, ORIGINAL_MESSAGE_ID).ok()??;
    Some((format!("{name} {key}"), first_id.parse().ok()?))
}
