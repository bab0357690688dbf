//! Messages as they are shown.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::Value;

use super::table::{plain, quoted};
use super::{Failure, print, print_data};
use crate::terminal::{harmless_line, is_steering};

#[derive(Debug, Args)]
pub(super) struct DataOnly {
    /// Print only the data, one message per line
    #[arg(long, conflicts_with = "json")]
    data: bool,
    /// With --data: print it unchanged even to a terminal, though it may contain control codes
    #[arg(long, requires = "data")]
    raw: bool,
}

impl DataOnly {
    /// Prints what was found: the data alone if that is asked for, else each as `line` shows it.
    pub(super) fn print(&self, found: &[Value], line: fn(&Value) -> String) -> Result<(), Failure> {
        if self.data {
            return found.iter().try_for_each(|one| print_data(&data(&one["message"]), self.raw));
        }
        print(&found.iter().map(line).collect::<String>())
    }
}

/// Characters of the data that are shown of a message.
const DATA_CHARS_MAX: usize = 2_000;

/// The bytes of a message in Google's JSON.
pub(super) fn data(message: &Value) -> Vec<u8> {
    STANDARD.decode(message["data"].as_str().unwrap_or_default()).unwrap_or_default()
}

/// Data as JSON carries it.
pub(super) fn encoded(data: &[u8]) -> Value {
    Value::String(STANDARD.encode(data))
}

/// One line: id, time, ordering key, attributes, data. `more` stands behind the time.
pub(super) fn line(message: &Value, more: &str) -> String {
    let mut text = format!("{}  {}", plain(&message["messageId"]), plain(&message["publishTime"]));
    if !more.is_empty() {
        text.push_str(&format!("  {more}"));
    }
    if let Some(key) = message["orderingKey"].as_str().filter(|key| !key.is_empty()) {
        text.push_str(&format!("  key={}", quoted(key, DATA_CHARS_MAX)));
    }
    for (name, value) in message["attributes"].as_object().into_iter().flatten() {
        text.push_str(&format!("  {name}={}", shown_value(&plain(value))));
    }
    // Names of attributes may hold anything too.
    format!("{}  {}\n", harmless_line(&text), shown(&data(message)))
}

/// Data for people: as it is if it is one line of text, quoted if it is other text, else in base64.
pub(super) fn shown(data: &[u8]) -> String {
    match std::str::from_utf8(data) {
        Ok(text) if text.contains(is_steering) => quoted(text, DATA_CHARS_MAX),
        Ok(text) => {
            let shown: String = text.chars().take(DATA_CHARS_MAX).collect();
            let more = if shown.len() < text.len() { "…" } else { "" };
            shown + more
        }
        Err(_) => {
            let text: String = STANDARD.encode(data).chars().take(DATA_CHARS_MAX).collect();
            format!("base64:{text}")
        }
    }
}

/// A value of an attribute: quoted where it would not be told from what stands around it.
fn shown_value(value: &str) -> String {
    let is_simple = !value.is_empty() && !value.contains(|c: char| c.is_whitespace() || c == '"');
    let is_simple = is_simple && !value.contains(is_steering);
    if is_simple { value.to_owned() } else { quoted(value, DATA_CHARS_MAX) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_is_one_line_whatever_it_holds() {
        let message = json!({
            "messageId": "7", "publishTime": "2026-11-15T12:00:00Z", "orderingKey": "ann",
            "attributes": {"kind": "order", "note": "a b"}, "data": "aGVsbG8=",
        });
        let expected =
            "7  2026-11-15T12:00:00Z  attempt 2  key=\"ann\"  kind=order  note=\"a b\"  hello\n";
        assert_eq!(line(&message, "attempt 2"), expected);
        for (bytes, text) in [
            (&b"line\nbreak"[..], r#""line\nbreak""#),
            (b"\xff\xfe", "base64://4="),
            (b"", ""),
            ("ä".as_bytes(), "ä"),
        ] {
            assert_eq!(shown(bytes), text);
            assert_eq!(data(&json!({"data": encoded(bytes)})), bytes);
        }
        assert_eq!(shown(&[b'x'; 5_000]).chars().count(), DATA_CHARS_MAX + 1);
    }
}
