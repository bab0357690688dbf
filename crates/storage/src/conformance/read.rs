//! `MessageLog::read`, `read_tail`, `end` and `offset_at`.

use domain::{Offset, Timestamp, TopicId};

use super::support::{FIRST, Held, Topic, WIDE, hold, read_all, same};
use super::{Case, Check, cases};
use crate::{ReadLimit, TailRead};

pub(super) const CASES: &[Case<Held>] = cases![
    a_read_at_the_visible_end_is_empty,
    a_read_from_the_middle_starts_there,
    a_read_keeps_to_the_limit_of_records,
    a_read_keeps_to_the_limit_of_bytes,
    a_read_returns_at_least_one_record_however_large,
    reading_in_small_steps_finds_every_record_once,
    a_read_from_before_the_first_record_covers_the_gap,
    the_tail_read_agrees_with_the_read,
    the_tail_read_says_when_nothing_is_there_yet,
    the_end_is_the_offset_of_the_next_record,
    topics_do_not_mix,
    the_offset_at_a_time_is_the_first_record_at_or_after_it,
    the_offsets_of_many_topics_come_in_their_order,
];

async fn a_read_at_the_visible_end_is_empty(held: Held) -> Check {
    let mut topic = Topic::create(&held, "t").await?;
    for _ in 0..2 {
        let batch = held.log.read(topic.id, topic.next, WIDE).await?;
        same("records", &batch.records, &Vec::new())?;
        hold(batch.covered.is_empty(), || format!("covers {:?}", batch.covered))?;
        topic.publish(&held, &[10]).await?;
    }
    Ok(())
}

async fn a_read_from_the_middle_starts_there(held: Held) -> Check {
    let mut topic = Topic::create(&held, "t").await?;
    topic.publish(&held, &[10; 20]).await?;
    topic.publish(&held, &[10; 20]).await?;
    for skip in [1, 19, 20, 21, 39] {
        let read = read_all(&held, topic.id, FIRST.plus(skip as u64), WIDE).await?;
        same("records", &read.as_slice(), &&topic.records[skip..])?;
    }
    Ok(())
}

async fn a_read_keeps_to_the_limit_of_records(held: Held) -> Check {
    let mut topic = Topic::create(&held, "t").await?;
    topic.publish(&held, &[10; 20]).await?;
    let limit = ReadLimit { records: 7, bytes: 1 << 20 };
    let batch = held.log.read(topic.id, FIRST, limit).await?;
    hold((1..=7).contains(&batch.records.len()), || format!("{} records", batch.records.len()))?;
    let last = batch.records.last().map(|record| record.offset.next());
    same("end of what is covered", &Some(batch.covered.to), &last)
}

async fn a_read_keeps_to_the_limit_of_bytes(held: Held) -> Check {
    let mut topic = Topic::create(&held, "t").await?;
    topic.publish(&held, &[1_000; 20]).await?;
    let limit = ReadLimit { records: 1_000, bytes: 5_000 };
    let mut at = FIRST;
    while at < topic.next {
        let batch = held.log.read(topic.id, at, limit).await?;
        let bytes: usize = batch.records.iter().map(|record| record.body.len()).sum();
        hold(bytes <= 5_000, || format!("{bytes} bytes"))?;
        hold(batch.covered.to > at, || "no way forward".to_owned())?;
        at = batch.covered.to;
    }
    Ok(())
}

async fn a_read_returns_at_least_one_record_however_large(held: Held) -> Check {
    let mut topic = Topic::create(&held, "t").await?;
    topic.publish(&held, &[300_000, 10, 300_000]).await?;
    let limit = ReadLimit { records: 10, bytes: 1 };
    let read = read_all(&held, topic.id, FIRST, limit).await?;
    same("records", &read, &topic.records)?;
    let batch = held.log.read(topic.id, FIRST, limit).await?;
    same("number of records", &batch.records.len(), &1)
}

async fn reading_in_small_steps_finds_every_record_once(held: Held) -> Check {
    let mut topic = Topic::create(&held, "t").await?;
    for n in 0..30 {
        topic.publish(&held, &vec![n * 20; n % 4 + 1]).await?;
    }
    for records in [1, 3, 50] {
        let limit = ReadLimit { records, bytes: 2_000 };
        let read = read_all(&held, topic.id, FIRST, limit).await?;
        same("records", &read, &topic.records)?;
    }
    Ok(())
}

async fn a_read_from_before_the_first_record_covers_the_gap(held: Held) -> Check {
    let mut topic = Topic::create(&held, "t").await?;
    topic.publish(&held, &[10; 3]).await?;
    let read = read_all(&held, topic.id, Offset(0), WIDE).await?;
    same("records", &read, &topic.records)
}

