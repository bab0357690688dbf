//! A hierarchical timer wheel that holds keys, not times.
//!
//! ```text
//! level 0   64 buckets of 16 ms      ─┐ what is due within its span of the present
//! level 1   64 buckets of  1 s        │
//! level 2   64 buckets of 67 s        │ …
//! level n   64 buckets of 16 ms · 64ⁿ ─┘
//! ```
//!
//! A key comes up when its bucket begins. Its owner, who knows the actual time, then drops it or
//! inserts it again: that is how keys move down the levels, and why moving a time later costs
//! nothing until the old one comes up. Buckets are linked lists through `links`, so removing a key
//! takes constant time.

use crate::time::Moment;

/// A tick is 2^14 µs, about 16 ms: how late a key may come up.
const TICK_BITS: u32 = 14;
/// Each level has 2^6 buckets.
const LEVEL_BITS: u32 = 6;
const BUCKETS: usize = 1 << LEVEL_BITS;
/// No key: the end of a list.
const NONE: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(crate) struct Wheel {
    /// The tick up to which everything has come up. Never behind a bucket that holds keys.
    present: u64,
    /// The bucket that begins at the present. It is emptied before another one is examined: keys
    /// that it held and that were inserted again may come up before the rest of it.
    begun: Option<Bucket>,
    /// As many as the farthest key has needed so far.
    levels: Vec<Level>,
    /// By key.
    links: Vec<Link>,
}

#[derive(Debug)]
struct Level {
    /// One bit per bucket that holds keys.
    occupied: u64,
    /// The first key of every bucket.
    heads: [u32; BUCKETS],
}

#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    after: u32,
    /// Where the key is; `None` = not in the wheel.
    place: Option<Bucket>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    level: u8,
    bucket: u8,
}

impl Wheel {
    /// Inserts `key`, which must not be in the wheel, to come up at `at` or up to a tick later.
    pub(crate) fn insert(&mut self, key: u32, at: Moment) {
        let tick = at.0.div_ceil(1 << TICK_BITS).max(self.present);
        let place = self.place_of(tick);
        while self.levels.len() <= usize::from(place.level) {
            self.levels.push(Level { occupied: 0, heads: [NONE; BUCKETS] });
        }
        let head = self.head_mut(place).map_or(NONE, |head| std::mem::replace(head, key));
        if let Some(level) = self.levels.get_mut(usize::from(place.level)) {
            level.occupied |= 1 << place.bucket;
        }
        if let Some(link) = self.links.get_mut(head as usize) {
            link.before = key;
        }
        self.set_link(key, Link { before: NONE, after: head, place: Some(place) });
    }

    /// Removes `key`; does nothing if it is not in the wheel.
    pub(crate) fn remove(&mut self, key: u32) {
        let Some(link) = self.links.get_mut(key as usize) else { return };
        let Some(place) = link.place.take() else { return };
        let Link { before, after, .. } = *link;
        if let Some(next) = self.links.get_mut(after as usize) {
            next.before = before;
        }
        match self.links.get_mut(before as usize) {
            Some(previous) => previous.after = after,
            None => self.set_head(place, after),
        }
    }

    /// Removes a key whose bucket has begun by `now`, if there is one. Once there is none, the
    /// present is `now`.
    pub(crate) fn pop(&mut self, now: Moment) -> Option<u32> {
        let now = now.0 >> TICK_BITS;
        match self.next_bucket() {
            Some((start, place)) if start <= now => {
                self.present = start;
                self.begun = Some(place);
                let key = self.head_mut(place).map(|head| *head)?;
                self.remove(key);
                Some(key)
            }
            _ => {
                self.present = self.present.max(now);
                self.begun = None;
                None
            }
        }
    }

    /// When the next bucket that holds keys begins.
    pub(crate) fn next_wake(&self) -> Option<Moment> {
        self.next_bucket().map(|(start, _)| Moment(start << TICK_BITS))
    }

    /// The keys that come up next, all at about the same time, unordered.
    pub(super) fn first_keys(&self) -> impl Iterator<Item = u32> {
        let place = self.next_bucket().map(|(_, place)| place);
        let level = place.and_then(|place| self.levels.get(usize::from(place.level)));
        let heads = level.map(|level| &level.heads);
        let head = heads.zip(place).and_then(|(heads, at)| heads.get(usize::from(at.bucket)));
        let inside = |key: u32| (key != NONE).then_some(key);
        std::iter::successors(head.copied().and_then(inside), move |&key| {
            self.links.get(key as usize).and_then(|link| inside(link.after))
        })
    }

    /// Releases the memory for keys. Only for an empty wheel.
    pub(super) fn release_memory(&mut self) {
        self.links = Vec::new();
    }

