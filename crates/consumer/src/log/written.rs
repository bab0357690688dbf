//! Lines that are written somewhere, several with one call of the system.

use std::io::Write;

use parking_lot::Mutex;

use super::Lines;
use crate::rules::Level;

/// Bytes that are held back, at most, but for the line that goes over them.
const HELD_BYTES_MAX: usize = 64 << 10;

/// Writes lines to `W`. They are out after `flush`, which comes before the acks of their messages.
#[derive(Debug)]
pub struct Written<W> {
    state: Mutex<State<W>>,
}

/// Lines on standard output.
pub type Stdout = Written<std::io::Stdout>;

#[derive(Debug)]
struct State<W> {
    held: String,
    out: W,
}

impl<W: Write> Written<W> {
    /// Lines that are written to `out`.
    pub fn new(out: W) -> Self {
        Self { state: Mutex::new(State { held: String::new(), out }) }
    }
}

impl Default for Stdout {
    fn default() -> Self {
        Self::new(std::io::stdout())
    }
}

impl<W: Write + Send + 'static> Lines for Written<W> {
    fn write(&self, _level: Level, line: &str) {
        let mut state = self.state.lock();
        state.held.push_str(line);
        state.held.push('\n');
        if state.held.len() >= HELD_BYTES_MAX {
            state.write_out();
        }
    }

    fn flush(&self) {
        self.state.lock().write_out();
    }
}

impl<W: Write> State<W> {
    fn write_out(&mut self) {
        if self.held.is_empty() {
            return;
        }
        // Nobody is left to be told when the place where lines go is gone.
        drop(self.out.write_all(self.held.as_bytes()).and_then(|()| self.out.flush()));
        self.held.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::ErrorsTo;
    use super::*;

    #[test]
    fn lines_are_held_until_they_are_flushed_or_many() {
        let lines = ErrorsTo(Written::new(Vec::new()));
        let out = || lines.0.state.lock().out.clone();
        assert!(lines.wants(Level::Error) && !lines.wants(Level::Info));
        lines.write(Level::Error, "a");
        lines.write(Level::Error, "b");
        assert_eq!(out(), b"");
        lines.flush();
        assert_eq!(out(), b"a\nb\n");
        lines.write(Level::Error, &"c".repeat(HELD_BYTES_MAX));
        assert_eq!(out().len(), 4 + HELD_BYTES_MAX + 1);
    }
}
