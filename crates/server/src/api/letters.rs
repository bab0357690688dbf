//! Dead letters: listed, looked at, replayed, deleted.

use broker::{FoundLetter, LetterPlace, LetterQuery, LettersWanted, Replay, ReplayRequest};
use domain::replay::{Criteria, Destination, MESSAGES_MAX, Selection};
use domain::{Filter, Invalid, Offset, ProjectName, SubscriptionName, TopicName};

use super::{Api, paging};
use crate::convert;
use crate::status::Result;

/// Letters on a page unless another number is asked for.
const PAGE_SIZE_DEFAULT: i32 = 100;

/// Letters each second, at most; zero is as fast as it goes.
const PER_SECOND_MAX: u32 = 1_000_000;

/// What letters are looked for, as a caller writes it. Empty = it is not asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CriteriaText {
    pub(crate) filter: String,
    pub(crate) class: String,
    pub(crate) since: String,
    pub(crate) until: String,
}

impl CriteriaText {
    fn read(&self) -> Result<Criteria, Invalid> {
        let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let filter = given(&self.filter).map(|text| Filter::parse("filter", &text));
        let since = given(&self.since).map(|text| convert::time("since", &text));
        let until = given(&self.until).map(|text| convert::time("until", &text));
        Ok(Criteria {
            filter: filter.transpose()?,
            class: given(&self.class),
            since: since.transpose()?,
            until: until.transpose()?,
        })
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Which letters to list.
#[derive(Debug, Default)]
pub(crate) struct ListLetters {
    /// A dead letter topic, or a subscription whose letters are asked for.
    pub(crate) resource: String,
    pub(crate) criteria: CriteriaText,
    /// Their state; empty = those nobody has handled.
    pub(crate) state: String,
    /// Most in one answer; 0 leaves it to us.
    pub(crate) page_size: i32,
    /// Where to continue; empty = at the oldest.
    pub(crate) page_token: String,
}

/// A page of letters, the oldest first.
pub(crate) struct LettersPage {
    pub(crate) topic: TopicName,
    pub(crate) letters: Vec<FoundLetter>,
    /// Empty = this is the last one.
    pub(crate) next_page_token: String,
}

/// Which letters something is done with.
#[derive(Debug, Default)]
pub(crate) struct Selected {
    pub(crate) message_ids: Vec<String>,
    pub(crate) criteria: CriteriaText,
    pub(crate) all: bool,
}

impl Selected {
    /// Nothing is done to all letters unless the caller says so.
    fn read(&self) -> Result<Selection, Invalid> {
        let by_id = !self.message_ids.is_empty();
        let by_criteria = !self.criteria.is_empty();
        match [by_id, by_criteria, self.all].into_iter().filter(|is_given| *is_given).count() {
            1 => {}
            0 => {
                let problem = "which letters? Give message_ids, any of filter, class, since and \
                               until, or all";
                return Err(Invalid::new("message_ids", problem));
            }
            _ => {
                let problem = "give only one of message_ids, any of filter, class, since and \
                               until, or all";
                return Err(Invalid::new("message_ids", problem));
            }
        }
        if !by_id {
            return Ok(Selection::Matching(self.criteria.read()?));
        }
        if self.message_ids.len() > MESSAGES_MAX {
            let count = self.message_ids.len();
            let problem = format!("{count} are given, at most {MESSAGES_MAX} are allowed");
            return Err(Invalid::new("message_ids", problem));
        }
        let ids = self.message_ids.iter().enumerate();
        let offsets: Result<_, _> =
            ids.map(|(at, id)| message_id(&format!("message_ids[{at}]"), id)).collect();
        Ok(Selection::Messages(offsets?))
    }
}

/// What to replay.
#[derive(Debug, Default)]
pub(crate) struct ReplayLetters {
    pub(crate) resource: String,
    pub(crate) selected: Selected,
    /// Empty = to the subscription.
    pub(crate) to: String,
    pub(crate) per_second: i64,
    pub(crate) again: bool,
}

impl Api {
    pub(crate) async fn list_letters(&self, request: &ListLetters) -> Result<LettersPage> {
        let place = place(&request.resource)?;
        let wanted = wanted(&request.state, LettersWanted::Waiting)?;
        let size = if request.page_size == 0 { PAGE_SIZE_DEFAULT } else { request.page_size };
        let query = LetterQuery {
            criteria: request.criteria.read()?,
            wanted,
            from: paging::offset_of(&request.page_token)?,
            limit: paging::page_size(size)?,
        };
        let page = self.broker.dead_letters(&place, &query).await?;
        let next_page_token = page.next.map(paging::offset_token).unwrap_or_default();
        Ok(LettersPage { topic: page.topic, letters: page.letters, next_page_token })
    }

    /// One letter by `{topic}/deadLetters/{messageId}`.
    pub(crate) async fn get_letter(&self, name: &str) -> Result<(TopicName, FoundLetter)> {
        let (topic, id) = name.rsplit_once("/deadLetters/").unwrap_or((name, ""));
        let topic = TopicName::parse("topic", topic)?;
        let found = self.broker.dead_letter(&topic, message_id("message_id", id)?).await?;
        Ok((topic, found))
    }

    pub(crate) async fn replay_letters(&self, request: &ReplayLetters) -> Result<Replay> {
        let to = match request.to.as_str() {
            "" => Destination::default(),
            word => Destination::parse(word).ok_or_else(|| {
                Invalid::new("to", format!("{word:?} is not subscription or topic"))
            })?,
        };
        let per_second = u32::try_from(request.per_second).ok();
        let per_second = per_second.filter(|&rate| rate <= PER_SECOND_MAX).ok_or_else(|| {
            let problem = format!("{}, 0 to {PER_SECOND_MAX} are allowed", request.per_second);
            Invalid::new("per_second", problem)
        })?;
        let request = ReplayRequest {
            place: place(&request.resource)?,
            selection: request.selected.read()?,
            to,
            per_second,
            again: request.again,
        };
        Ok(self.broker.replay_letters(request).await?)
    }

    pub(crate) async fn delete_letters(
        &self,
        resource: &str,
        selected: &Selected,
        state: &str,
        confirm: Option<u64>,
    ) -> Result<u64> {
        let (place, selection) = (place(resource)?, selected.read()?);
        let wanted = wanted(state, LettersWanted::All)?;
        Ok(self.broker.delete_letters(&place, selection, wanted, confirm).await?)
    }

    pub(crate) fn list_replays(&self, project: &str) -> Result<Vec<Replay>> {
        Ok(self.broker.replays(&ProjectName::parse("project", project)?))
    }

    pub(crate) fn get_replay(&self, name: &str) -> Result<Replay> {
        Ok(self.broker.replay(name)?)
    }

    pub(crate) async fn cancel_replay(&self, name: &str) -> Result<Replay> {
        Ok(self.broker.cancel_replay(name).await?)
    }
}

/// Which letters, by state.
fn wanted(state: &str, default: LettersWanted) -> Result<LettersWanted, Invalid> {
    match state {
        "" => Ok(default),
        "waiting" => Ok(LettersWanted::Waiting),
        "replayed" => Ok(LettersWanted::Replayed),
        "all" => Ok(LettersWanted::All),
        other => {
            let problem = format!("{other:?} is not waiting, replayed or all");
            Err(Invalid::new("state", problem))
        }
    }
}

fn place(resource: &str) -> Result<LetterPlace, Invalid> {
    if resource.contains("/subscriptions/") {
        SubscriptionName::parse("subscription", resource).map(LetterPlace::Subscription)
    } else {
        TopicName::parse("topic", resource).map(LetterPlace::Topic)
    }
}

/// A message id is the offset in decimal.
fn message_id(field: &str, id: &str) -> Result<Offset, Invalid> {
    let wrong = |_| Invalid::new(field, format!("{id:?} is not a message id"));
    id.parse().map(Offset).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[&str]) -> Selected {
        let message_ids = ids.iter().map(|&id| id.to_owned()).collect();
        Selected { message_ids, ..Selected::default() }
    }

    fn criteria(class: &str, since: &str) -> Selected {
        let criteria = CriteriaText {
            class: class.to_owned(),
            since: since.to_owned(),
            ..CriteriaText::default()
        };
        Selected { criteria, ..Selected::default() }
    }

    #[test]
    fn one_way_of_selecting_must_be_given() {
        assert_eq!(ids(&["7"]).read(), Ok(Selection::Messages([Offset(7)].into())));
        let all = Selected { all: true, ..Selected::default() };
        assert_eq!(all.read(), Ok(Selection::Matching(Criteria::default())));
        assert!(criteria("dns", "2026-01-31T08:30:00Z").read().is_ok());
        for wrong in [
            Selected::default(),
            Selected { all: true, ..ids(&["7"]) },
            Selected { all: true, ..criteria("dns", "") },
        ] {
            assert_eq!(wrong.read().unwrap_err().field, "message_ids", "{wrong:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_refused_by_name() {
        assert_eq!(ids(&["7", "x"]).read().unwrap_err().field, "message_ids[1]");
        assert_eq!(criteria("", "yesterday").read().unwrap_err().field, "since");
        let many = vec!["1"; MESSAGES_MAX + 1];
        assert_eq!(ids(&many).read().unwrap_err().field, "message_ids");
        assert_eq!(place("projects/p/topics/!").unwrap_err().field, "topic");
        assert_eq!(place("projects/p/subscriptions/!").unwrap_err().field, "subscription");
    }
}
