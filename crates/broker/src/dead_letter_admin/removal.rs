//! Dead letters deleted for good.

use domain::progress::unite;
use domain::replay::Selection;
use domain::{Offset, OffsetRange, SubscriptionId};

use super::letters::{LettersWanted, Place};
use super::{LetterPlace, Marks};
use crate::broker::Broker;
use crate::error::{Error, Result};

/// Ranges of letters deleted in one commit, at most.
const RANGES_MAX: usize = 10_000;

impl Broker {
    /// Deletes dead letters: they are not listed, counted or replayed any more. Whoever is
    /// subscribed to the dead letter topic still gets them. Durable when it returns.
    ///
    /// Of the selection only those in a state that is `wanted` are deleted. `confirm` must be the
    /// number of letters that this deletes; `FailedPrecondition` names it.
    pub async fn delete_letters(
        &self,
        place: &LetterPlace,
        selection: Selection,
        wanted: LettersWanted,
        confirm: Option<u64>,
    ) -> Result<u64> {
        let asked = self.letter_place(place)?;
        let letters = self.selected(&asked, &selection, wanted).await?;
        let count = letters.iter().map(|range| range.len()).sum();
        if confirm != Some(count) {
            return Err(Error::FailedPrecondition(format!(
                "this deletes {count} dead letters for good; repeat the call with confirm {count}"
            )));
        }
        if count == 0 {
            return Ok(0);
        }
        self.change(|broker| async move {
            broker.make_marks(&asked.topic).await?;
            let runtime = &broker.runtime;
            for some in letters.chunks(RANGES_MAX) {
                let desk = asked.topic.desk();
                let deleted = desk.delete(&*runtime.log, &runtime.changed, some.to_vec());
                deleted.ok_or(Error::Closing)?.await?;
            }
            broker.audit_letters(&asked, "delete dead letters", format!("{count} deleted"));
            Ok(())
        })
        .await?;
        Ok(count)
    }

    /// The letters of `place` that are selected, in a state that is wanted, and not deleted.
    async fn selected(
        &self,
        place: &Place,
        selection: &Selection,
        wanted: LettersWanted,
    ) -> Result<Vec<OffsetRange>> {
        let (mut at, end) = self.selection_range(place, selection).await?;
        let mut ranges = Vec::new();
        loop {
            let stretch = self.stretch(place, at, end).await?;
            for (record, state) in stretch.letters {
                if wanted.want(state) && selection.wants(&record) {
                    unite(&mut ranges, OffsetRange::one(record.offset));
                }
            }
            match stretch.next {
                Some(next) => at = next,
                None => return Ok(ranges),
            }
        }
    }

    /// Where the letters of a selection can be, as of now.
    pub(super) async fn selection_range(
        &self,
        place: &Place,
        selection: &Selection,
    ) -> Result<(Offset, Offset)> {
        let since = match selection {
            Selection::Matching(criteria) => criteria.since,
            Selection::Messages(_) => None,
        };
        let first = self.first_letter(&place.topic, since).await?;
        let end = self.runtime.log.end(place.topic.id());
        Ok(match selection.bounds() {
            Some((from, last)) => (from.max(first), last.next().min(end)),
            None => (first, end),
        })
    }

    /// Puts an operator's act on dead letters on record.
    pub(super) fn audit_letters(&self, place: &Place, act: &'static str, details: String) {
        let resource = match &place.subscription {
            Some(name) => name.to_string(),
            None => place.topic.name().to_string(),
        };
        self.audit(act, resource, Some(details));
    }

    /// Makes the marks of a dead letter topic, if it has none yet. They are on stable storage
    /// when this returns.
    pub(super) async fn make_marks(&self, topic: &crate::topic::Topic) -> Result<Marks> {
        let _admin = self.admin.lock().await;
        if let Some(marks) = topic.desk().marks() {
            return Ok(marks);
        }
        let replayed = self.make_mark(topic, super::replays::REPLAYED).await?;
        let deleted = self.make_mark(topic, super::replays::DELETED).await?;
        let marks = Marks { replayed, deleted };
        topic.desk().open(marks, super::no_marks(), super::no_marks());
        Ok(marks)
    }

    /// One may be there already: making the other failed the last time.
    async fn make_mark(&self, topic: &crate::topic::Topic, what: &str) -> Result<SubscriptionId> {
        let catalogue = &self.engine.catalogue;
        let name = super::replays::desk_name(topic.id(), what);
        let kind = storage::Kind::Desk;
        let entry = match catalogue.put(kind, &name, bytes::Bytes::new(), None).await {
            Err(storage::Error::Conflict) => catalogue.get(kind, &name).await?,
            other => other?,
        };
        Ok(SubscriptionId(entry.id))
    }
}
