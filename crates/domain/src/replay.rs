//! Replays of dead letters: which ones, where to, in which order, how fast.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::filter::Filter;
use crate::letter;
use crate::message;
use crate::offset::{Offset, Record};
use crate::time::{Moment, Timestamp};

/// Maximum number of letters that a selection can list one by one.
pub const MESSAGES_MAX: usize = 10_000;

/// Where replayed messages go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Destination {
    /// To the subscription that gave up on the message, and to no other.
    #[default]
    Subscription,
    /// To the topic of that subscription: everyone subscribed to it gets the message.
    Topic,
}

impl Destination {
    /// The word for it in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Subscription => "subscription",
            Self::Topic => "topic",
        }
    }

    /// Parses that word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Subscription, Self::Topic].into_iter().find(|one| one.as_str() == word)
    }
}

/// Criteria for letters. A field that is `None` does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Criteria {
    /// Tests the letter's attributes.
    pub filter: Option<Filter>,
    /// The error class of the last attempt.
    pub class: Option<String>,
    /// Dead-lettered at this time or later.
    pub since: Option<Timestamp>,
    /// Dead-lettered before this time.
    pub until: Option<Timestamp>,
}

impl Criteria {
    /// Whether the letter in `record` matches. An unreadable one does not.
    pub fn want(&self, record: &Record) -> bool {
        let has_class =
            |class: &str| message::attribute(&record.body, letter::ERROR_CLASS) == Ok(Some(class));
        self.since.is_none_or(|since| record.publish_time >= since)
            && self.until.is_none_or(|until| record.publish_time < until)
            && self.class.as_deref().is_none_or(has_class)
            && self.filter.as_ref().is_none_or(|filter| filter.matches(&record.body) == Ok(true))
    }
}

/// Which letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// These letters.
    Messages(BTreeSet<Offset>),
    /// All that match.
    Matching(Criteria),
}

impl Selection {
    /// Whether the letter in `record` is selected.
    pub fn wants(&self, record: &Record) -> bool {
        match self {
            Self::Messages(offsets) => offsets.contains(&record.offset),
            Self::Matching(criteria) => criteria.want(record),
        }
    }

    /// The first and the last letter it can select, if it says.
    pub fn bounds(&self) -> Option<(Offset, Offset)> {
        match self {
            Self::Messages(offsets) => Some((*offsets.first()?, *offsets.last()?)),
            Self::Matching(_) => None,
        }
    }

    /// Whether letters were listed one by one.
    pub fn is_by_name(&self) -> bool {
        matches!(self, Self::Messages(_))
    }
}

/// Puts the letters of each lane into the order in which their messages were first published, using
/// the positions they have among the others. `place` gives the lane and the original id; `None`
/// leaves a letter where it is.
///
/// ```text
///   a3  b1  a2  –  b2  a1   →   a1  b1  a2  –  b2  a3
/// ```
pub fn in_order<T>(letters: Vec<T>, place: impl Fn(&T) -> Option<(String, u64)>) -> Vec<T> {
    let mut lanes: BTreeMap<String, Vec<(usize, u64)>> = BTreeMap::new();
    for (at, letter) in letters.iter().enumerate() {
        if let Some((lane, first_id)) = place(letter) {
            lanes.entry(lane).or_default().push((at, first_id));
        }
    }
    let mut target: Vec<usize> = (0..letters.len()).collect();
    for places in lanes.into_values() {
        let mut sorted = places.clone();
        sorted.sort_by_key(|&(_, first_id)| first_id);
        for ((to, _), (from, _)) in places.into_iter().zip(sorted) {
            if let Some(target) = target.get_mut(from) {
                *target = to;
            }
        }
    }
    let mut placed: Vec<(usize, T)> = target.into_iter().zip(letters).collect();
    placed.sort_by_key(|&(at, _)| at);
    placed.into_iter().map(|(_, letter)| letter).collect()
}

/// How fast letters are replayed.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    per_second: u32,
    due: Moment,
}

/// Maximum letters per step.
const STEP_MAX: u32 = 500;

/// Steps per second, as long as there are letters.
const STEPS_PER_SECOND: u32 = 20;

/// A replay that falls behind may catch up by at most this much.
const CATCH_UP_MAX: Duration = Duration::from_millis(500);

impl Pace {
    /// This many letters per second from `now` on; zero = no limit.
    pub fn new(per_second: u32, now: Moment) -> Self {
        Self { per_second, due: now }
    }

    /// How many letters one step replays.
    pub fn step(&self) -> usize {
        let step = match self.per_second {
            0 => STEP_MAX,
            per_second => (per_second / STEPS_PER_SECOND).clamp(1, STEP_MAX),
        };
        usize::try_from(step).unwrap_or(1)
    }

