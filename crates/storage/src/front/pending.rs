//! Changes of progress that are durable in the log but not yet in a checkpoint.

use std::collections::BTreeMap;

use bytes::{Buf, BufMut};
use domain::{Progress, ProgressChange, SubscriptionId};

use super::format::{to_u32, to_usize};

const HEADER: usize = 12;

/// By subscription, the encoded changes in log order: `| group 8 | length 4 | change | …`, a few
/// bytes each instead of a tree of small vectors.
#[derive(Debug, Default)]
pub(crate) struct Pending(BTreeMap<SubscriptionId, Vec<u8>>);

/// A stored change that is unreadable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;

impl Pending {
    /// Notes a change that group `group` made durable; group numbers ascend.
    pub(crate) fn note(&mut self, subscription: SubscriptionId, group: u64, change: &[u8]) {
        let changes = self.0.entry(subscription).or_default();
        changes.put_u64_le(group);
        changes.put_u32_le(to_u32(change.len()));
        changes.put_slice(change);
    }

    /// Applies all changes of `subscription` to its checkpointed progress.
    pub(crate) fn apply(
        &self,
        subscription: SubscriptionId,
        progress: &mut Progress,
    ) -> Result<(), Unreadable> {
        let mut rest = self.0.get(&subscription).map(Vec::as_slice).unwrap_or_default();
        while let Some((_, change, behind)) = split(rest) {
            progress.apply(&ProgressChange::decode(change).map_err(|_| Unreadable)?);
            rest = behind;
        }
        Ok(())
    }

    /// Drops what a checkpoint at `group` includes.
    pub(crate) fn forget_up_to(&mut self, group: u64) {
        self.0.retain(|_, changes| {
            let mut rest = changes.as_slice();
            while let Some((number, _, behind)) = split(rest) {
                if number > group {
                    break;
                }
                rest = behind;
            }
            let done = changes.len() - rest.len();
            changes.drain(..done);
            if changes.len() < changes.capacity() / 4 {
                changes.shrink_to(changes.len() * 2);
            }
            !changes.is_empty()
        });
    }

    /// Drops everything for a subscription that is gone.
    pub(crate) fn forget(&mut self, subscription: SubscriptionId) {
        self.0.remove(&subscription);
    }
}

/// The first change: its group, its bytes, and what follows.
fn split(bytes: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let (mut header, rest) = bytes.split_at_checked(HEADER)?;
    let group = header.get_u64_le();
    let (change, behind) = rest.split_at_checked(to_usize(header.get_u32_le()))?;
    Some((group, change, behind))
}

#[cfg(test)]
mod tests {
    use domain::{Offset, OffsetRange};

    use super::*;

    fn settled(offset: u64) -> Vec<u8> {
        let mut out = Vec::new();
        ProgressChange::Settled(vec![OffsetRange::one(Offset(offset))]).encode(&mut out);
        out
    }

    fn cursor(pending: &Pending) -> u64 {
        let mut progress = Progress::starting_at(Offset(0));
        pending.apply(SubscriptionId(1), &mut progress).unwrap();
        progress.cursor().0
    }

    #[test]
    fn changes_are_applied_until_a_checkpoint_contains_them() {
        let mut pending = Pending::default();
        for offset in 0..4 {
            pending.note(SubscriptionId(1), 10 + offset, &settled(offset));
        }
        pending.note(SubscriptionId(2), 14, &settled(99));
        assert_eq!(cursor(&pending), 4);
        pending.forget_up_to(11);
        assert_eq!(cursor(&pending), 0, "0 and 1 are in the checkpoint, not in here");
        pending.forget_up_to(13);
        assert_eq!(pending.0.len(), 1);
        pending.forget(SubscriptionId(2));
        assert!(pending.0.is_empty());
    }

    #[test]
    fn an_unreadable_change_is_told() {
        let mut pending = Pending::default();
        pending.note(SubscriptionId(1), 1, &[0xff; 9]);
        let mut progress = Progress::default();
        assert_eq!(pending.apply(SubscriptionId(1), &mut progress), Err(Unreadable));
    }
}
