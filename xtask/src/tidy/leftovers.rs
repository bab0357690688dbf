//! Things that must not stay behind: unfinished work, and paths of somebody's machine.

use super::File;

const UNFINISHED: [&str; 4] = ["TODO", "FIXME", "XXX", "HACK"];
const MACHINE: [&str; 4] = ["/tmp/", "/root/", "/home/", "/Users/"];

/// This file names the words it looks for.
const HERE: &str = "xtask/src/tidy/leftovers.rs";

/// No file holds a mark of unfinished work or a path of one machine.
pub(super) fn check(files: &[File], faults: &mut Vec<String>) {
    for file in files.iter().filter(|file| file.path != HERE) {
        for (number, line) in file.text.lines().enumerate() {
            let place = format!("{}:{}", file.path, number + 1);
            for word in UNFINISHED.iter().filter(|word| has_word(line, word)) {
                faults.push(format!("{place}: leftover {word}"));
            }
            for path in MACHINE.iter().filter(|path| has_path(line, path)) {
                faults.push(format!("{place}: path of a machine, {path}"));
            }
        }
    }
}

fn has_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word)
}

/// The path itself, not the end of a longer one such as a URL's.
fn has_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(place, _)| {
        let before = line.get(..place).and_then(|text| text.chars().next_back());
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '}' | '*'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_work_is_found_as_a_word() {
        assert!(has_word("// TODO: later", "TODO"));
        assert!(!has_word("let TODOS = 1;", "TODO"));
    }

    #[test]
    fn a_path_is_found_where_it_begins() {
        assert!(has_path("cd /home/ann", "/home/"));
        assert!(!has_path("https://example.com/home/", "/home/"));
    }
}
