//! Reads the numbers of tests out of the test programs' summaries.

use crate::process::Said;
use crate::stages::Count;

/// Which program's summary it is.
#[derive(Clone, Copy)]
pub(crate) enum Format {
    /// `Summary [ 1.2s] 10 tests run: 9 passed, 1 failed, 0 skipped`.
    Nextest,
    /// `test result: ok. 3 passed; 0 failed; …`, once per binary.
    CargoTest,
    /// `2 failed, 345 passed, 1 error in 3.21s`.
    Pytest,
    /// `# pass 12` and `# fail 0`.
    Node,
}

/// The numbers a test program reported. What failed without saying so counts as one failure.
pub(crate) fn count(said: &Said, format: Format) -> Count {
    let mut count = Count::default();
    for line in &said.lines {
        let found = match format {
            Format::Nextest if line.contains("tests run:") => numbers(line),
            Format::CargoTest if line.starts_with("test result:") => numbers(line),
            Format::Pytest if is_pytest_summary(line) => numbers(line),
            Format::Node => node_numbers(line),
            _ => Count::default(),
        };
        count.passed += found.passed;
        count.failed += found.failed;
    }
    if count.failed == 0 && !said.success {
        count.failed = 1;
    }
    count
}

fn is_pytest_summary(line: &str) -> bool {
    let line = line.trim_matches(|c| c == '=' || c == ' ');
    line.contains(" in ") && line.ends_with('s') && line.starts_with(|c: char| c.is_ascii_digit())
        || line.contains(" in ") && line.ends_with(')')
}

/// `9 passed, 1 failed, 1 error`: every number is followed by its word.
fn numbers(line: &str) -> Count {
    let words: Vec<&str> = line.split([' ', ',', ';', '=']).filter(|w| !w.is_empty()).collect();
    let mut count = Count::default();
    for pair in words.windows(2) {
        let [number, word] = pair else { continue };
        let Ok(number) = number.parse::<u64>() else { continue };
        match *word {
            "passed" => count.passed += number,
            "failed" | "error" | "errors" | "timed" => count.failed += number,
            _ => {}
        }
    }
    count
}

fn node_numbers(line: &str) -> Count {
    let mut words = line.split_whitespace();
    let (Some("#" | "ℹ"), Some(word), Some(number)) = (words.next(), words.next(), words.next())
    else {
        return Count::default();
    };
    match (word, number.parse()) {
        ("pass", Ok(passed)) => Count { passed, failed: 0 },
        ("fail" | "cancelled", Ok(failed)) => Count { passed: 0, failed },
        _ => Count::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(success: bool, text: &str) -> Said {
        Said { success, lines: text.lines().map(str::to_owned).collect() }
    }

    #[test]
    fn nextest_s_summary_is_read() {
        let text = "    PASS [   0.1s] a b\n  Summary [  1.234s] 12 tests run: 11 passed (1 slow), \
                    1 failed, 3 skipped";
        let got = count(&said(false, text), Format::Nextest);
        assert_eq!(got, Count { passed: 11, failed: 1 });
    }

    #[test]
    fn cargo_test_s_summaries_are_added() {
        let text = "test result: ok. 3 passed; 0 failed; 0 ignored\nrunning 2 tests\n\
                    test result: FAILED. 1 passed; 1 failed; 0 ignored";
        let got = count(&said(false, text), Format::CargoTest);
        assert_eq!(got, Count { passed: 4, failed: 1 });
    }

    #[test]
    fn pytest_s_summary_is_read_with_errors() {
        let text = "test_a.py ....\n2 failed, 345 passed, 1 error in 3.21s";
        let got = count(&said(false, text), Format::Pytest);
        assert_eq!(got, Count { passed: 345, failed: 3 });
        let got = count(&said(true, "301 passed in 123.45s (0:02:03)"), Format::Pytest);
        assert_eq!(got, Count { passed: 301, failed: 0 });
    }

    #[test]
    fn node_s_summary_is_read() {
        let got = count(&said(false, "# tests 13\n# pass 12\n# fail 1"), Format::Node);
        assert_eq!(got, Count { passed: 12, failed: 1 });
    }

    #[test]
    fn a_failure_without_a_summary_counts() {
        let got = count(&said(false, "Traceback"), Format::Pytest);
        assert_eq!(got, Count { passed: 0, failed: 1 });
    }
}
