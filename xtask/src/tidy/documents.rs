//! Documents: decisions are numbered, links lead somewhere, tests they name exist.

use super::File;
use crate::place;

/// `docs/decisions/NNNN-title.md`, numbered without holes; relative links and named tests exist.
pub(super) fn check(files: &[File], faults: &mut Vec<String>) {
    check_decisions(files, faults);
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        let folder = place::root().join(&file.path);
        for link in links(&file.text) {
            let exists = folder.parent().is_some_and(|parent| parent.join(link).exists());
            if !exists {
                faults.push(format!("{}: the link {link} leads nowhere", file.path));
            }
        }
        for test in named_tests(&file.text).filter(|test| !is_defined(files, test)) {
            faults.push(format!("{}: there is no test {test}", file.path));
        }
    }
}

fn check_decisions(files: &[File], faults: &mut Vec<String>) {
    let names: Vec<&str> =
        files.iter().filter_map(|file| file.path.strip_prefix("docs/decisions/")).collect();
    for (number, name) in names.iter().enumerate() {
        let wanted = format!("{:04}-", number + 1);
        if !name.starts_with(&wanted) {
            faults.push(format!("docs/decisions/{name}: expected a name that begins {wanted}"));
        }
    }
}

/// Targets of `[text](target)` that are files beside the document.
fn links(text: &str) -> Vec<&str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.split('#').next().unwrap_or(target))
        .filter(|target| !target.is_empty() && !target.contains("://") && !target.contains(' '))
        .collect()
}

/// Tests a document names, as in `` `test_a_fact` `` or `` `a_fact_that_holds` ``: words with so
/// many joints are nothing else.
fn named_tests(text: &str) -> impl Iterator<Item = &str> {
    let is_test = |word: &&str| word.starts_with("test_") || word.matches('_').count() >= JOINTS;
    text.split('`').filter(|word| word.chars().all(is_name)).filter(is_test)
}

/// Metrics, the names with the most, have fewer.
const JOINTS: usize = 6;

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_defined(files: &[File], test: &str) -> bool {
    let definitions = [(".py", format!("def {test}(")), (".rs", format!("fn {test}("))];
    let defines = |file: &File| {
        let is_in = |(kind, text): &(&str, String)| {
            file.path.ends_with(kind) && file.text.contains(text.as_str())
        };
        definitions.iter().any(is_in)
    };
    files.iter().any(defines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_tests_are_found_and_looked_up() {
        let text = "shown by `e2e/test_a.py` `test_one`, `test_two` (4 ways)";
        assert_eq!(named_tests(text).collect::<Vec<_>>(), ["test_one", "test_two"]);
        let code = File { path: "a.py".to_owned(), text: "def test_one(x):".to_owned() };
        assert!(is_defined(std::slice::from_ref(&code), "test_one"));
        assert!(!is_defined(&[code], "test_two"));
        let text = "`what_is_said_in_so_many_words` of `postrider_live_streams`";
        assert_eq!(named_tests(text).collect::<Vec<_>>(), ["what_is_said_in_so_many_words"]);
        let code = "fn what_is_said_in_so_many_words() {".to_owned();
        let code = File { path: "a.rs".to_owned(), text: code };
        assert!(is_defined(&[code], "what_is_said_in_so_many_words"));
    }

    #[test]
    fn links_to_files_are_found() {
        let text = "see [a](docs/a.md#part), [b](https://b.org) and [c](#here)";
        assert_eq!(links(text), ["docs/a.md"]);
    }
}