    /// When the next step is due.
    pub fn due(&self) -> Moment {
        self.due
    }

    /// Notes that `count` letters were replayed at `now`.
    pub fn note(&mut self, now: Moment, count: usize) {
        if self.per_second == 0 {
            return;
        }
        let earliest = Moment(now.0.saturating_sub(micros(CATCH_UP_MAX)));
        let taken = (count as u64).saturating_mul(1_000_000) / u64::from(self.per_second);
        self.due = self.due.max(earliest).plus(Duration::from_micros(taken));
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::message::Message;

    fn record(offset: u64, time: u64, attributes: &[(&str, &str)]) -> Record {
        let own = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        let attributes = attributes.iter().map(own).collect();
        let message = Message { attributes, ..Message::default() };
        let mut body = BytesMut::new();
        message::encode(&message, Offset(offset), Timestamp(time), &mut body);
        let body = body.freeze();
        Record { offset: Offset(offset), publish_time: Timestamp(time), addressee: None, body }
    }

    #[test]
    fn letters_are_found_by_attribute_class_and_time() {
        let letter = record(7, 100, &[("color", "red"), ("error_class", "timeout")]);
        let filter = |text| Some(Filter::parse("filter", text).unwrap());
        let wants = |criteria: Criteria| criteria.want(&letter);
        let any = Criteria::default;
        assert!(wants(any()));
        assert!(wants(Criteria { filter: filter(r#"attributes.color = "red""#), ..any() }));
        assert!(!wants(Criteria { filter: filter(r#"attributes.color = "blue""#), ..any() }));
        assert!(wants(Criteria { class: Some("timeout".to_owned()), ..any() }));
        assert!(!wants(Criteria { class: Some("dns".to_owned()), ..any() }));
        for (since, until, is_wanted) in
            [(100, 101, true), (0, 100, false), (101, 200, false), (50, 150, true)]
        {
            let (since, until) = (Some(Timestamp(since)), Some(Timestamp(until)));
            assert_eq!(wants(Criteria { since, until, ..any() }), is_wanted, "{since:?} {until:?}");
        }
    }

    #[test]
    fn letters_can_be_named_one_by_one() {
        let named = Selection::Messages([Offset(9), Offset(7)].into());
        assert!(named.wants(&record(7, 1, &[])) && !named.wants(&record(8, 1, &[])));
        assert_eq!(named.bounds(), Some((Offset(7), Offset(9))));
        assert_eq!(Selection::Matching(Criteria::default()).bounds(), None);
    }

    #[test]
    fn a_lane_is_put_in_order_and_nothing_else_moves() {
        let place = |letter: &&str| {
            let (lane, id) = letter.split_at(1);
            (lane != "-").then(|| (lane.to_owned(), id.parse().unwrap()))
        };
        let letters = vec!["a3", "b1", "a2", "-9", "b2", "a1", "-0"];
        assert_eq!(in_order(letters, place), ["a1", "b1", "a2", "-9", "b2", "a3", "-0"]);
        assert_eq!(in_order(vec!["a1", "a1", "a0"], place), ["a0", "a1", "a1"]);
        assert!(in_order(Vec::<&str>::new(), place).is_empty());
    }

    #[test]
    fn words_for_destinations_come_back() {
        for destination in [Destination::Subscription, Destination::Topic] {
            assert_eq!(Destination::parse(destination.as_str()), Some(destination));
        }
        assert_eq!(Destination::parse("elsewhere"), None);
    }

    #[test]
    fn a_pace_is_kept_over_time() {
        let mut pace = Pace::new(1_000, Moment(0));
        let mut now = Moment(0);
        let mut sent = 0;
        while now < Moment(10_000_000) {
            now = now.max(pace.due());
            pace.note(now, pace.step());
            sent += pace.step();
        }
        assert!((9_900..=10_100).contains(&sent), "{sent}");
    }

    #[test]
    fn what_was_missed_is_not_made_up_for_all_at_once() {
        let mut pace = Pace::new(100, Moment(0));
        let now = Moment(60_000_000);
        let mut at_once = 0;
        while pace.due() <= now {
            pace.note(now, pace.step());
            at_once += pace.step();
        }
        assert!((50..=60).contains(&at_once), "{at_once}");
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let mut pace = Pace::new(0, Moment(5));
        pace.note(Moment(9), 500);
        assert_eq!((pace.due(), pace.step()), (Moment(5), 500));
        assert_eq!(Pace::new(1, Moment(0)).step(), 1);
    }
}
