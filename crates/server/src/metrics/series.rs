//! Who has its own series. Labels are bounded: so many have, by how active they are, and all
//! others are added up as one.
//!
//! A counter never goes backwards, though some come and go: what the others count is the sum of
//! what was added while they had no series. One that gets its own begins there with
//! all it ever counted; one that loses it adds to the others what it counts from then on.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use domain::Moment;

/// One that nothing happened to for this long gives way to one that something happens to.
const IDLE_AFTER: Duration = Duration::from_secs(600);

/// One that may have series.
#[derive(Debug)]
pub(super) struct Item<K> {
    pub(super) key: K,
    /// What it counted so far, in an order of the caller's. May grow longer.
    pub(super) counters: Vec<u64>,
    pub(super) backlog: u64,
    /// It must have its own whatever the bound.
    pub(super) is_pinned: bool,
}

/// Who has its own series, and what the others counted.
#[derive(Debug)]
pub(super) struct Series<K> {
    own_max: usize,
    known: HashMap<K, Known>,
    others: Vec<u64>,
}

#[derive(Debug)]
struct Known {
    counters: Vec<u64>,
    has_own: bool,
    active_at: Moment,
}

/// One of the items while it is decided.
struct Candidate {
    at: usize,
    /// What it counted since it was looked at last.
    added: Vec<u64>,
    is_active: bool,
    is_idle: bool,
    has_own: bool,
    is_pinned: bool,
    backlog: u64,
}

impl<K: Clone + Eq + Hash> Series<K> {
    pub(super) fn new(own_max: usize) -> Self {
        Self { own_max, known: HashMap::new(), others: Vec::new() }
    }

    /// Looks at all that there are; whether each has its own series.
    pub(super) fn update(&mut self, items: &[Item<K>], now: Moment) -> Vec<bool> {
        let mut candidates: Vec<_> =
            items.iter().enumerate().map(|(at, item)| self.candidate(at, item, now)).collect();
        self.decide(&mut candidates);
        let mut before = std::mem::take(&mut self.known);
        for (item, candidate) in items.iter().zip(&candidates) {
            if !candidate.has_own {
                add(&mut self.others, &candidate.added);
            }
            let active_at = match before.remove(&item.key) {
                Some(known) if !candidate.is_active => known.active_at,
                _ => now,
            };
            let (counters, has_own) = (item.counters.clone(), candidate.has_own);
            self.known.insert(item.key.clone(), Known { counters, has_own, active_at });
        }
        candidates.iter().map(|candidate| candidate.has_own).collect()
    }

    /// What all without their own series counted.
    pub(super) fn others(&self) -> &[u64] {
        &self.others
    }

    fn candidate(&self, at: usize, item: &Item<K>, now: Moment) -> Candidate {
        let known = self.known.get(&item.key);
        let added = since(&item.counters, known.map_or(&[], |known| &known.counters));
        let is_active = added.iter().any(|added| *added > 0);
        let was_active_at = known.map_or(now, |known| known.active_at);
        Candidate {
            at,
            is_active,
            is_idle: !is_active && item.backlog == 0 && now.since(was_active_at) >= IDLE_AFTER,
            has_own: known.is_some_and(|known| known.has_own) || item.is_pinned,
            is_pinned: item.is_pinned,
            backlog: item.backlog,
            added,
        }
    }

    fn decide(&self, candidates: &mut [Candidate]) {
        // The most active first, and of those the one with the largest backlog.
        candidates.sort_by_cached_key(|candidate| {
            let added: u64 = candidate.added.iter().fold(0, |sum, n| sum.saturating_add(*n));
            Reverse((added, candidate.backlog))
        });
        let mut own = candidates.iter().filter(|candidate| candidate.has_own).count();
        let wanting: Vec<usize> =
            (0..candidates.len()).filter(|&at| candidates.get(at).is_some_and(wants)).collect();
        let mut leaving: Vec<usize> = (0..candidates.len())
            .filter(|&at| candidates.get(at).is_some_and(|one| one.has_own && !one.is_pinned))
            .collect();
        leaving.sort_by_key(|&at| candidates.get(at).is_some_and(|one| one.is_idle));
        // More than there may be have some, because alerts asked for it: the idlest go.
        while own > self.own_max
            && let Some(at) = leaving.pop()
        {
            set_own(candidates, at, false);
            own -= 1;
        }
        for at in wanting {
            if own < self.own_max {
                own += 1;
            } else {
                let is_idle = |&&idle: &&usize| candidates.get(idle).is_some_and(|one| one.is_idle);
                let is_active = candidates.get(at).is_some_and(|one| one.is_active);
                let Some(&idle) = leaving.last().filter(|idle| is_active && is_idle(idle)) else {
                    break;
                };
                leaving.pop();
                set_own(candidates, idle, false);
            }
            set_own(candidates, at, true);
        }
        candidates.sort_unstable_by_key(|candidate| candidate.at);
    }
}

