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
use domain::{Epoch, Offset, Record, SubscriptionId, SubscriptionName, TopicName, message};
use storage::{Commit, Kind, Receipt, Urgency};

use super::letters::LetterBox;
use super::replay::Run;
use super::{DeadLetterAdmin, LetterState};
use crate::catalogue::readable;
use crate::definition::StoredSubscription;
use crate::error::{Error, Result};
use crate::handled_letters::{Changes, Outgoing};
use crate::parcel::{Parcel, Piece, SourceId};
use crate::runtime::Runtime;
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
type Target = Result<Arc<To>, String>;

/// Where the letters of a subscription go.
struct To {
    subscription: SubscriptionId,
    topic: TopicName,
    /// The topic, if it is in the shard of the letters.
    near: Option<Arc<Topic>>,
    rules: Settings,
}

/// A letter to replay.
struct Due {
    record: Record,
    source: Option<SubscriptionName>,
}

impl Work<'_> {
    /// Replays what is left. An error ends the replay, unless the server stops.
    pub(super) async fn go(&self) -> Result<Ended> {
        // Counted anew: what it has sent is known from its progress, the rest it comes upon again.
        self.run.note(self.admin.access.clock.wall(), |account| {
            (account.skipped, account.failed) = (0, 0);
        });
        let (from, end) =
            self.admin.selection_range(&self.letter_box, &self.run.order.selection).await?;
        let end = end.min(self.run.order.until);
        self.count(from, end).await?;
        let mut pace = Pace::new(self.run.order.per_second, self.admin.access.clock.now());
        let mut at = from;
        loop {
            self.letter_box.topic().runtime().check_serving()?;
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
        let targets = self.targets(&due).await?;
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
                biased;
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
        let mut group_to: Option<Arc<To>> = None;
        for due in step {
            match self.prepare(&due, targets) {
                Err(why) => self.note_failed(1, &due.record.offset.to_string(), &why),
                Ok((to, outgoing)) => {
                    if let Some(before) = group_to.replace(Arc::clone(&to))
                        && before.topic != to.topic
                    {
                        sent += self.commit(std::mem::take(&mut group), &before).await?;
                    }
                    group.push(outgoing);
                }
            }
        }
        if let Some(to) = group_to {
            sent += self.commit(group, &to).await?;
        }
        Ok(sent)
    }

    /// Appends and records, in one commit if both are in the same shard.
    async fn commit(&self, group: Vec<Outgoing>, to: &To) -> Result<usize> {
        let (count, first) = (group.len(), group.first().map(|one| one.offset));
        let replayed = match &to.near {
            Some(topic) => self.commit_near(group, topic).await,
            None => self.commit_far(group, to).await,
        };
        match replayed {
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
                let first = first.map(|offset| offset.to_string()).unwrap_or_default();
                self.note_failed(count as u64, &first, &why);
                Ok(0)
            }
            Err(error) => Err(error),
        }
    }

    async fn commit_near(
        &self,
        group: Vec<Outgoing>,
        target: &Topic,
    ) -> Result<(usize, Option<Receipt>)> {
        self.wait_for_room(target).await?;
        self.note_replayed(group, |outgoing, progress| {
            let messages = outgoing.into_iter().map(|one| (one.message, one.addressee));
            target.queue_addressed(messages, progress).map(|(_, receipt)| receipt)
        })
    }

    /// By courier: first there, then recorded here. The mark there keeps it from going twice.
    async fn commit_far(&self, group: Vec<Outgoing>, to: &To) -> Result<(usize, Option<Receipt>)> {
        let run = self.run;
        let mut due = self.letter_box.letters().due((run.id, run.order.again), group);
        due.sort_by_key(|one| one.offset);
        let piece = |Outgoing { offset, message, addressee }| Piece { offset, message, addressee };
        let parcel = Parcel {
            topic: to.topic.clone(),
            source: SourceId(run.id.0),
            generation: (Epoch(0), 0),
            settled_below: Offset(0),
            pieces: due.iter().cloned().map(piece).collect(),
        };
        let runtime = self.letter_box.topic().runtime();
        while let Err(error) = self.admin.courier.send(parcel.clone()).await {
            if matches!(error, Error::NotFound(..)) {
                return Err(error);
            }
            run.note(runtime.clock.wall(), |account| account.error = Some(error.to_string()));
            runtime.clock.sleep_until(runtime.clock.now().plus(RETRY_AFTER)).await;
            runtime.check_serving()?;
        }
        self.note_replayed(due, |_, progress| {
            let urgency = Urgency::Durable;
            Ok(runtime.log.commit(Commit { appends: Vec::new(), progress, urgency }))
        })
    }

    fn note_replayed(
        &self,
        group: Vec<Outgoing>,
        append: impl FnOnce(Vec<Outgoing>, Changes) -> Result<Receipt>,
    ) -> Result<(usize, Option<Receipt>)> {
        let changed = &self.letter_box.topic().runtime().changed_letters;
        let run = (self.run.id, self.run.order.again);
        self.letter_box.letters().replay(changed, run, group, append)
    }

    /// A full disk only delays a replay.
    async fn wait_for_room(&self, target: &Topic) -> Result<()> {
        let Runtime { log, clock, changed, .. } = &**target.runtime();
        while !log.has_room() {
            match log.room().await {
                Err(storage::Error::Full) => {
                    let why = "waiting for disk space: free some, or ack stored messages";
                    self.run.note(clock.wall(), |account| {
                        account.error = Some(why.to_owned());
                    });
                    changed.press();
                    clock.sleep_until(clock.now().plus(RETRY_AFTER)).await;
                    target.runtime().check_serving()?;
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

    async fn targets(&self, due: &[Due]) -> Result<BTreeMap<SubscriptionName, Target>> {
        let mut targets = BTreeMap::new();
        for name in due.iter().filter_map(|due| due.source.as_ref()) {
            if !targets.contains_key(name) {
                targets.insert(name.clone(), self.target(name).await?);
            }
        }
        Ok(targets)
    }

    async fn target(&self, name: &SubscriptionName) -> Result<Target> {
        let missing = || format!("subscription {name} does not exist; create it to replay");
        let subscription = match self.admin.registry.subscription(name) {
            Ok(subscription) => subscription,
            Err(Error::NotOwner(_)) => return self.far_target(name, missing).await,
            Err(_) => return Ok(Err(missing())),
        };
        let settings = subscription.settings();
        if subscription.topic().is_deleted() {
            return Ok(Err(format!("topic {} of subscription {name} is deleted", settings.topic)));
        }
        let topic = subscription.topic();
        let is_near = topic.shard() == self.letter_box.topic().shard();
        let near = is_near.then(|| Arc::clone(topic));
        Ok(to(&settings, subscription.id(), near, subscription.rules()))
    }

    /// The same of a subscription that another node runs, as the catalogue has it.
    async fn far_target(
        &self,
        name: &SubscriptionName,
        missing: impl Fn() -> String,
    ) -> Result<Target> {
        let store = self.admin.catalogue.store();
        let entry = match store.get(Kind::Subscription, name.as_str()).await {
            Ok(entry) => entry,
            Err(storage::Error::NotFound) => return Ok(Err(missing())),
            Err(error) => return Err(error.into()),
        };
        let stored = StoredSubscription::decode(&entry.name, &entry.value);
        let settings = readable(stored, &entry.name)?.settings;
        let options = &self.letter_box.topic().runtime().options.push;
        let rules = crate::settings::delivery(&settings, options);
        Ok(to(&settings, SubscriptionId(entry.id), None, rules))
    }

    /// The message of a letter, and the topic to append it to.
    fn prepare(
        &self,
        due: &Due,
        targets: &BTreeMap<SubscriptionName, Target>,
    ) -> Result<(Arc<To>, Outgoing), String> {
        let Some(name) = &due.source else {
            return Err("it does not name the subscription that gave it up".to_owned());
        };
        let target = targets.get(name).ok_or_else(|| "it was not looked up".to_owned())?;
        let to = target.as_ref().map_err(Clone::clone)?;
        let offset = due.record.offset;
        let message = message::decode(&due.record.body).map_err(|error| error.to_string())?;
        let mut message = letter::restore(message);
        let first_id = message.attributes.entry(ORIGINAL_MESSAGE_ID.to_owned());
        first_id.or_insert_with(|| offset.to_string());
        let addressee = match self.run.order.to {
            Destination::Subscription => Some(to.subscription),
            Destination::Topic => None,
        };
        Ok((Arc::clone(to), Outgoing { offset, message, addressee }))
    }
}

/// Where the letters of a subscription with these settings go.
fn to(
    settings: &domain::Subscription,
    subscription: SubscriptionId,
    near: Option<Arc<Topic>>,
    rules: Settings,
) -> Target {
    if settings.detached {
        return Err(format!("subscription {} is detached from its topic", settings.name));
    }
    Ok(Arc::new(To { subscription, topic: settings.topic.clone(), near, rules }))
}

/// The lane that a letter's message was in, and its original id.
fn place_in_lane(due: &Due, targets: &BTreeMap<SubscriptionName, Target>) -> Option<(String, u64)> {
    let name = due.source.as_ref()?;
    let to = targets.get(name)?.as_ref().ok()?;
    let key = to.rules.lane_key(&due.record)?;
    let first_id = message::attribute(&due.record.body, ORIGINAL_MESSAGE_ID).ok()??;
    Some((format!("{name} {key}"), first_id.parse().ok()?))
}
