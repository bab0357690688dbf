//! Rules and promises that code and documents cite are in `docs/rules.md`.

use super::File;

const RULES: &str = "docs/rules.md";
/// What the names of rules begin with.
const KINDS: [&str; 4] = ["LOG-", "FAULT-", "LEASE-", "BENCH-"];

/// Every cited rule and promise is defined.
pub(super) fn check(files: &[File], faults: &mut Vec<String>) {
    let Some(rules) = files.iter().find(|file| file.path == RULES) else {
        faults.push(format!("{RULES} is missing"));
        return;
    };
    for file in files.iter().filter(|file| may_cite(&file.path)) {
        for (number, line) in file.text.lines().enumerate() {
            for name in cited(line).filter(|name| !is_defined(&rules.text, name)) {
                faults.push(format!("{}:{}: {RULES} has no {name}", file.path, number + 1));
            }
        }
    }
}

fn may_cite(path: &str) -> bool {
    let is_ours = path.starts_with("crates/") || path.starts_with("docs/");
    is_ours && (path.ends_with(".rs") || path.ends_with(".md"))
}

/// Rules by their names; promises where they follow the word or stand in brackets of a comment.
fn cited(line: &str) -> impl Iterator<Item = &str> {
    let is_end = |c: char| !(c.is_ascii_alphanumeric() || c == '-');
    let rules = line.split(is_end).filter(|word| is_rule(word));
    let promises = line.split("romise ").skip(1).filter_map(move |rest| rest.split(is_end).next());
    let is_text = line.trim_start().starts_with("//");
    let bracketed = line.split('(').skip(1).filter_map(|rest| rest.split_once(')'));
    let bracketed = bracketed.map(|(inside, _)| inside).filter(move |_| is_text);
    rules.chain(promises.chain(bracketed).filter(|word| is_promise(word)))
}

fn is_rule(word: &str) -> bool {
    KINDS.iter().any(|kind| word.strip_prefix(kind).is_some_and(is_number))
}

/// A capital and a digit, as in `D1`.
fn is_promise(word: &str) -> bool {
    word.len() == 2 && word.starts_with(|c: char| c.is_ascii_uppercase()) && is_number(&word[1..])
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_defined(rules: &str, name: &str) -> bool {
    rules.contains(&format!("**{name}** ")) || rules.contains(&format!("**{name} "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn citations_are_found() {
        let names = |line| cited(line).collect::<Vec<_>>();
        assert_eq!(names("//! Opens a store (LOG-1, LOG-10)."), ["LOG-1", "LOG-10"]);
        assert_eq!(names("/// Promise C1: each effect once (L1)."), ["C1", "L1"]);
        assert!(names("    first.poll(T0)").is_empty(), "that is code");
        assert!(names("CATALOG-1, LOG-x and a promise of more").is_empty());
    }

    #[test]
    fn a_rule_is_defined_by_its_name_in_bold() {
        let rules = "| **D1** durable |\n- **LOG-1 References.** One way.";
        assert!(is_defined(rules, "D1") && is_defined(rules, "LOG-1"));
        assert!(!is_defined(rules, "D2") && !is_defined(rules, "LOG-10"));
    }
}
