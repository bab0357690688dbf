//! Deleting dead letters for good.

use std::sync::Arc;

use bytes::Bytes;
use domain::progress::unite;
use domain::replay::Selection;
use domain::{Offset, OffsetRange, SubscriptionId};
use storage::Kind;

use super::letters::{LetterBox, LettersWanted};
use super::replays::{DELETED, REPLAYED, handled_name};
use super::{DeadLetterAdmin, LetterPlace};
use crate::error::{Error, Result};
use crate::handled_letters::{HandledIds, nothing_done};
use crate::runtime::Runtime;
use crate::topic::Topic;

/// Maximum number of letter ranges deleted in one commit.
const RANGES_MAX: usize = 10_000;

impl DeadLetterAdmin {
    /// Deletes dead letters: they are no longer listed, counted or replayed. Subscriptions on the
    /// dead letter topic still get them. Durable when it returns.
    ///
    /// Of the selection, only letters in a state that is `wanted` are deleted. `confirm` must be
    /// the number of letters that this deletes; `FailedPrecondition` names it.
    pub(crate) async fn delete(
        self: &Arc<Self>,
        place: &LetterPlace,
        selection: Selection,
        wanted: LettersWanted,
        confirm: Option<u64>,
    ) -> Result<u64> {
        let asked = self.letter_box(place)?;
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
        let admin = Arc::clone(self);
        let change = async move {
            admin.make_ids(asked.topic()).await?;
            for some in letters.chunks(RANGES_MAX) {
                let Runtime { log, changed_letters, .. } = &**asked.topic().runtime();
                let deleted = asked.letters().delete(&**log, changed_letters, some.to_vec());
                deleted.ok_or(Error::Closing)?.await?;
            }
            admin.audit(&asked, "delete dead letters", format!("{count} deleted"));
            Ok(())
        };
        self.catalogue.change(change).await?;
        Ok(count)
    }

    /// The selected letters of `letter_box` that are in a wanted state and not deleted.
    async fn selected(
        &self,
        letter_box: &LetterBox,
        selection: &Selection,
        wanted: LettersWanted,
    ) -> Result<Vec<OffsetRange>> {
        let (mut at, end) = self.selection_range(letter_box, selection).await?;
        let mut ranges = Vec::new();
        loop {
            let stretch = self.stretch(letter_box, at, end).await?;
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
        letter_box: &LetterBox,
        selection: &Selection,
    ) -> Result<(Offset, Offset)> {
        let since = match selection {
            Selection::Matching(criteria) => criteria.since,
            Selection::Messages(_) => None,
        };
        let first = self.first_letter(letter_box.topic(), since).await?;
        let end = letter_box.topic().log().end(letter_box.topic().id());
        Ok(match selection.bounds() {
            Some((from, last)) => (from.max(first), last.next().min(end)),
            None => (first, end),
        })
    }

    /// Records an operator's action on dead letters.
    pub(super) fn audit(&self, letter_box: &LetterBox, act: &'static str, details: String) {
        let resource = match &letter_box.subscription {
            Some(name) => name.to_string(),
            None => letter_box.topic().name().to_string(),
        };
        self.auditor.record(act, resource, Some(details));
    }

    /// Creates the records for a dead letter topic's handled letters, if there are none yet. They
    /// are on stable storage when this returns.
    pub(super) async fn make_ids(&self, topic: &Topic) -> Result<HandledIds> {
        let _ledger = self.catalogue.lock().await;
        if let Some(ids) = topic.letters().ids() {
            return Ok(ids);
        }
        let replayed = self.make_id(topic, REPLAYED).await?;
        let deleted = self.make_id(topic, DELETED).await?;
        let ids = HandledIds { replayed, deleted };
        topic.letters().open(ids, nothing_done(), nothing_done());
        Ok(ids)
    }

    /// One may already exist: creating the other failed the last time.
    async fn make_id(&self, topic: &Topic, what: &str) -> Result<SubscriptionId> {
        let store = self.catalogue.store();
        let name = handled_name(topic.id(), what);
        let entry = match store.put(Kind::HandledLetters, &name, Bytes::new(), None).await {
            Err(storage::Error::Conflict) => store.get(Kind::HandledLetters, &name).await?,
            other => other?,
        };
        Ok(SubscriptionId(entry.id))
    }
}