async fn the_tail_read_agrees_with_the_read(held: Held) -> Check {
    let mut topic = Topic::create(&held, "t").await?;
    let mut from_memory = 0;
    for n in 0..50 {
        topic.publish(&held, &[n, n * 10, n * 50]).await?;
        let at = FIRST.plus(n as u64);
        let limit = ReadLimit { records: n + 1, bytes: 10_000 };
        match held.log.read_tail(topic.id, at, limit) {
            TailRead::Records(batch) => {
                from_memory += 1;
                same("start of what is covered", &batch.covered.from, &at)?;
                same("damaged", &batch.damaged, &Vec::new())?;
                let (skip, count) = (n, batch.records.len());
                let expected = topic.records.get(skip..skip + count);
                same("records", &Some(batch.records.as_slice()), &expected)?;
                hold((1..=n + 1).contains(&count), || format!("{count} records"))?;
            }
            TailRead::NotInMemory => {}
            TailRead::AtEnd => hold(false, || format!("AtEnd at {at} of {}", topic.next))?,
        }
    }
    hold(from_memory > 0, || "even the newest records are not in memory".to_owned())
}

async fn the_tail_read_says_when_nothing_is_there_yet(held: Held) -> Check {
    let mut topic = Topic::create(&held, "t").await?;
    for _ in 0..2 {
        for at in [topic.next, topic.next.plus(100)] {
            let tail = held.log.read_tail(topic.id, at, WIDE);
            hold(matches!(tail, TailRead::AtEnd), || format!("{tail:?} at {at}"))?;
        }
        topic.publish(&held, &[10]).await?;
    }
    Ok(())
}

async fn the_end_is_the_offset_of_the_next_record(held: Held) -> Check {
    let mut topic = Topic::create(&held, "t").await?;
    same("end of an empty topic", &held.log.end(topic.id), &FIRST)?;
    topic.publish(&held, &[1, 2, 3]).await?;
    same("end", &held.log.end(topic.id), &FIRST.plus(3))?;
    let claim = held.log.begin(topic.id, Offset(9)).await?;
    same("next", &claim.next, &FIRST.plus(3))
}

async fn topics_do_not_mix(held: Held) -> Check {
    let mut topics = Vec::new();
    for n in 0..10 {
        topics.push(Topic::create(&held, &format!("t{n}")).await?);
    }
    for round in 0..10 {
        for (n, topic) in topics.iter_mut().enumerate() {
            topic.publish(&held, &vec![n; round % 3]).await?;
        }
    }
    for topic in &topics {
        topic.check(&held).await?;
    }
    let unknown = held.log.read(TopicId(1 << 40), FIRST, WIDE).await?;
    same("records of an unknown topic", &unknown.records, &Vec::new())
}

async fn the_offset_at_a_time_is_the_first_record_at_or_after_it(held: Held) -> Check {
    let mut topic = Topic::create(&held, "t").await?;
    let none = held.log.offset_at(topic.id, Timestamp(0)).await?;
    same("in an empty topic", &none, &topic.next)?;
    for n in 0..20 {
        topic.publish(&held, &vec![200; n % 5 + 1]).await?;
    }
    for record in &topic.records {
        let time = record.publish_time;
        let at = held.log.offset_at(topic.id, time).await?;
        same("at its time", &at, &record.offset)?;
        let just_before = held.log.offset_at(topic.id, Timestamp(time.0 - 1)).await?;
        same("just before its time", &just_before, &record.offset)?;
    }
    let earliest = held.log.offset_at(topic.id, Timestamp(0)).await?;
    same("earliest", &earliest, &FIRST)?;
    let latest = held.log.offset_at(topic.id, Timestamp(u64::MAX)).await?;
    same("after all", &latest, &topic.next)
}

async fn the_offsets_of_many_topics_come_in_their_order(held: Held) -> Check {
    let (mut asked, mut expected) = (Vec::new(), Vec::new());
    for n in 0..5_u64 {
        let mut topic = Topic::create(&held, &format!("t{n}")).await?;
        topic.publish(&held, &[10; 5]).await?;
        asked.push((topic.id, Timestamp((FIRST.0 + n) * 10)));
        expected.push(FIRST.plus(n));
    }
    asked.reverse();
    expected.reverse();
    same("offsets", &held.log.offsets_at(asked).await?, &expected)?;
    same("offsets of no topics", &held.log.offsets_at(Vec::new()).await?, &Vec::new())
}
