//! A set of offsets in pages of 4,096: absent = empty, full, or one bit per offset.

use std::collections::BTreeMap;

/// Offsets per page.
const PAGE: u64 = 4_096;
/// Offsets per word of a page.
pub(super) const WORD: u64 = 64;
const WORDS: usize = 64;

/// A set of offsets. The greatest offset, `u64::MAX`, is never in it.
#[derive(Clone, Debug, Default)]
pub(super) struct Acked {
    /// Pages that are neither full nor absent, by page number. One whose bits were all dropped
    /// stays until the cursor has left it, so that slightly out-of-order acks need no allocation.
    bits: BTreeMap<u64, Box<Bits>>,
    /// Runs of full pages: first page → the page after the last. They neither overlap nor touch.
    full: BTreeMap<u64, u64>,
    count: u64,
}

#[derive(Clone, Debug)]
struct Bits {
    words: [u64; WORDS],
    /// How many bits are set.
    count: u64,
}

impl Acked {
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn contains(&self, offset: u64) -> bool {
        let page = offset / PAGE;
        match self.bits.get(&page) {
            Some(bits) => bits.word(offset / WORD) & bit(offset) != 0,
            None => self.full_run_of(page).is_some(),
        }
    }

    /// Adds the offsets `from ≤ o < to`; returns how many were new.
    pub(super) fn insert(&mut self, from: u64, to: u64) -> u64 {
        let (first, last) = (from / PAGE, to / PAGE);
        let fresh = if first == last {
            self.insert_in_page(first, from % PAGE, to % PAGE)
        } else {
            let full_from = from.div_ceil(PAGE);
            let head =
                if full_from > first { self.insert_in_page(first, from % PAGE, PAGE) } else { 0 };
            head + self.fill(full_from, last) + self.insert_in_page(last, 0, to % PAGE)
        };
        self.count += fresh;
        fresh
    }

    /// The lowest offset in the set from `from` on.
    pub(super) fn next_set(&self, from: u64) -> Option<u64> {
        let page = from / PAGE;
        if self.full_run_of(page).is_some() {
            return Some(from);
        }
        if let Some(found) = self.bits.get(&page).and_then(|bits| bits.next_set(from % PAGE)) {
            return Some(page * PAGE + found);
        }
        let in_bits = self
            .bits
            .range(page + 1..)
            .find_map(|(&number, bits)| bits.next_set(0).map(|found| number * PAGE + found));
        let in_full = self.full.range(page + 1..).next().map(|(&first, _)| first * PAGE);
        in_bits.into_iter().chain(in_full).min()
    }

    /// The lowest offset not in the set from `from` on.
    pub(super) fn next_clear(&self, from: u64) -> u64 {
        let mut from = from;
        loop {
            let page = from / PAGE;
            if let Some(end) = self.full_run_of(page) {
                from = end * PAGE;
                continue;
            }
            let Some(bits) = self.bits.get(&page) else {
                return from;
            };
            match bits.next_clear(from % PAGE) {
                Some(found) => return page * PAGE + found,
                // The very last page is never entirely set, so there is a next one.
                None => from = (page + 1) * PAGE,
            }
        }
    }

    /// Removes every offset below `offset`, which itself must not be in the set.
    pub(super) fn drop_below(&mut self, offset: u64) {
        let page = offset / PAGE;
        while let Some(entry) = self.bits.first_entry() {
            if *entry.key() >= page {
                break;
            }
            self.count -= entry.remove().count;
        }
        while let Some(entry) = self.full.first_entry() {
            if *entry.key() >= page {
                break;
            }
            let (first, end) = entry.remove_entry();
            debug_assert!(end <= page, "the cursor stands inside a full page");
            self.count -= (end - first) * PAGE;
        }
        if let Some(bits) = self.bits.get_mut(&page) {
            self.count -= bits.clear_below(offset % PAGE);
        }
    }

    /// The pages in ascending order, as runs of equal words or single mixed words, for storing:
    /// (first word, how many words, their value). Empty words are omitted.
    pub(super) fn words(&self) -> Vec<(u64, u64, u64)> {
        const PER_PAGE: u64 = PAGE / WORD;
        let mut words: Vec<_> = self
            .full
            .iter()
            .map(|(&first, &end)| (first * PER_PAGE, (end - first) * PER_PAGE, u64::MAX))
            .collect();
        for (&page, bits) in &self.bits {
            let numbered = (page * PER_PAGE..).zip(bits.words);
            words.extend(numbered.filter(|&(_, word)| word != 0).map(|(at, word)| (at, 1, word)));
        }
        words.sort_unstable();
        words
    }

