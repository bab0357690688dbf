//! Tables and lists of facts for people.

use domain::text::shortened;
use serde_json::Value;

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
        let shown = |cell: String| if cell.is_empty() { "-".to_owned() } else { cell };
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
    text.push_str(&format!("{what:<17}{value}\n"));
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
        other => other.to_string(),
    }
}

/// An error, quoted: one that is too long loses its middle, since its end says what to do.
pub(super) fn quoted_error(text: &str, bytes_max: usize) -> String {
    quoted(&shortened(text, bytes_max), bytes_max)
}

/// Text that may hold anything: quoted, and cut off behind so many characters.
pub(super) fn quoted(text: &str, chars_max: usize) -> String {
    let shown: String = text.chars().take(chars_max).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("{}{more}", Value::String(shown))
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
    fn values_are_shown_without_json_around_them() {
        let value = json!({"a": "x", "b": [1, "two"], "c": null});
        assert_eq!(plain(&value), "a=x, b=1, two, c=");
        assert_eq!(quoted("line\nbreak", 120), r#""line\nbreak""#);
        assert_eq!(quoted("long", 2), "\"lo\"…");
        assert_eq!(quoted_error("what is wrong: what to do", 13), "\"what …to do\"");
    }
}
