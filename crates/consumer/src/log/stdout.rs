//! Lines on standard output, several with one call of the system.

use std::io::Write;

use parking_lot::Mutex;

use super::Lines;
use crate::rules::Level;

/// Bytes that are held back, at most, but for the line that goes over them.
const HELD_BYTES_MAX: usize = 64 << 10;

/// Writes lines to standard output. They are out after `flush`, which comes before the acks of
/// their messages.
#[derive(Debug, Default)]
pub struct Stdout {
    held: Mutex<String>,
}

impl Lines for Stdout {
    fn write(&self, _level: Level, line: &str) {
        let mut held = self.held.lock();
        held.push_str(line);
        held.push('\n');
        if held.len() >= HELD_BYTES_MAX {
            write_out(&mut held);
        }
    }

    fn flush(&self) {
        write_out(&mut self.held.lock());
    }
}

fn write_out(held: &mut String) {
    if held.is_empty() {
        return;
    }
    let mut out = std::io::stdout().lock();
    // Nobody is left to be told when standard output is gone.
    drop(out.write_all(held.as_bytes()).and_then(|()| out.flush()));
    held.clear();
}