fn wants(candidate: &Candidate) -> bool {
    !candidate.has_own
}

fn set_own(candidates: &mut [Candidate], at: usize, has_own: bool) {
    if let Some(candidate) = candidates.get_mut(at) {
        candidate.has_own = has_own;
    }
}

/// What was counted since `before`. One that counts less than before was recreated, under its old
/// name.
fn since(counters: &[u64], before: &[u64]) -> Vec<u64> {
    let pairs = || counters.iter().zip(before.iter().copied().chain(std::iter::repeat(0)));
    if pairs().any(|(now, before)| *now < before) {
        return counters.to_vec();
    }
    pairs().map(|(now, before)| now - before).collect()
}

fn add(sums: &mut Vec<u64>, added: &[u64]) {
    sums.resize(sums.len().max(added.len()), 0);
    for (sum, added) in sums.iter_mut().zip(added) {
        *sum += added;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(key: usize, count: u64) -> Item<usize> {
        Item { key, counters: vec![count], backlog: 0, is_pinned: false }
    }

    fn items(counts: &[u64]) -> Vec<Item<usize>> {
        counts.iter().enumerate().map(|(at, count)| item(at, *count)).collect()
    }

    const LATER: Moment = Moment(601_000_000);

    #[test]
    fn the_most_active_have_their_own_and_keep_it() {
        let mut series = Series::new(2);
        assert_eq!(series.update(&items(&[1, 9, 5]), Moment(0)), [false, true, true]);
        assert_eq!(series.others(), [1]);
        // Another one is the most active now; those that have series are not idle long enough.
        assert_eq!(series.update(&items(&[100, 9, 5]), Moment(1)), [false, true, true]);
        assert_eq!(series.others(), [100]);
    }

    #[test]
    fn an_idle_one_gives_way_and_the_others_only_grow() {
        let mut series = Series::new(1);
        assert_eq!(series.update(&items(&[5, 7]), Moment(0)), [false, true]);
        assert_eq!(series.others(), [5]);
        assert_eq!(series.update(&items(&[6, 7]), LATER), [true, false]);
        assert_eq!(series.others(), [5], "what the first counts now is in its own series");
        assert_eq!(series.update(&items(&[9, 8]), LATER), [true, false]);
        assert_eq!(series.others(), [6]);
    }

    #[test]
    fn the_one_that_is_idle_gives_way_whatever_its_place() {
        for idle in [0, 1] {
            let mut series = Series::new(2);
            let mut counts = [1, 1, 0];
            series.update(&items(&counts), Moment(0));
            counts[1 - idle] = 2;
            series.update(&items(&counts), Moment(300_000_000));
            counts[2] = 1;
            let own = series.update(&items(&counts), LATER);
            assert_eq!((own[idle], own[1 - idle], own[2]), (false, true, true));
        }
    }

    #[test]
    fn one_with_a_backlog_is_not_idle() {
        let mut series = Series::new(1);
        let stuck = |count| Item { backlog: 4, ..item(1, count) };
        assert_eq!(series.update(&[item(0, 0), stuck(7)], Moment(0)), [false, true]);
        assert_eq!(series.update(&[item(0, 9), stuck(7)], LATER), [false, true]);
    }

    #[test]
    fn one_that_is_pinned_always_has_its_own() {
        let mut series = Series::new(1);
        series.update(&items(&[1, 9]), Moment(0));
        let pinned = Item { is_pinned: true, ..item(2, 0) };
        let mut all = items(&[1, 9]);
        all.push(pinned);
        let own = series.update(&all, Moment(1));
        assert_eq!(own, [false, false, true], "within the bound");
        all.iter_mut().for_each(|item| item.is_pinned = true);
        assert_eq!(series.update(&all, Moment(2)), [true; 3], "or beyond it");
        all.iter_mut().for_each(|item| item.is_pinned = false);
        assert_eq!(series.update(&all, Moment(3)).iter().filter(|own| **own).count(), 1);
        assert_eq!(series.others(), [1]);
    }

    #[test]
    fn one_that_began_anew_counts_from_there() {
        let mut series = Series::new(0);
        series.update(&items(&[5]), Moment(0));
        series.update(&items(&[2]), Moment(1));
        assert_eq!(series.others(), [7]);
        series.update(&[], Moment(2));
        series.update(&[Item { counters: vec![1, 4], ..item(0, 0) }], Moment(3));
        assert_eq!(series.others(), [8, 4], "a deleted one leaves what it counted");
    }
}
