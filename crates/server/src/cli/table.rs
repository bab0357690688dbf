//! Tables and lists of facts for people.

use domain::text::shortened;
use serde_json::Value;

use crate::terminal::harmless_line;

/// Lines of cells under headings, each column as wide as its longest cell.
pub(super) struct Table {
    lines: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(headings: &[&str]) -> Self {
        Self { lines: vec![headings.iter().map(|&heading| heading.to_owned()).collect()] }
    }

    /// Adds a line; an empty cell is shown as a dash.
    pub(super) fn line(&mut self, cells: impl IntoIterator<Item = String>) {
        let shown = |cell: String| match cell.as_str() {
            "" => "-".to_owned(),
            text => harmless_line(text).into_owned(),
        };
        self.lines.push(cells.into_iter().map(shown).collect());
    }

    /// The text; `none` if there are no lines but the headings.
    pub(super) fn text(&self, none: &str) -> String {
        if self.lines.len() <= 1 {
            return format!("{none}\n");
        }
        let columns = self.lines.iter().map(Vec::len).max().unwrap_or_default();
        let widths: Vec<usize> = (0..columns).map(|column| self.width(column)).collect();
        let mut text = String::new();
        for line in &self.lines {
            let mut shown = String::new();
            for (cell, width) in line.iter().zip(&widths) {
                shown.push_str(&format!("{cell:<width$}  "));
            }
            text.push_str(shown.trim_end());
            text.push('\n');
        }
        text
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    }
}

/// A line with a fact: what, and its value.
pub(super) fn fact(text: &mut String, what: &str, value: &str) {
    text.push_str(&format!("{what:<17}{}\n", harmless_line(value)));
}

/// A value without the quotes JSON puts around texts; empty if there is none.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(plain).collect();
            values.join(", ")
        }
        Value::Object(pairs) => {
            let pairs: Vec<String> =
                pairs.iter().map(|(key, value)| format!("{key}={}", plain(value))).collect();
            pairs.join(", ")
        }
        Value::Number(number) => number.as_f64().filter(|_| number.is_f64()).map_or_else(
            || number.to_string(),
            |number| Value::from(rounded(number)).to_string().trim_end_matches(".0").to_owned(),
        ),
        Value::Bool(is) => is.to_string(),
    }
}

/// No more digits after the point than anyone reads.
fn rounded(number: f64) -> f64 {
    (number * 1_000.0).round() / 1_000.0
}

/// A number of bytes in a unit in which it is short; JSON may carry it as text.
pub(super) fn bytes(value: &Value) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let text = plain(value);
    let Ok(count) = text.parse::<u64>() else { return text };
    if count < 1_024 {
        return format!("{count} bytes");
    }
    let (mut tenths, mut unit) = (count.saturating_mul(10) / 1_024, UNITS[0]);
    for larger in &UNITS[1..] {
        if tenths < 10_240 {
            break;
        }
        (tenths, unit) = (tenths / 1_024, larger);
    }
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

/// An error, quoted: one that is too long loses its middle, since its end says what to do.
pub(super) fn quoted_error(text: &str, bytes_max: usize) -> String {
    quoted(&shortened(text, bytes_max), bytes_max)
}

/// Text that may contain anything: quoted, and cut off after this many characters.
pub(super) fn quoted(text: &str, chars_max: usize) -> String {
    let shown: String = text.chars().take(chars_max).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("{}{more}", harmless_line(&Value::String(shown).to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_longest_cell() {
        let mut table = Table::new(&["A", "LONG", "LAST"]);
        assert_eq!(table.text("nothing"), "nothing\n");
        table.line(["wider".to_owned(), String::new(), "ü".to_owned()]);
        table.line(["x".to_owned(), "y".to_owned(), "z".to_owned()]);
        let text = "A      LONG  LAST\nwider  -     ü\nx      y     z\n";
        assert_eq!(table.text("nothing"), text);
    }

    #[test]
    fn bytes_are_shown_in_a_unit_in_which_they_are_few() {
        for (count, shown) in [
            (json!("1000"), "1000 bytes"),
            (json!(1_536), "1.5 KiB"),
            (json!(5_u64 << 30), "5.0 GiB"),
            (json!(u64::MAX), "1677721.5 TiB"),
            (Value::Null, ""),
        ] {
            assert_eq!(bytes(&count), shown);
        }
    }

    #[test]
    fn values_are_shown_without_json_around_them() {
        let value = json!({"a": "x", "b": [1, "two"], "c": null});
        assert_eq!(plain(&value), "a=x, b=1, two, c=");
        let numbers = json!([1.1329999999999998, 0.6153846153846154, 3.0, 9007199254740993_u64]);
        assert_eq!(plain(&numbers), "1.133, 0.615, 3, 9007199254740993");
        assert_eq!(quoted("line\nbreak", 120), r#""line\nbreak""#);
        assert_eq!(quoted("long", 2), "\"lo\"…");
        assert_eq!(quoted_error("what is wrong: what to do", 13), "\"what …to do\"");
    }
}
