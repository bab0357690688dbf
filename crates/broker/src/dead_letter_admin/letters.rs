//! Finding and reading dead letters. Leases, acks and changes nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::replay::Criteria;
use domain::{Letter, Message, Offset, Record, SubscriptionName, Timestamp, TopicName, letter};
use storage::ReadLimit;

use super::DeadLetterAdmin;
use crate::error::{Error, Resource, Result};
use crate::handled_letters::{Handled, HandledLetters};
use crate::source::{Found, find, read_some};
use crate::subscription::Readers;
use crate::topic::Topic;

/// Maximum number of letters examined for one page.
const LOOKED_THROUGH_MAX: u64 = 20_000;

/// Approximate bytes of letters on one page.
const PAGE_BYTES_MAX: usize = 8 << 20;

pub(super) const READ_LIMIT: ReadLimit = ReadLimit { records: 1_000, bytes: 8 << 20 };

/// Whose letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LetterPlace {
    /// All that are in this topic.
    Topic(TopicName),
    /// Those that this subscription gave up on, in its dead letter topic.
    Subscription(SubscriptionName),
}

/// What happened to a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LetterState {
    /// Nobody has handled it.
    Waiting,
    /// Everyone subscribed to the dead letter topic has acked it.
    Acked,
    /// It was replayed.
    Replayed,
    /// It was deleted; it is not listed anymore.
    Deleted,
}

impl LetterState {
    /// The word for it in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Acked => "acked",
            Self::Replayed => "replayed",
            Self::Deleted => "deleted",
        }
    }
}

/// Which letters to list, by what happened to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LettersWanted {
    /// Those nobody has handled.
    #[default]
    Waiting,
    /// Those that were replayed.
    Replayed,
    /// All but deleted ones.
    All,
}

impl LettersWanted {
    pub(super) fn want(self, state: LetterState) -> bool {
        match self {
            Self::Waiting => state == LetterState::Waiting,
            Self::Replayed => state == LetterState::Replayed,
            Self::All => state != LetterState::Deleted,
        }
    }
}

/// Which letters to list.
#[derive(Clone, Debug, Default)]
pub struct LetterQuery {
    /// What their attributes say.
    pub criteria: Criteria,
    /// What happened to them.
    pub wanted: LettersWanted,
    /// Where to continue; `None` = at the oldest.
    pub from: Option<Offset>,
    /// Maximum number on one page.
    pub limit: usize,
}

/// A letter that was found.
#[derive(Clone, Debug)]
pub struct FoundLetter {
    /// The letter's record in its topic.
    pub record: Record,
    /// What its attributes say.
    pub letter: Letter,
    /// What happened to it.
    pub state: LetterState,
}

/// Letters, oldest first.
#[derive(Clone, Debug)]
pub struct LetterPage {
    /// The dead letter topic.
    pub topic: TopicName,
    /// The letters. There may be none although there are more pages.
    pub letters: Vec<FoundLetter>,
    /// Where the next page begins; `None` = this was the last.
    pub next: Option<Offset>,
}

/// A dead letter topic, and whose letters in it are requested.
#[derive(Clone)]
pub(super) struct LetterBox {
    pub(super) readers: Arc<Readers>,
    pub(super) subscription: Option<SubscriptionName>,
}

impl LetterBox {
    pub(super) fn topic(&self) -> &Arc<Topic> {
        self.readers.topic()
    }

    pub(super) fn letters(&self) -> &Arc<HandledLetters> {
        self.topic().letters()
    }

    /// Whether a letter is requested.
    fn has(&self, record: &Record) -> bool {
        let Some(name) = &self.subscription else { return true };
        letter::subscription(&record.body).as_ref() == Some(name)
    }
}

/// Consecutive letters.
pub(super) struct Stretch {
    pub(super) letters: Vec<(Record, LetterState)>,
    /// Where to continue; `None` at the end.
    pub(super) next: Option<Offset>,
}

impl DeadLetterAdmin {
    /// Dead letters, oldest first.
    pub(crate) async fn list(
        &self,
        place: &LetterPlace,
        query: &LetterQuery,
    ) -> Result<LetterPage> {
        let letter_box = self.letter_box(place)?;
        let topic = letter_box.topic();
        let end = topic.log().end(topic.id());
        let first = self.first_letter(topic, query.criteria.since).await?;
        let mut at = query.from.map_or(first, |from| from.max(first));
        let looked_to = at.plus(LOOKED_THROUGH_MAX);
        let (mut letters, mut bytes) = (Vec::new(), 0);
        loop {
            let stretch = self.stretch(&letter_box, at, end).await?;
            for (record, state) in stretch.letters {
                if letters.len() >= query.limit || bytes > PAGE_BYTES_MAX {
                    let next = Some(record.offset);
                    return Ok(LetterPage { topic: topic.name().clone(), letters, next });
                }
                if query.wanted.want(state) && query.criteria.want(&record) {
                    bytes += record.body.len();
                    letters.push(found(record, state));
                }
            }
            match stretch.next {
                Some(next) if next < looked_to => at = next,
                next => {
                    return Ok(LetterPage { topic: topic.name().clone(), letters, next });
                }
            }
        }
    }