    pub(super) fn memory_bytes(&self) -> usize {
        const BITS: usize = size_of::<Bits>() + 2 * size_of::<(u64, Box<Bits>)>();
        const FULL: usize = 2 * size_of::<(u64, u64)>();
        self.bits.len() * BITS + self.full.len() * FULL
    }

    /// The page after the run of full pages that contains `page`.
    fn full_run_of(&self, page: u64) -> Option<u64> {
        let (_, &end) = self.full.range(..=page).next_back()?;
        (end > page).then_some(end)
    }

    /// Sets the bits `from ≤ p < to` of one page; returns how many were new.
    fn insert_in_page(&mut self, page: u64, from: u64, to: u64) -> u64 {
        if from >= to || self.full_run_of(page).is_some() {
            return 0;
        }
        let bits = self.bits.entry(page).or_insert_with(|| Box::new(Bits::EMPTY));
        let fresh = bits.set(from, to);
        if bits.count == PAGE {
            self.bits.remove(&page);
            self.add_full_run(page, page + 1);
        }
        fresh
    }

    /// Makes the pages `first ≤ p < end` full; returns how many offsets were new.
    fn fill(&mut self, first: u64, end: u64) -> u64 {
        if first >= end {
            return 0;
        }
        let mut known = 0;
        while let Some((&page, bits)) = self.bits.range(first..end).next() {
            known += bits.count;
            self.bits.remove(&page);
        }
        (end - first - self.add_full_run(first, end)) * PAGE - known
    }

    /// Merges a run with those it overlaps or touches; returns how many of its pages were already
    /// full.
    fn add_full_run(&mut self, first: u64, end: u64) -> u64 {
        let (mut united_first, mut united_end, mut known) = (first, end, 0);
        while let Some((&other_first, &other_end)) = self.full.range(..=end).next_back() {
            if other_end < first {
                break;
            }
            known += other_end.min(end) - other_first.max(first);
            united_first = united_first.min(other_first);
            united_end = united_end.max(other_end);
            self.full.remove(&other_first);
        }
        self.full.insert(united_first, united_end);
        known
    }
}

impl Bits {
    const EMPTY: Self = Self { words: [0; WORDS], count: 0 };

    fn word(&self, number: u64) -> u64 {
        self.words.get(word_index(number)).copied().unwrap_or_default()
    }

    fn set(&mut self, from: u64, to: u64) -> u64 {
        let first = from / WORD;
        let words = self.words.get_mut(word_index(first)..).unwrap_or_default();
        let mut fresh = 0;
        for (start, word) in (first * WORD..to).step_by(WORDS).zip(words) {
            let mask = mask_within(from, to, start) & !*word;
            *word |= mask;
            fresh += u64::from(mask.count_ones());
        }
        self.count += fresh;
        fresh
    }

    /// Clears the bits below `to`; returns how many were set.
    fn clear_below(&mut self, to: u64) -> u64 {
        let mut cleared = 0;
        for (start, word) in (0..to).step_by(WORDS).zip(&mut self.words) {
            let mask = mask_within(0, to, start) & *word;
            *word &= !mask;
            cleared += u64::from(mask.count_ones());
        }
        self.count -= cleared;
        cleared
    }

    fn next_set(&self, from: u64) -> Option<u64> {
        self.next_in(from, |word| word)
    }

    fn next_clear(&self, from: u64) -> Option<u64> {
        self.next_in(from, |word| !word)
    }

    fn next_in(&self, from: u64, view: impl Fn(u64) -> u64) -> Option<u64> {
        let first = from / WORD;
        let masked = view(self.word(first)) & (u64::MAX << (from % WORD));
        if masked != 0 {
            return Some(first * WORD + u64::from(masked.trailing_zeros()));
        }
        let rest = self.words.get(word_index(first) + 1..)?;
        let (number, word) = (first + 1..)
            .zip(rest)
            .map(|(number, &word)| (number, view(word)))
            .find(|w| w.1 != 0)?;
        Some(number * WORD + u64::from(word.trailing_zeros()))
    }
}

fn bit(offset: u64) -> u64 {
    1 << (offset % WORD)
}

/// The index in its page of the word numbered `number` (over all pages).
fn word_index(number: u64) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "below 64")]
    {
        (number % WORDS as u64) as usize
    }
}

/// The bits of the word starting at `start` that are in `from ≤ p < to`.
fn mask_within(from: u64, to: u64, start: u64) -> u64 {
    let from = from.saturating_sub(start).min(WORD);
    let to = to.saturating_sub(start).min(WORD);
    if from >= to { 0 } else { (u64::MAX << from) & (u64::MAX >> (WORD - to)) }
}
