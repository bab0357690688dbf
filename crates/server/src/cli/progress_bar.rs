//! A bar for work that takes its time, on a terminal only.

use std::time::Duration;

use super::output::StatusLine;

const WIDTH: u64 = 30;

/// Shows how far something is, on standard error.
pub(super) struct Bar(StatusLine);

impl Bar {
    pub(super) fn new() -> Self {
        Self(StatusLine::new())
    }

    /// Shows `done` of `total` after `elapsed`, instead of what was shown before.
    pub(super) fn show(&self, done: u64, total: u64, elapsed: Duration) {
        self.0.show(&line(done, total, elapsed));
    }

    /// Takes the bar away.
    pub(super) fn end(&self) {
        self.0.show("");
    }
}

fn line(done: u64, total: u64, elapsed: Duration) -> String {
    let done = done.min(total);
    let part = |of: u64| (done * of).checked_div(total).unwrap_or(of);
    let filled = usize::try_from(part(WIDTH)).unwrap_or_default();
    let width = usize::try_from(WIDTH).unwrap_or_default();
    let bar = "#".repeat(filled) + &"-".repeat(width.saturating_sub(filled));
    let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    let rate = (done * 1_000).checked_div(millis).unwrap_or_default();
    let left = (total - done).checked_div(rate);
    let left = left.map(|seconds| format!(", {seconds} s left")).unwrap_or_default();
    format!("[{bar}] {done} of {total}, {} %, {rate}/s{left}", part(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_shows_part_rate_and_what_is_left() {
        let text = line(500, 1_000, Duration::from_secs(5));
        let half = "#".repeat(15) + &"-".repeat(15);
        assert_eq!(text, format!("[{half}] 500 of 1000, 50 %, 100/s, 5 s left"));
        assert!(line(0, 10, Duration::ZERO).ends_with("0 of 10, 0 %, 0/s"));
        assert!(line(0, 0, Duration::ZERO).contains("0 of 0, 100 %"));
    }
}