    /// One letter by its own id; `NotFound` if it was deleted or is no longer kept.
    pub(crate) async fn get(&self, topic: &TopicName, id: Offset) -> Result<FoundLetter> {
        let readers = self.registry.readers(topic)?;
        let topic = readers.topic();
        let found_there = find(&**topic.log(), topic.id(), id).await?;
        if let Found::Record(record) = found_there {
            let state = states(&readers, &[id]).pop().unwrap_or(LetterState::Waiting);
            if state != LetterState::Deleted {
                return Ok(found(record, state));
            }
        }
        let name = format!("{}/deadLetters/{id}", topic.name());
        Err(Error::NotFound(Resource::DeadLetter, name))
    }

    pub(super) fn letter_box(&self, place: &LetterPlace) -> Result<LetterBox> {
        self.access.check_serving()?;
        match place {
            LetterPlace::Topic(name) => {
                Ok(LetterBox { readers: self.registry.readers(name)?, subscription: None })
            }
            LetterPlace::Subscription(name) => {
                let settings = self.registry.subscription(name)?.settings();
                let Some(policy) = &settings.dead_letter_policy else {
                    return Err(Error::FailedPrecondition(format!(
                        "subscription {name} has no dead letter policy; name the dead letter \
                         topic instead, or set deadLetterPolicy"
                    )));
                };
                let readers = self.registry.readers(&policy.topic).map_err(|_| {
                    Error::FailedPrecondition(format!(
                        "dead letter topic {} of subscription {name} does not exist; create it",
                        policy.topic
                    ))
                })?;
                Ok(LetterBox { readers, subscription: Some(name.clone()) })
            }
        }
    }

    /// The first letter that is kept and was dead-lettered at `since` or later.
    pub(super) async fn first_letter(
        &self,
        topic: &Topic,
        since: Option<Timestamp>,
    ) -> Result<Offset> {
        let since = since.unwrap_or(Timestamp(0));
        Ok(topic.log().offset_at(topic.id(), since).await?)
    }

    /// The letters of `letter_box` in the next part of its log, with what happened to them.
    pub(super) async fn stretch(
        &self,
        letter_box: &LetterBox,
        from: Offset,
        end: Offset,
    ) -> Result<Stretch> {
        if from >= end {
            return Ok(Stretch { letters: Vec::new(), next: None });
        }
        let log = &**letter_box.topic().log();
        let batch = read_some(log, letter_box.topic().id(), from, READ_LIMIT).await?;
        // Reading from memory never waits; yield so that others get their turn.
        tokio::task::coop::consume_budget().await;
        let is_there = |record: &Record| record.offset < end && letter_box.has(record);
        let records: Vec<_> = batch.records.into_iter().filter(is_there).collect();
        let offsets: Vec<_> = records.iter().map(|record| record.offset).collect();
        let states = states(&letter_box.readers, &offsets);
        let next = Some(batch.covered.to).filter(|&next| next < end && !batch.covered.is_empty());
        Ok(Stretch { letters: records.into_iter().zip(states).collect(), next })
    }
}

fn found(record: Record, state: LetterState) -> FoundLetter {
    let message = domain::message::decode(&record.body).unwrap_or_else(|_| Message::default());
    FoundLetter { letter: Letter::read(&message), record, state }
}

/// What happened to each letter.
fn states(readers: &Readers, offsets: &[Offset]) -> Vec<LetterState> {
    let handled = readers.topic().letters().look_up(offsets);
    let readers = readers.subscriptions();
    let mut open = BTreeSet::new();
    for reader in &readers {
        open.extend(reader.unsettled(offsets));
    }
    let is_covered = |offset| readers.iter().any(|reader| reader.first() <= offset);
    let state = |(&offset, handled): (&Offset, Handled)| match handled {
        Handled::Deleted => LetterState::Deleted,
        Handled::Replayed => LetterState::Replayed,
        Handled::No if is_covered(offset) && !open.contains(&offset) => LetterState::Acked,
        Handled::No => LetterState::Waiting,
    };
    offsets.iter().zip(handled).map(state).collect()
}
