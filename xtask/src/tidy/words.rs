//! One word per concept: words that were retired in favour of another.

use super::File;

/// Retired word, matched as whole identifier parts (`DlqTopic` and `dlq_topic` both hold `dlq`),
/// and what to say instead.
const RETIRED: [(&[&str], &str); 13] = [
    (&["dlq"], "dead letter topic"),
    (&["dlt"], "dead letter topic"),
    (&["poison", "queue"], "dead letter topic"),
    (&["fifo", "mode"], "ordering"),
    (&["watermark"], "cursor"),
    (&["ack", "state"], "progress"),
    (&["subscription", "state"], "progress"),
    (&["retry", "count"], "attempt"),
    (&["request", "attempt"], "attempt"),
    (&["seqno"], "offset"),
    (&["backend"], "engine"),
    (&["streamer"], "live subscription"),
    (&["webhook"], "endpoint"),
];

/// Where a retired word is somebody else's word: path prefix, the word, and the reason.
const ALLOWED: [(&str, &str, &str); 12] = [
    ("crates/wire/", "", "wire names are Google's"),
    ("crates/server/src/rest/", "fifo mode", "a source's spelling that REST answers show"),
    (
        "crates/domain/src/subscription/",
        "fifo mode",
        "a source's spelling in the table of settings",
    ),
    ("crates/server/tests/", "fifo mode", "tests of what REST answers show"),
    ("crates/server/src/convert", "", "wire names are Google's"),
    ("crates/server/src/cli/", "dlq", "a source's name for the standard dead letter topic"),
    ("crates/server/tests/materialize/", "dlq", "tests of what the command line makes"),
    ("crates/server/src/rest/figures.rs", "retry count", "a source's name for a figure"),
    ("crates/", "webhook", "the headers of Standard Webhooks"),
    ("crates/broker/", "retry count", "a source's name of a metric"),
    ("crates/broker/", "request attempt", "a source's line in the log"),
    ("crates/server/", "retry count", "a source's name of a metric"),
];

/// Rust files of the crates use the words of the table only.
pub(super) fn check(files: &[File], faults: &mut Vec<String>) {
    let ours = |file: &&File| file.path.starts_with("crates/") && file.path.ends_with(".rs");
    for file in files.iter().filter(ours) {
        for (number, line) in file.text.lines().enumerate() {
            for (retired, instead) in found(line) {
                if !allowed(&file.path, &retired) {
                    faults.push(format!(
                        "{}:{}: \"{retired}\" is retired, say \"{instead}\"",
                        file.path,
                        number + 1
                    ));
                }
            }
        }
    }
}

fn allowed(path: &str, retired: &str) -> bool {
    ALLOWED
        .iter()
        .any(|(prefix, word, _)| path.starts_with(prefix) && (word.is_empty() || *word == retired))
}

fn found(line: &str) -> Vec<(String, &'static str)> {
    let parts = parts(line);
    RETIRED
        .iter()
        .filter(|(words, _)| {
            parts.windows(words.len()).any(|window| window.iter().zip(*words).all(|(a, b)| a == b))
        })
        .map(|(words, instead)| (words.join(" "), *instead))
        .collect()
}

/// The lower-case words of a line: identifiers are split at `_` and before capitals.
fn parts(line: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut word = String::new();
    let mut after_lower = false;
    for c in line.chars() {
        let starts = c.is_uppercase() && after_lower;
        if (!c.is_alphanumeric() || starts) && !word.is_empty() {
            parts.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        after_lower = c.is_lowercase();
    }
    if !word.is_empty() {
        parts.push(word);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retired_words_are_found_in_identifiers_and_comments() {
        for line in ["let dlq_topic = 1;", "struct DlqTopic;", "// the DLQ", "fn fifo_mode()"] {
            assert_eq!(found(line).len(), 1, "{line}");
        }
        for line in ["let offset = 1;", "// a model of backends", "mode of a fifo"] {
            assert!(found(line).is_empty(), "{line}");
        }
    }

    #[test]
    fn wire_names_are_exempt() {
        assert!(allowed("crates/wire/src/lib.rs", "dlq"));
        assert!(!allowed("crates/broker/src/lib.rs", "dlq"));
    }
}
