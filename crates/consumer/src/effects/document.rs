//! What a write makes of a document. Pure: the stores bring the document and put back the answer.

use std::collections::BTreeMap;

use domain::Timestamp;

use super::{EventTime, StoreError, Value, Write, WriteKind};
use crate::{Failure, clock};

/// The fields of a document.
pub(super) type Fields = BTreeMap<String, Value>;

/// What a write makes of a document.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    /// These are its fields now.
    Put(Fields),
    /// It tells of something later, and stays as it is.
    Stale,
}

/// What `write` makes of a document with these fields; `None` = there is none yet.
pub(super) fn change(current: Option<Fields>, write: &Write) -> Result<Change, StoreError> {
    let mut fields = current.unwrap_or_default();
    Ok(if put(&mut fields, write)? { Change::Put(fields) } else { Change::Stale })
}

/// Puts `write` into the fields of a document; none = there is none yet. Returns whether it did:
/// a stale one leaves them as they are, and so does an error.
pub(super) fn put(fields: &mut Fields, write: &Write) -> Result<bool, StoreError> {
    let stored = stored_time(fields, write.event_time.as_ref());
    let is_later = |time: &EventTime| stored.is_some_and(|stored| stored > time.at);
    let is_stale = write.event_time.as_ref().is_some_and(is_later);
    if is_stale && write.kind != WriteKind::Increment {
        return Ok(false);
    }
    match write.kind {
        WriteKind::Increment => check_numbers(write)?,
        WriteKind::Set => fields.clear(),
        WriteKind::Merge => {}
    }
    for (name, value) in &write.fields {
        let current = fields.get_mut(name);
        let value = match write.kind {
            WriteKind::Increment => sum(current.as_deref(), value),
            WriteKind::Set | WriteKind::Merge => value.clone(),
        };
        match current {
            Some(current) => *current = value,
            None => drop(fields.insert(name.clone(), value)),
        }
    }
    if let Some(time) = &write.event_time {
        let latest = stored.map_or(time.at, |stored| stored.max(time.at));
        fields.insert(time.field.clone(), Value::Time(latest));
    }
    Ok(true)
}

/// When the document says that what it tells of happened.
fn stored_time(fields: &Fields, time: Option<&EventTime>) -> Option<Timestamp> {
    match fields.get(&time?.field)? {
        Value::Time(at) => Some(*at),
        // JSON has no times, so stores that keep JSON give them back as text.
        Value::Text(text) => clock::parse(text),
        _ => None,
    }
}

fn check_numbers(write: &Write) -> Result<(), StoreError> {
    let is_number = |value: &Value| matches!(value, Value::Integer(_) | Value::Double(_));
    match write.fields.iter().find(|(_, value)| !is_number(value)) {
        None => Ok(()),
        Some((name, _)) => {
            let problem = format!("{name}: not a number, and only numbers can be added");
            Err(StoreError::Refused(Failure::new("NotANumber", problem)))
        }
    }
}

/// As Firestore adds: whole numbers stop at their bounds, and what is no number counts as absent.
fn sum(current: Option<&Value>, by: &Value) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "a sum with a fraction is one of doubles")]
    let double = |number: i64| number as f64;
    match (current, by) {
        (Some(Value::Integer(a)), Value::Integer(b)) => Value::Integer(a.saturating_add(*b)),
        (Some(Value::Integer(a)), Value::Double(b)) => Value::Double(double(*a) + b),
        (Some(Value::Double(a)), Value::Integer(b)) => Value::Double(a + double(*b)),
        (Some(Value::Double(a)), Value::Double(b)) => Value::Double(a + b),
        _ => by.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Path;
    use super::*;

    fn fields(pairs: &[(&str, Value)]) -> Fields {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    fn write(kind: WriteKind, pairs: &[(&str, Value)], at: Option<u64>) -> Write {
        let path = |id: &str| Path { collection: "c".to_owned(), id: id.to_owned() };
        Write {
            document: path("d"),
            dedupe: path("m"),
            dedupe_until: Timestamp(0),
            kind,
            fields: fields(pairs),
            event_time: at.map(|at| EventTime { field: "at".to_owned(), at: Timestamp(at) }),
        }
    }

    fn put(current: Option<Fields>, write: &Write) -> Fields {
        match change(current, write).unwrap() {
            Change::Put(fields) => fields,
            Change::Stale => panic!("stale"),
        }
    }

    #[test]
    fn numbers_are_added_as_firestore_does() {
        for (current, by, expected) in [
            (Some(Value::Integer(2)), Value::Integer(3), Value::Integer(5)),
            (Some(Value::Integer(i64::MAX)), Value::Integer(1), Value::Integer(i64::MAX)),
            (Some(Value::Integer(i64::MIN)), Value::Integer(-1), Value::Integer(i64::MIN)),
            (Some(Value::Integer(2)), Value::Double(0.5), Value::Double(2.5)),
            (Some(Value::Double(0.5)), Value::Integer(2), Value::Double(2.5)),
            (Some(Value::Double(0.5)), Value::Double(0.25), Value::Double(0.75)),
            (Some(Value::Text("x".to_owned())), Value::Integer(3), Value::Integer(3)),
            (None, Value::Integer(3), Value::Integer(3)),
        ] {
            let current = current.map(|value| fields(&[("n", value)]));
            let after = put(current, &write(WriteKind::Increment, &[("n", by)], None));
            assert_eq!(after["n"], expected);
        }
        let text = write(WriteKind::Increment, &[("n", Value::Text("1".to_owned()))], None);
        assert!(matches!(change(None, &text), Err(StoreError::Refused(_))));
    }

    #[test]
    fn a_later_document_is_not_overwritten_and_an_equal_one_is() {
        let stored = |at: u64| Some(fields(&[("at", Value::Time(Timestamp(at)))]));
        for kind in [WriteKind::Set, WriteKind::Merge] {
            let write = write(kind, &[], Some(5));
            assert_eq!(change(stored(6), &write).unwrap(), Change::Stale);
            assert_eq!(put(stored(5), &write)["at"], Value::Time(Timestamp(5)));
            assert_eq!(put(stored(4), &write)["at"], Value::Time(Timestamp(5)));
            assert_eq!(put(None, &write)["at"], Value::Time(Timestamp(5)));
        }
    }

    #[test]
    fn an_increment_is_never_stale_and_keeps_the_latest_time() {
        let current = fields(&[("at", Value::Time(Timestamp(6))), ("n", Value::Integer(1))]);
        let write = write(WriteKind::Increment, &[("n", Value::Integer(1))], Some(5));
        let after = put(Some(current), &write);
        let expected = fields(&[("at", Value::Time(Timestamp(6))), ("n", Value::Integer(2))]);
        assert_eq!(after, expected);
    }

    #[test]
    fn a_time_that_came_back_as_text_counts() {
        let text = clock::text(Timestamp(1_800_000_000_000_000));
        let current = fields(&[("at", Value::Text(text))]);
        let earlier = write(WriteKind::Set, &[], Some(1_799_999_999_999_999));
        assert_eq!(change(Some(current), &earlier).unwrap(), Change::Stale);
    }
}