    /// A bucket's level is the highest group of six bits in which its tick differs from the
    /// present. So every bucket of a level is later than all of the levels below, and within a
    /// level later buckets have higher numbers: a bit scan finds the next one.
    fn place_of(&self, tick: u64) -> Bucket {
        let differing = (tick ^ self.present) | 1;
        let level = (u64::BITS - 1 - differing.leading_zeros()) / LEVEL_BITS;
        let bucket = (tick >> (level * LEVEL_BITS)) & (BUCKETS as u64 - 1);
        #[expect(clippy::cast_possible_truncation, reason = "at most 10 levels of 64 buckets")]
        {
            Bucket { level: level as u8, bucket: bucket as u8 }
        }
    }

    fn next_bucket(&self) -> Option<(u64, Bucket)> {
        if let Some(place) = self.begun
            && let Some(level) = self.levels.get(usize::from(place.level))
            && level.occupied & 1 << place.bucket != 0
        {
            return Some((self.present, place));
        }
        let (level, occupied) = (0_u8..)
            .zip(&self.levels)
            .map(|(number, level)| (number, level.occupied))
            .find(|&(_, occupied)| occupied != 0)?;
        #[expect(clippy::cast_possible_truncation, reason = "at most 64")]
        let bucket = occupied.trailing_zeros() as u8;
        let shift = u32::from(level) * LEVEL_BITS;
        let above = self.present.checked_shr(shift + LEVEL_BITS).unwrap_or(0);
        let start = (above << LEVEL_BITS | u64::from(bucket)) << shift;
        Some((start, Bucket { level, bucket }))
    }

    fn head_mut(&mut self, place: Bucket) -> Option<&mut u32> {
        self.levels.get_mut(usize::from(place.level))?.heads.get_mut(usize::from(place.bucket))
    }

    fn set_head(&mut self, place: Bucket, key: u32) {
        if let Some(head) = self.head_mut(place) {
            *head = key;
        }
        if key == NONE
            && let Some(level) = self.levels.get_mut(usize::from(place.level))
        {
            level.occupied &= !(1 << place.bucket);
        }
    }

    fn set_link(&mut self, key: u32, link: Link) {
        let key = key as usize;
        if key >= self.links.len() {
            self.links.resize(key + 1, Link { before: NONE, after: NONE, place: None });
        }
        if let Some(slot) = self.links.get_mut(key) {
            *slot = link;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const TICK: Duration = Duration::from_micros(1 << TICK_BITS);

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u32, u64),
        Remove(u32),
        Pass(u64),
        PassToWake,
    }

    fn any_duration() -> impl Strategy<Value = u64> {
        prop_oneof![
            0..100_000_u64,
            0..20_000_000_u64,
            0..700_000_000_u64,
            0..100_000_000_000_000_u64,
        ]
    }

    fn any_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..40_u32, any_duration()).prop_map(|(key, after)| Step::Insert(key, after)),
            1 => (0..40_u32).prop_map(Step::Remove),
            1 => any_duration().prop_map(Step::Pass),
            3 => Just(Step::PassToWake),
        ]
    }

    /// Pops what is due; checks that nothing is early and nothing is later than a tick.
    fn pass(wheel: &mut Wheel, due: &mut BTreeMap<u32, Moment>, now: Moment) {
        while let Some(key) = wheel.pop(now) {
            let at = *due.get(&key).expect("a key that is not inside came up");
            if at <= now {
                due.remove(&key);
            } else {
                wheel.insert(key, at);
            }
        }
        for (key, at) in due {
            assert!(at.plus(TICK) > now, "key {key} of {at:?} did not come up by {now:?}");
        }
    }

    proptest! {
        #[test]
        fn keys_come_up_when_due(
            start in any_duration(),
            steps in proptest::collection::vec(any_step(), 1..200),
        ) {
            let (mut wheel, mut due) = (Wheel::default(), BTreeMap::new());
            let mut now = Moment(start);
            for step in steps {
                match step {
                    Step::Insert(key, after) => {
                        wheel.remove(key);
                        let at = Moment(now.0 + after);
                        wheel.insert(key, at);
                        due.insert(key, at);
                    }
                    Step::Remove(key) => {
                        wheel.remove(key);
                        due.remove(&key);
                    }
                    Step::Pass(by) => {
                        now = Moment(now.0 + by);
                        pass(&mut wheel, &mut due, now);
                    }
                    Step::PassToWake => {
                        prop_assert_eq!(wheel.next_wake().is_none(), due.is_empty());
                        now = wheel.next_wake().unwrap_or(now).max(now);
                        pass(&mut wheel, &mut due, now);
                    }
                }
            }
            // Following the wake-ups alone empties it, in few steps per key.
            let mut wakes = 0;
            while let Some(at) = wheel.next_wake() {
                now = at.max(now);
                pass(&mut wheel, &mut due, now);
                wakes += 1;
            }
            prop_assert!(due.is_empty());
            prop_assert!(wakes <= 40 * 10);
        }
    }

    #[test]
    fn a_key_that_is_removed_wakes_nobody() {
        let mut wheel = Wheel::default();
        wheel.insert(0, Moment(10_000_000));
        wheel.insert(1, Moment(10_000_000));
        wheel.remove(1);
        assert!(wheel.next_wake().is_some());
        wheel.remove(0);
        assert_eq!(wheel.next_wake(), None);
    }
}
