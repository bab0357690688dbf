//! Where groups are filed: those of one collection that require a certain value, or none.

use super::ids::{Set, Short};
use super::thresholds::{Bound, Kind, Thresholds};

/// No group.
pub(super) const NONE: u32 = u32::MAX;

/// Groups that a message may match if it has the bucket's value.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    pub(super) scope: u32,
    /// The field that has the value; `ROOT` = the bucket belongs to the whole collection.
    pub(super) path: u32,
    /// The value, encoded.
    pub(super) value: Box<[u8]>,
    /// The group that requires nothing more.
    pub(super) exact: u32,
    /// Groups whose programs have to be run.
    pub(super) checked: Short,
    /// Behind a pointer, because most buckets have none.
    #[expect(clippy::box_collection, reason = "there are as many buckets as values")]
    thresholds: Option<Box<Vec<Thresholds>>>,
    /// How many groups are filed here.
    pub(super) filed: u32,
}

/// The path of a bucket that stands for a whole collection.
pub(super) const ROOT: u32 = u32::MAX;

/// Identical filters of one collection, and the subscriptions that have them.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) scope: u32,
    pub(super) program: Box<[u8]>,
    pub(super) subscriptions: Set,
    pub(super) filings: Filings,
}

/// Where a group is filed.
#[derive(Clone, Debug)]
pub(super) enum Filings {
    One(Filing),
    #[expect(clippy::box_collection, reason = "most groups are filed once, and must be small")]
    Several(Box<Vec<Filing>>),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Filing {
    pub(super) bucket: u32,
    pub(super) spot: Spot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    Exact,
    /// At this position among the groups that have to be run.
    Checked(u32),
    /// Among bounds; `true` = each of its subscriptions separately, because nothing has to be run.
    Bound(bool),
}

impl Filings {
    pub(super) fn new(mut filings: Vec<Filing>) -> Self {
        match filings.pop() {
            Some(only) if filings.is_empty() => Self::One(only),
            last => {
                filings.extend(last);
                Self::Several(Box::new(filings))
            }
        }
    }

    pub(super) fn as_slice(&self) -> &[Filing] {
        match self {
            Self::One(filing) => std::slice::from_ref(filing),
            Self::Several(filings) => filings,
        }
    }

    /// The group moved among those of `bucket` that have to be run.
    pub(super) fn moved(&mut self, bucket: u32, from: u32, to: u32) {
        let filings = match self {
            Self::One(filing) => std::slice::from_mut(filing),
            Self::Several(filings) => filings,
        };
        let there =
            |filing: &&mut Filing| filing.bucket == bucket && filing.spot == Spot::Checked(from);
        if let Some(filing) = filings.iter_mut().find(there) {
            filing.spot = Spot::Checked(to);
        }
    }
}

impl Bucket {
    pub(super) fn new(scope: u32, path: u32, value: &[u8]) -> Self {
        Self {
            scope,
            path,
            value: value.into(),
            exact: NONE,
            checked: Short::None,
            thresholds: None,
            filed: 0,
        }
    }

    pub(super) fn thresholds(&self) -> &[Thresholds] {
        self.thresholds.as_deref().map_or(&[], Vec::as_slice)
    }

    pub(super) fn insert_bound(&mut self, kind: Kind, bound: Bound, number: u32) {
        let lists = self.thresholds.get_or_insert_default();
        if let Some(list) = lists.iter_mut().find(|list| list.kind == kind) {
            return list.insert(bound, number);
        }
        let mut list = Thresholds::new(kind);
        list.insert(bound, number);
        lists.push(list);
    }

    pub(super) fn remove_bound(&mut self, kind: Kind, bound: &Bound, number: u32) {
        let Some(lists) = &mut self.thresholds else { return };
        if let Some(at) = lists.iter().position(|list| list.kind == kind)
            && let Some(list) = lists.get_mut(at)
        {
            list.remove(bound, number);
            if list.is_empty() {
                lists.swap_remove(at);
            }
        }
        if lists.is_empty() {
            self.thresholds = None;
        }
    }
}
