//! The stored form of a replay.

use bytes::Bytes;
use domain::replay::{Criteria, Destination, Selection};
use domain::{Filter, Offset, SubscriptionName, Timestamp, TopicId, TopicName};
use serde::{Deserialize, Serialize};

use super::Unreadable;
use crate::replay::{Account, Order, ReplayState};

#[derive(Serialize, Deserialize)]
struct Form {
    topic: String,
    topic_id: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subscription: Option<String>,
    #[serde(flatten)]
    selection: SelectionForm,
    to: String,
    per_second: u32,
    again: bool,
    until_offset: u64,
    created_us: u64,
    state: String,
    total: u64,
    replayed: u64,
    skipped: u64,
    failed: u64,
    updated_us: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// With `messages` they are named one by one.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct SelectionForm {
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<Vec<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until_us: Option<u64>,
}

/// A stored replay: what was asked for, and how far it came, if it has ended.
pub(crate) struct StoredReplay {
    pub(crate) order: Order,
    pub(crate) account: Account,
}

impl StoredReplay {
    pub(crate) fn encode(&self) -> Result<Bytes, Unreadable> {
        let Self { order, account } = self;
        let form = Form {
            topic: order.topic.to_string(),
            topic_id: order.topic_id.0,
            subscription: order.subscription.as_ref().map(ToString::to_string),
            selection: write_selection(&order.selection),
            to: order.to.as_str().to_owned(),
            per_second: order.per_second,
            again: order.again,
            until_offset: order.until.0,
            created_us: order.created.0,
            state: account.state.as_str().to_owned(),
            total: account.total,
            replayed: account.replayed,
            skipped: account.skipped,
            failed: account.failed,
            updated_us: account.updated.0,
            error: account.error.clone(),
        };
        Ok(serde_json::to_vec(&form)?.into())
    }

    pub(crate) fn decode(value: &[u8]) -> Result<Self, Unreadable> {
        let form: Form = serde_json::from_slice(value)?;
        let unknown = |word: &str| Unreadable::Word(word.to_owned());
        let subscription = form.subscription.map(|name| SubscriptionName::parse("name", &name));
        let order = Order {
            topic: TopicName::parse("topic", &form.topic)?,
            topic_id: TopicId(form.topic_id),
            subscription: subscription.transpose()?,
            selection: read_selection(form.selection)?,
            to: Destination::parse(&form.to).ok_or_else(|| unknown(&form.to))?,
            per_second: form.per_second,
            again: form.again,
            until: Offset(form.until_offset),
            created: Timestamp(form.created_us),
        };
        let account = Account {
            state: ReplayState::parse(&form.state).ok_or_else(|| unknown(&form.state))?,
            total: form.total,
            replayed: form.replayed,
            skipped: form.skipped,
            failed: form.failed,
            updated: Timestamp(form.updated_us),
            error: form.error,
        };
        Ok(Self { order, account })
    }
}

fn write_selection(selection: &Selection) -> SelectionForm {
    match selection {
        Selection::Messages(offsets) => SelectionForm {
            messages: Some(offsets.iter().map(|offset| offset.0).collect()),
            ..SelectionForm::default()
        },
        Selection::Matching(criteria) => SelectionForm {
            messages: None,
            filter: criteria.filter.as_ref().map(|filter| filter.text().to_owned()),
            class: criteria.class.clone(),
            since_us: criteria.since.map(|since| since.0),
            until_us: criteria.until.map(|until| until.0),
        },
    }
}

fn read_selection(form: SelectionForm) -> Result<Selection, Unreadable> {
    if let Some(messages) = form.messages {
        return Ok(Selection::Messages(messages.into_iter().map(Offset).collect()));
    }
    let filter = form.filter.map(|text| Filter::parse("filter", &text));
    Ok(Selection::Matching(Criteria {
        filter: filter.transpose()?,
        class: form.class,
        since: form.since_us.map(Timestamp),
        until: form.until_us.map(Timestamp),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(selection: Selection) -> StoredReplay {
        let order = Order {
            topic_id: TopicId(7),
            topic: TopicName::parse("", "projects/p/topics/dead").unwrap(),
            subscription: SubscriptionName::parse("", "projects/p/subscriptions/sub").ok(),
            selection,
            to: Destination::Topic,
            per_second: 50,
            again: true,
            until: Offset(99),
            created: Timestamp(5),
        };
        let account = Account { error: Some("no".to_owned()), ..Account::new(Timestamp(6)) };
        StoredReplay { order, account }
    }

    #[test]
    fn a_replay_comes_back_as_it_was() {
        let criteria = Criteria {
            filter: Some(Filter::parse("", "attributes:color").unwrap()),
            class: Some("timeout".to_owned()),
            since: Some(Timestamp(1)),
            until: Some(Timestamp(2)),
        };
        for selection in [
            Selection::Messages([Offset(3), Offset(4)].into()),
            Selection::Matching(criteria),
            Selection::Matching(Criteria::default()),
        ] {
            let stored = stored(selection);
            let back = StoredReplay::decode(&stored.encode().unwrap()).unwrap();
            assert_eq!((back.order, back.account), (stored.order, stored.account));
        }
    }

    #[test]
    fn words_of_a_later_version_are_unreadable() {
        let value = stored(Selection::Matching(Criteria::default())).encode().unwrap();
        let text = String::from_utf8(value.to_vec()).unwrap();
        for (known, unknown) in
            [("\"running\"", "\"resting\""), ("\"topic\",\"per", "\"sky\",\"per")]
        {
            let changed = text.replace(known, unknown);
            assert_ne!(changed, text);
            assert!(StoredReplay::decode(changed.as_bytes()).is_err(), "{unknown}");
        }
    }
}
