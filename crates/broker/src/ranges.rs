//! Merging ranges of offsets.

use domain::OffsetRange;

/// The same offsets as ascending, disjoint ranges.
pub(crate) fn union(mut ranges: Vec<OffsetRange>) -> Vec<OffsetRange> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| range.from);
    let mut united: Vec<OffsetRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match united.last_mut() {
            Some(last) if range.from <= last.to => last.to = last.to.max(range.to),
            _ => united.push(range),
        }
    }
    united
}

#[cfg(test)]
mod tests {
    use domain::Offset;

    use super::*;

    fn range(from: u64, to: u64) -> OffsetRange {
        OffsetRange { from: Offset(from), to: Offset(to) }
    }

    #[test]
    fn overlapping_and_touching_ranges_become_one() {
        let ranges = vec![range(7, 9), range(1, 3), range(3, 4), range(5, 5), range(2, 6)];
        assert_eq!(union(ranges), [range(1, 6), range(7, 9)]);
    }
}
