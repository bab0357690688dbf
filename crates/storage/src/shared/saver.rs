//! Checkpoints: saved, and loaded.

use domain::{Progress, SubscriptionId, TopicId};

use super::chunks::Row;
use super::index::{Span, Stretch};
use super::owned::{Owned, changed, note_saved};
use super::rows;
use crate::planted::Fault;
use crate::{Checkpoint, Error, Position, Result};

/// How much is read of the store at a time.
const READ_BYTES: usize = 1 << 20;
/// So few subscriptions are looked up one by one.
const FEW: usize = 16;

/// Saves what has changed.
pub(super) async fn checkpoint(owned: &Owned, checkpoint: Checkpoint) -> Result<()> {
    let mut upkeep = owned.upkeep.lock().await;
    owned.front.check_open()?;
    owned.front.queue.check(owned.epoch)?;
    owned.front.check_checkpoint(checkpoint.position)?;
    let progress = checkpoint.progress.iter();
    let mut rows: Vec<Row> =
        progress.map(|(id, progress)| rows::progress_row(*id, progress)).collect();
    rows.extend(checkpoint.forgotten.iter().map(|id| (rows::progress_key(*id), None)));
    rows.extend(checkpoint.clock.iter().map(rows::clock_row));
    let position = match owned.options.planted.has(Fault::CheckpointAhead) {
        true => owned.front.position().0,
        false => checkpoint.position.0,
    };
    let unsaved = owned.stretches.lock().unsaved(position);
    rows.extend(unsaved.iter().map(|stretch| rows::index_row(stretch, &spans(owned, stretch))));
    // After the spans: a topic's row is never behind them.
    let topics = changed(owned);
    rows.extend(topics.iter().map(|(topic, row)| rows::topic_row(topic.id, *row)));
    let mut state = upkeep.state.clone();
    state.position = position;
    state.indexed = unsaved.last().map_or(state.indexed, |stretch| stretch.last);
    rows.push(rows::state_row(&state));
    let indexed = state.indexed.number;
    owned.save(&mut upkeep, state, rows).await?;
    owned.stretches.lock().saved(indexed);
    note_saved(topics);
    if checkpoint.clock.is_some() {
        *owned.clock.lock() = checkpoint.clock;
    }
    owned.front.note_checkpoint(Position(position), &checkpoint.forgotten);
    Ok(())
}

/// Where the topics of a stretch have their records in it.
fn spans(owned: &Owned, stretch: &Stretch) -> Vec<(TopicId, Span)> {
    let mut spans = Vec::new();
    for id in &stretch.topics {
        let Some(topic) = owned.front.topics.get(*id) else { continue };
        let state = topic.state();
        let within = state.own.spans.within(stretch.from, stretch.last.number);
        spans.extend(within.map(|span| (*id, *span)));
    }
    spans
}

/// The progress of each subscription.
pub(super) async fn load(
    owned: &Owned,
    starts: Vec<(SubscriptionId, Progress)>,
) -> Result<Vec<Progress>> {
    loop {
        owned.front.check_open()?;
        let before = owned.front.checkpoint();
        let saved = saved(owned, &starts).await?;
        let unreadable = || {
            let place = format!("the log of shard {}", owned.id.0);
            Error::corrupt(place, "a change of progress cannot be read")
        };
        let loaded = owned.front.load(starts.clone(), |_| Ok(saved), unreadable)?;
        // A checkpoint in between has dropped changes that the rows read before it do not have.
        if owned.front.checkpoint() == before {
            return Ok(loaded);
        }
    }
}

async fn saved(
    owned: &Owned,
    starts: &[(SubscriptionId, Progress)],
) -> Result<Vec<Option<Progress>>> {
    let mut found = std::collections::BTreeMap::new();
    let ids = || starts.iter().map(|(id, _)| *id);
    if starts.len() <= FEW {
        for id in ids() {
            scan(owned, id, id, &mut found).await?;
        }
    } else if let (Some(first), Some(last)) = (ids().min(), ids().max()) {
        scan(owned, first, last, &mut found).await?;
    }
    Ok(ids().map(|id| found.remove(&id)).collect())
}

/// Reads the saved progress of the subscriptions `from..=to`.
async fn scan(
    owned: &Owned,
    from: SubscriptionId,
    to: SubscriptionId,
    found: &mut std::collections::BTreeMap<SubscriptionId, Progress>,
) -> Result<()> {
    let to = rows::progress_key(to);
    let mut from = rows::progress_key(from);
    loop {
        let read = owned.insist(|| owned.chunks.saved(owned.id, from, to, READ_BYTES)).await?;
        let Some((last, _)) = read.last() else { return Ok(()) };
        let next = last.id.checked_add(1).filter(|next| *next <= to.id);
        for (key, row) in &read {
            found.insert(SubscriptionId(key.id), rows::progress(owned.id, *key, row)?);
        }
        match next {
            Some(id) => from.id = id,
            None => return Ok(()),
        }
    }
}
