//! Shape of Rust files: width, line ends, and no examples that nobody runs.

use super::File;

const COLUMNS_MAX: usize = 100;

/// Rust lines are at most 100 columns wide; string literals that cannot be broken may be longer.
/// Blocks in comments say what they hold: code among them would be a test of its own, for which
/// everything is built once more, and tests stand beside the code.
pub(super) fn check(files: &[File], faults: &mut Vec<String>) {
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        let mut is_open = false;
        for (number, line) in file.text.lines().enumerate() {
            let place = format!("{}:{}", file.path, number + 1);
            let columns = line.chars().count();
            if columns > COLUMNS_MAX && !is_unbreakable(line) {
                faults.push(format!("{place}: {columns} columns, at most {COLUMNS_MAX}"));
            }
            if let Some(kind) = fence(line) {
                is_open = !is_open;
                if is_open && matches!(kind, "" | "rust") {
                    faults
                        .push(format!("{place}: write the example as a test, or mark it as text"));
                }
            }
            if line.ends_with(' ') {
                faults.push(format!("{place}: space at the end of the line"));
            }
        }
    }
}

/// What follows the ticks that begin or end a block in a comment of documentation.
fn fence(line: &str) -> Option<&str> {
    let line = line.trim();
    let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
    comment.trim().strip_prefix("```")
}

/// A link in a comment, or one long string literal.
fn is_unbreakable(line: &str) -> bool {
    let line = line.trim();
    line.contains("://") || (line.starts_with(['"', 'r']) && line.contains('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(line: String) -> usize {
        let mut faults = Vec::new();
        check(&[File { path: "a.rs".to_owned(), text: line }], &mut faults);
        faults.len()
    }

    #[test]
    fn a_line_may_have_a_hundred_columns_and_no_more() {
        assert_eq!(faults("x".repeat(100)), 0);
        assert_eq!(faults("ü".repeat(100)), 0);
        assert_eq!(faults("x".repeat(101)), 1);
    }

    #[test]
    fn code_in_comments_is_a_fault() {
        assert_eq!(faults("/// ```\n/// run();\n/// ```".to_owned()), 1);
        assert_eq!(faults("//! ```text\n//! a picture\n//! ```".to_owned()), 0);
    }

    #[test]
    fn space_at_the_end_is_a_fault() {
        assert_eq!(faults("let x = 1; ".to_owned()), 1);
    }
}
