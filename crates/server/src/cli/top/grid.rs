//! Rows of cells that fit the width of a screen.

use serde_json::Value;

use crate::terminal::harmless_line;

/// A column: its heading, where its cells lean, when it is left out, and what it shows of a row.
#[derive(Clone, Copy)]
pub(super) struct Column {
    pub(super) heading: &'static str,
    pub(super) side: Side,
    /// Those of the highest rank are left out first; those of rank 0 never.
    pub(super) rank: u8,
    pub(super) cell: fn(&Value) -> Cell,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// What a cell shows, and how it looks where there are colours.
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) tone: Tone,
}

impl Cell {
    pub(super) fn plain(text: String) -> Self {
        Self { text, tone: Tone::Plain }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    /// Nothing to see.
    Dim,
    /// The line of headings.
    Heading,
    /// Someone should look at it.
    Warn,
    /// Someone must do something.
    Bad,
}

impl Tone {
    /// `text` in this tone.
    pub(super) fn paint(self, text: &str, has_colours: bool) -> String {
        let code = match self {
            Self::Plain => "",
            Self::Dim => "2",
            Self::Heading => "1",
            Self::Warn => "33",
            Self::Bad => "31;1",
        };
        match has_colours && !code.is_empty() && !text.is_empty() {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }
}

/// How much room there is, and whether there are colours.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    /// Characters of a line; `None` = as many as it takes.
    pub(super) width: Option<usize>,
    pub(super) has_colours: bool,
}

/// Between two columns.
const GAP: usize = 2;

/// Characters that the first column keeps.
const FIRST_MIN: usize = 8;

/// The rows under their headings, each a line within the width.
pub(super) fn lines(columns: &[Column], rows: &[Value], look: Look) -> Vec<String> {
    let mut shown: Vec<Shown> = columns.iter().map(|column| Shown::new(*column, rows)).collect();
    fit(&mut shown, look.width);
    (0..=rows.len()).map(|row| line(&shown, row, look.has_colours)).collect()
}

/// A column with its cells, the heading first.
struct Shown {
    column: Column,
    cells: Vec<Cell>,
    width: usize,
}

impl Shown {
    fn new(column: Column, rows: &[Value]) -> Self {
        let heading = Cell { text: column.heading.to_owned(), tone: Tone::Heading };
        let cells: Vec<Cell> =
            std::iter::once(heading).chain(rows.iter().map(|row| cell(column, row))).collect();
        let width = cells.iter().map(|cell| cell.text.chars().count()).max().unwrap_or_default();
        Self { column, cells, width }
    }
}

fn cell(column: Column, row: &Value) -> Cell {
    let Cell { text, tone } = (column.cell)(row);
    match text.as_str() {
        "" => Cell { text: "-".to_owned(), tone: Tone::Dim },
        text => Cell { text: harmless_line(text).into_owned(), tone },
    }
}

fn total(shown: &[Shown]) -> usize {
    let widths: usize = shown.iter().map(|one| one.width).sum();
    widths + GAP * shown.len().saturating_sub(1)
}

/// Leaves out columns and cuts what is too long, until all of it has room.
fn fit(shown: &mut Vec<Shown>, width: Option<usize>) {
    let Some(width) = width else { return };
    while total(shown) > width {
        let last = shown.iter().enumerate().max_by_key(|(at, one)| (one.column.rank, *at));
        match last {
            Some((at, one)) if one.column.rank > 0 => drop(shown.remove(at)),
            _ => break,
        }
    }
    let over = total(shown).saturating_sub(width);
    if let Some(first) = shown.first_mut() {
        first.width = first.width.saturating_sub(over).max(FIRST_MIN.min(first.width));
    }
    let over = total(shown).saturating_sub(width);
    if let Some(last) = shown.last_mut() {
        last.width = last.width.saturating_sub(over).max(1);
    }
}

fn line(shown: &[Shown], row: usize, has_colours: bool) -> String {
    let mut text = String::new();
    for (at, one) in shown.iter().enumerate() {
        let Some(cell) = one.cells.get(row) else { continue };
        let cut = cut(&cell.text, one.width);
        let pad = " ".repeat(one.width - cut.chars().count());
        let painted = cell.tone.paint(&cut, has_colours);
        let is_last = at + 1 == shown.len();
        match one.column.side {
            Side::Right => text.push_str(&format!("{pad}{painted}")),
            Side::Left if is_last => text.push_str(&painted),
            Side::Left => text.push_str(&format!("{painted}{pad}")),
        }
        if !is_last {
            text.push_str(&" ".repeat(GAP));
        }
    }
    text
}

/// At most this many characters; the last says that there were more.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    if width > 0 {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn columns() -> [Column; 3] {
        let of = |heading, side, rank, cell| Column { heading, side, rank, cell };
        [
            of("NAME", Side::Left, 0, |row| Cell::plain(row[0].as_str().unwrap().to_owned())),
            of("COUNT", Side::Right, 1, |row| Cell { text: row[1].to_string(), tone: Tone::Warn }),
            of("NOTE", Side::Left, 0, |row| Cell::plain(row[2].as_str().unwrap().to_owned())),
        ]
    }

    fn shown(width: Option<usize>, has_colours: bool) -> Vec<String> {
        let rows = [json!(["a-long-name", 7, ""]), json!(["b\u{1b}", 1234, "paused"])];
        lines(&columns(), &rows, Look { width, has_colours })
    }

    #[test]
    fn cells_lean_to_their_side_and_steer_nothing() {
        let expected =
            ["NAME         COUNT  NOTE", "a-long-name      7  -", "b\\u001b       1234  paused"];
        assert_eq!(shown(None, false), expected);
    }

    #[test]
    fn every_line_fits_whatever_the_width() {
        for width in 1..60 {
            for line in shown(Some(width), false) {
                let is_fit = line.chars().count() <= width.max(FIRST_MIN + GAP + 1);
                assert!(is_fit, "{width}: {line:?}");
            }
        }
        assert_eq!(shown(Some(20), false)[0], "NAME         NOTE");
        assert_eq!(shown(Some(17), false)[1], "a-long-n…  -");
    }

    #[test]
    fn colours_change_nothing_but_the_colour() {
        let coloured = shown(None, true);
        assert!(coloured[1].contains("\x1b[33m7\x1b[0m"), "{coloured:?}");
        let stripped = |line: &str| {
            let mut text = line.to_owned();
            for code in ["\x1b[33m", "\x1b[2m", "\x1b[1m", "\x1b[0m"] {
                text = text.replace(code, "");
            }
            text
        };
        let plain: Vec<String> = coloured.iter().map(|line| stripped(line)).collect();
        assert_eq!(plain, shown(None, false));
    }
}
