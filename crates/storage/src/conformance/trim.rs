//! `MessageLog::trim`.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{Offset, OffsetRange, Timestamp};

use super::support::{FIRST, Held, Needs, Says, Topic, WIDE, hold, read_all, same};
use super::{Case, Check, cases};
use crate::{Checkpoint, Keep, Need, Result, Trimmed};

pub(super) const CASES: &[Case<Held>] = cases![
    a_trim_keeps_every_needed_record,
    a_trim_keeps_what_no_checkpoint_has_passed,
    records_appended_after_a_trim_continue_its_offsets,
    the_earliest_kept_record_is_at_time_zero_after_a_trim,
    trimming_again_and_again_keeps_what_is_needed,
    a_topic_that_nobody_knows_is_kept_and_one_that_is_gone_is_not,
];

/// A checkpoint of all there is, then a trim.
async fn trim(held: &Held, keep: impl Keep + 'static) -> Result<Trimmed> {
    let position = held.log.position();
    held.progress.checkpoint(Checkpoint { position, ..Checkpoint::default() }).await?;
    held.log.trim(Arc::new(keep)).await
}

fn range(from: u64, to: u64) -> OffsetRange {
    OffsetRange { from: FIRST.plus(from), to: FIRST.plus(to) }
}

/// Checks that of the needed records none is missing, and that what else is found was published.
pub(super) async fn check_needed(held: &Held, topic: &Topic, needed: &[OffsetRange]) -> Check {
    let found = read_all(held, topic.id, FIRST, WIDE).await?;
    let found: BTreeMap<_, _> = found.into_iter().map(|record| (record.offset, record)).collect();
    for record in &topic.records {
        let is_needed = needed.iter().any(|range| range.contains(record.offset));
        match found.get(&record.offset) {
            Some(kept) => same("record", kept, record)?,
            None => hold(!is_needed, || format!("needed record {} is gone", record.offset))?,
        }
    }
    hold(found.keys().all(|offset| *offset < topic.next), || "records past the end".to_owned())
}

async fn a_trim_keeps_every_needed_record(held: Held) -> Check {
    let mut one = Topic::create(&held, "one").await?;
    let mut two = Topic::create(&held, "two").await?;
    for _ in 0..40 {
        one.publish(&held, &[3_000; 5]).await?;
        two.publish(&held, &[1_000]).await?;
    }
    let needed = vec![range(3, 5), range(50, 120), range(199, 200)];
    trim(&held, Needs(BTreeMap::from([(one.id, needed.clone())]))).await?;
    check_needed(&held, &one, &needed).await?;
    check_needed(&held, &two, &[]).await
}

async fn a_trim_keeps_what_no_checkpoint_has_passed(held: Held) -> Check {
    let mut topic = Topic::create(&held, "t").await?;
    for _ in 0..40 {
        topic.publish(&held, &[3_000; 5]).await?;
    }
    held.log.trim(Arc::new(Needs::default())).await?;
    topic.check(&held).await
}

async fn records_appended_after_a_trim_continue_its_offsets(held: Held) -> Check {
    let mut topic = Topic::create(&held, "t").await?;
    for _ in 0..40 {
        topic.publish(&held, &[3_000; 5]).await?;
    }
    trim(&held, Needs::default()).await?;
    same("end", &held.log.end(topic.id), &topic.next)?;
    let from = topic.next;
    topic.publish(&held, &[10; 5]).await?;
    check_needed(&held, &topic, &[OffsetRange { from, to: topic.next }]).await
}

async fn the_earliest_kept_record_is_at_time_zero_after_a_trim(held: Held) -> Check {
    let mut topic = Topic::create(&held, "t").await?;
    for _ in 0..40 {
        topic.publish(&held, &[3_000; 5]).await?;
    }
    let needed = vec![range(77, 80)];
    trim(&held, Needs(BTreeMap::from([(topic.id, needed)]))).await?;
    let found = read_all(&held, topic.id, FIRST, WIDE).await?;
    let first = found.first().map_or(topic.next, |record| record.offset);
    hold(first <= FIRST.plus(77), || format!("first found is {first}"))?;
    let earliest = held.log.offset_at(topic.id, Timestamp(0)).await?;
    same("earliest", &earliest, &first)?;
    let inside = held.log.offset_at(topic.id, Timestamp((FIRST.0 + 78) * 10)).await?;
    same("at the time of a needed record", &inside, &FIRST.plus(78))
}

async fn trimming_again_and_again_keeps_what_is_needed(held: Held) -> Check {
    let mut topic = Topic::create(&held, "t").await?;
    let mut needed: Vec<OffsetRange> = Vec::new();
    for round in 0..10 {
        let from = topic.next;
        for _ in 0..10 {
            topic.publish(&held, &[4_000; 4]).await?;
        }
        // Every seventh of the new ones is needed, and of the older ones less each round.
        needed.extend((from.0..topic.next.0).step_by(7).map(|o| OffsetRange::one(Offset(o))));
        let mut place = 0;
        needed.retain(|_| {
            place += 1;
            place % 5 != round % 5
        });
        trim(&held, Needs(BTreeMap::from([(topic.id, needed.clone())]))).await?;
        check_needed(&held, &topic, &needed).await?;
    }
    Ok(())
}

async fn a_topic_that_nobody_knows_is_kept_and_one_that_is_gone_is_not(held: Held) -> Check {
    let mut unknown = Topic::create(&held, "unknown").await?;
    let mut gone = Topic::create(&held, "gone").await?;
    for _ in 0..40 {
        unknown.publish(&held, &[3_000; 3]).await?;
        gone.publish(&held, &[3_000; 3]).await?;
    }
    for _ in 0..2 {
        trim(&held, Says(BTreeMap::from([(gone.id, Need::Gone)]))).await?;
        unknown.check(&held).await?;
        let left = read_all(&held, gone.id, FIRST, WIDE).await?;
        let (left, published) = (left.len(), gone.records.len());
        hold(left < published, || format!("{left} of {published} are left of what is gone"))?;
    }
    Ok(())
}
