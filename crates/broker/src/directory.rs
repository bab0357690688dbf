//! All definitions of the store, whichever node runs them.
//!
//! With one shard everything runs here, and the registry knows it; only the dead letter policies
//! are counted then. With several, every node follows the catalogue's changes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use domain::{ShardId, TopicName};
use parking_lot::Mutex;
use storage::Kind;

/// What a definition says that others need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Its id.
    pub(crate) id: u64,
    /// The catalogue's version of it.
    pub(crate) version: u64,
    /// The shard it is in.
    pub(crate) shard: ShardId,
    /// The topic its dead letters go to.
    pub(crate) letters: Option<TopicName>,
}

/// Who is where.
pub(crate) struct Directory {
    /// Whether it lists anything: with one shard it does not have to.
    lists: bool,
    known: Mutex<Known>,
    /// The catalogue's changes up to this one are known.
    serial: AtomicU64,
}

#[derive(Default)]
struct Known {
    entries: BTreeMap<(Kind, String), Listed>,
    /// How many dead letter policies name a topic, living or not.
    policies: BTreeMap<TopicName, usize>,
}

impl Directory {
    /// Empty, for a store of `shards` shards.
    pub(crate) fn new(shards: u32) -> Self {
        let (known, serial) = (Mutex::default(), AtomicU64::new(0));
        Self { lists: shards > 1, known, serial }
    }

    /// Whether it lists all definitions.
    pub(crate) fn lists(&self) -> bool {
        self.lists
    }

    /// A definition was stored. Returns the dead letter topics that this made or unmade: `before`
    /// is the policy so far, where that is not listed.
    pub(crate) fn put(
        &self,
        kind: Kind,
        name: &str,
        listed: Listed,
        before: Option<TopicName>,
    ) -> Vec<(TopicName, bool)> {
        let mut known = self.known.lock();
        if !self.lists {
            return known.change_policy(before, listed.letters);
        }
        let key = (kind, name.to_owned());
        let before = match known.entries.get(&key) {
            Some(old) if old.version >= listed.version => return Vec::new(),
            Some(old) => old.letters.clone(),
            None => None,
        };
        let after = listed.letters.clone();
        known.entries.insert(key, listed);
        known.change_policy(before, after)
    }

    /// A definition was deleted; the rest as with `put`.
    pub(crate) fn remove(
        &self,
        kind: Kind,
        name: &str,
        id: u64,
        before: Option<TopicName>,
    ) -> Vec<(TopicName, bool)> {
        let mut known = self.known.lock();
        if !self.lists {
            return known.change_policy(before, None);
        }
        let key = (kind, name.to_owned());
        match known.entries.get(&key) {
            Some(old) if old.id == id => {}
            _ => return Vec::new(),
        }
        let before = known.entries.remove(&key).and_then(|old| old.letters);
        known.change_policy(before, None)
    }

    /// Forgets what is not listed: it is counted anew when its shard is opened again.
    pub(crate) fn forget_unlisted(&self) {
        if !self.lists {
            self.known.lock().policies.clear();
        }
    }

    /// Names that are listed and not among `living`.
    pub(crate) fn others(&self, kind: Kind, living: &dyn Fn(&str) -> bool) -> Vec<(String, u64)> {
        let known = self.known.lock();
        let of_kind = known.entries.iter().filter(|((of, name), _)| *of == kind && !living(name));
        of_kind.map(|((_, name), listed)| (name.clone(), listed.id)).collect()
    }

    /// Whether a dead letter policy names that topic.
    pub(crate) fn is_dead_letter(&self, topic: &TopicName) -> bool {
        self.known.lock().policies.contains_key(topic)
    }

    /// What is listed under that name.
    pub(crate) fn listed(&self, kind: Kind, name: &str) -> Option<Listed> {
        self.known.lock().entries.get(&(kind, name.to_owned())).cloned()
    }

    /// The changes up to `serial` are known.
    pub(crate) fn reach(&self, serial: u64) {
        self.serial.fetch_max(serial, Ordering::SeqCst);
    }

    /// How far the changes are known.
    pub(crate) fn serial(&self) -> u64 {
        self.serial.load(Ordering::SeqCst)
    }
}

impl Known {
    fn change_policy(
        &mut self,
        before: Option<TopicName>,
        after: Option<TopicName>,
    ) -> Vec<(TopicName, bool)> {
        let mut changed = Vec::new();
        if before == after {
            return changed;
        }
        if let Some(name) = after {
            let count = self.policies.entry(name.clone()).or_default();
            *count += 1;
            if *count == 1 {
                changed.push((name, true));
            }
        }
        if let Some(name) = before
            && let Some(count) = self.policies.get_mut(&name)
        {
            *count -= 1;
            if *count == 0 {
                self.policies.remove(&name);
                changed.push((name, false));
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(id: &str) -> TopicName {
        TopicName::parse("topic", &format!("projects/p/topics/{id}")).unwrap()
    }

    fn listed(id: u64, version: u64, letters: Option<&str>) -> Listed {
        Listed { id, version, shard: ShardId(3), letters: letters.map(topic) }
    }

    #[test]
    fn a_topic_is_for_dead_letters_while_any_policy_names_it() {
        let directory = Directory::new(4);
        let put = |name: &str, listed| directory.put(Kind::Subscription, name, listed, None);
        assert_eq!(put("a", listed(1, 1, Some("dead"))), [(topic("dead"), true)]);
        assert_eq!(put("b", listed(2, 2, Some("dead"))), []);
        assert_eq!(put("a", listed(1, 3, None)), []);
        assert!(directory.is_dead_letter(&topic("dead")));
        let removed = directory.remove(Kind::Subscription, "b", 2, None);
        assert_eq!(removed, [(topic("dead"), false)]);
        assert!(!directory.is_dead_letter(&topic("dead")));
    }

    #[test]
    fn what_is_heard_late_changes_nothing() {
        let directory = Directory::new(4);
        let put = |listed| directory.put(Kind::Subscription, "a", listed, None);
        put(listed(5, 9, None));
        assert_eq!(put(listed(1, 4, Some("dead"))), []);
        assert_eq!(directory.remove(Kind::Subscription, "a", 1, None), []);
        assert_eq!(directory.listed(Kind::Subscription, "a"), Some(listed(5, 9, None)));
    }

    #[test]
    fn with_one_shard_only_policies_are_counted() {
        let directory = Directory::new(1);
        let before = Some(topic("dead"));
        directory.put(Kind::Subscription, "a", listed(1, 1, Some("dead")), None);
        assert_eq!(directory.listed(Kind::Subscription, "a"), None);
        assert!(directory.is_dead_letter(&topic("dead")));
        let changed = directory.put(Kind::Subscription, "a", listed(1, 2, None), before);
        assert_eq!(changed, [(topic("dead"), false)]);
    }
}
