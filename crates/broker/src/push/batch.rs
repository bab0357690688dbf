//! How many messages of a batch its answer acks.

use serde::{Deserialize, Deserializer};

/// Some servers write this before their JSON.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How many of `sent` messages, counted from the first, a successful answer with this body acks:
/// what a JSON object says in `acked`, or all of them if it does not say or the body is not an
/// object. One that starts like an object but cannot be parsed, because it was truncated or `acked`
/// is not a whole number, acks none: it may have been about to say so, and a duplicate is better
/// than a lost message.
pub(crate) fn acked(body: &[u8], sent: usize) -> usize {
    let body = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body).trim_ascii_start();
    // A JSON array would be parsed as the fields of the object in order.
    if body.first() != Some(&b'{') {
        return sent;
    }
    match serde_json::from_slice::<BatchAnswer>(body) {
        Ok(BatchAnswer { acked: Some(acked) }) => usize::try_from(acked).unwrap_or(sent).min(sent),
        Ok(BatchAnswer { acked: None }) => sent,
        Err(_) => 0,
    }
}

#[derive(Deserialize)]
struct BatchAnswer {
    #[serde(default, deserialize_with = "given")]
    acked: Option<u64>,
}

/// If present, it must be a number: `null` is not the same as missing.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    u64::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_object_with_a_whole_number_acks_a_part() {
        let long = format!(r#"{{"note": "{}", "acked": 2}}"#, "x".repeat(60_000));
        for (body, expected) in [
            (r#"{"acked": 3}"#, 3),
            (" \r\n\t{\"acked\":0}\n", 0),
            (r#"{"ok": [1, {"acked": 1}], "acked": 4, "more": null}"#, 4),
            (r#"{"acked": 10}"#, 10),
            (r#"{"acked": 11}"#, 10),
            (r#"{"acked": 18446744073709551615}"#, 10),
            (long.as_str(), 2),
            ("", 10),
            ("ok", 10),
            ("{}", 10),
            ("3", 10),
            ("[3]", 10),
            (r#"[{"acked": 3}]"#, 10),
            (r#"{"note": null}"#, 10),
            ("\u{feff}{\"acked\": 3}", 3),
        ] {
            assert_eq!(acked(body.as_bytes(), 10), expected, "{body:.60}");
        }
    }

    #[test]
    fn an_object_that_cannot_be_read_acks_nothing() {
        let deep = format!(r#"{{"a": {}"#, "[".repeat(60_000));
        for body in [
            r#"{"acked": "3"}"#,
            r#"{"acked": 3.0}"#,
            r#"{"acked": -1}"#,
            r#"{"acked": null}"#,
            r#"{"acked": 1e1}"#,
            r#"{"acked": 99999999999999999999}"#,
            r#"{"acked": 3, "acked": 4}"#,
            r#"{"acked": 3,}"#,
            r#"{"acked": 3} x"#,
            r#"{"note": "cut"#,
            deep.as_str(),
        ] {
            assert_eq!(acked(body.as_bytes(), 10), 0, "{body:.60}");
        }
    }

    #[test]
    fn an_answer_that_is_cut_off_anywhere_acks_nothing() {
        let whole = " {\"note\": \"größe\", \"acked\": 4}";
        assert_eq!(acked(whole.as_bytes(), 10), 4);
        for end in 2..whole.len() {
            assert_eq!(acked(&whole.as_bytes()[..end], 10), 0, "{end} bytes");
        }
    }

    proptest! {
        #[test]
        fn no_body_acks_more_than_was_sent_or_panics(
            body in proptest::collection::vec(any::<u8>(), 0..200),
            sent in 0..1_000_usize,
        ) {
            prop_assert!(acked(&body, sent) <= sent);
        }

        #[test]
        fn almost_right_bodies_neither(
            body in "\\{?[ \"acked:0-9,{}.e\\[\\]\\-]{0,30}\\}?",
            sent in 0..1_000_usize,
        ) {
            prop_assert!(acked(body.as_bytes(), sent) <= sent);
        }

        #[test]
        fn the_number_said_is_the_number_acked(count: u64, sent in 0..1_000_usize) {
            let body = format!("{{\"acked\":{count}}}");
            let expected = usize::try_from(count).unwrap_or(usize::MAX).min(sent);
            prop_assert_eq!(acked(body.as_bytes(), sent), expected);
        }
    }
}
