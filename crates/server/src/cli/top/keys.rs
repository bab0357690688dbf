//! The terminal of `postrider top`: its size, its keys, and how it is left as it was.

use std::io::{self, IsTerminal};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::getpgrp;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr,
};

use super::grid::Look;
use super::screen::Room;
use crate::cli::Failure;
use crate::cli::output::{hold_output, is_terminal, print_bytes, terminal_size};
use crate::cli::serve::Signals;

/// Another screen without a cursor, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// One that stands for a character.
    Char(char),
    /// Ctrl-C, Ctrl-D, escape, or nobody is there anymore.
    End,
}

/// The terminal while `top` has it. It is as before when this is dropped, or a signal ends us.
pub(super) struct Terminal {
    /// How keys were read before; `None` = they are not ours to read.
    before: Option<Termios>,
}

impl Terminal {
    /// Takes the terminal over, if standard output is one and nobody else has it.
    pub(super) fn take() -> Result<Option<Self>, Failure> {
        if !is_terminal() || is_dumb() || is_background() {
            return Ok(None);
        }
        let before = raw_keys();
        watch_signals(before.clone())?;
        print_bytes(ENTER.as_bytes())?;
        Ok(Some(Self { before }))
    }

    /// Whether keys can be pressed.
    pub(super) fn has_keys(&self) -> bool {
        self.before.is_some()
    }

    /// Shows these lines instead of what was shown before.
    pub(super) fn show(&self, lines: &[String]) -> Result<(), Failure> {
        // Each line is wiped behind its end: nothing flickers.
        let text = lines.join("\x1b[K\n");
        print_bytes(format!("\x1b[H{text}\x1b[K\x1b[J").as_bytes())
    }

    /// Waits this long for a key.
    pub(super) fn key(&self, time: Duration) -> Option<Key> {
        if self.before.is_none() {
            std::thread::sleep(time);
            return None;
        }
        if !is_waiting(time) {
            return None;
        }
        let first = read::<1>();
        // What begins with an escape and goes on is an arrow or the like; alone it is the key.
        let more = match first[..] {
            [ESCAPE] if is_waiting(Duration::ZERO) => read::<16>(),
            _ => Vec::new(),
        };
        Some(pressed(&[first, more].concat()))
    }
}

/// Whether something is there to be read within this time.
fn is_waiting(time: Duration) -> bool {
    let stdin = io::stdin();
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    let time = Timespec { tv_sec: seconds, tv_nsec: i64::from(time.subsec_nanos()) };
    // Interrupted: whoever waits waits again.
    poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&time)).is_ok_and(|ready| ready > 0)
}

/// Up to this many bytes, past any buffer, which polling would not know; none at the end.
fn read<const N: usize>() -> Vec<u8> {
    let mut bytes = [0; N];
    let count = rustix::io::read(io::stdin(), &mut bytes).unwrap_or_default();
    bytes.get(..count).unwrap_or_default().to_vec()
}

const ESCAPE: u8 = 27;

impl Drop for Terminal {
    fn drop(&mut self) {
        restore(self.before.as_ref());
    }
}

/// One key may be several bytes: those that begin with an escape are arrows and the like.
fn pressed(bytes: &[u8]) -> Key {
    match bytes {
        [] | [3 | 4 | ESCAPE] => Key::End,
        [first, ..] => Key::Char(char::from(*first).to_ascii_lowercase()),
    }
}

/// The terminal's size; unknown if there is no terminal.
pub(super) fn room() -> Room {
    if !is_terminal() {
        return Room::default();
    }
    let size = terminal_size();
    let look = Look { width: size.map(|(columns, _)| columns), has_colours: has_colours() };
    Room { look, height: size.map(|(_, rows)| rows), keys: None }
}

/// Whether colours are wanted: https://no-color.org.
fn has_colours() -> bool {
    let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    is_terminal() && !is_refused && !is_dumb()
}

fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}

/// Whether this is a job in the background: the terminal is someone else's, and taking it would
/// stop us.
fn is_background() -> bool {
    let stdin = io::stdin();
    stdin.is_terminal() && tcgetpgrp(&stdin).is_ok_and(|group| group != getpgrp())
}

/// Has keys come at once and unseen; returns how it was before.
fn raw_keys() -> Option<Termios> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return None;
    }
    let before = tcgetattr(&stdin).ok()?;
    let mut raw = before.clone();
    raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
    raw.special_codes[SpecialCodeIndex::VMIN] = 1;
    raw.special_codes[SpecialCodeIndex::VTIME] = 0;
    // Stopped with Ctrl-Z it could not give the terminal back; zero is no key.
    raw.special_codes[SpecialCodeIndex::VSUSP] = 0;
    tcsetattr(&stdin, OptionalActions::Now, &raw).ok()?;
    Some(before)
}

fn restore(before: Option<&Termios>) {
    if let Some(before) = before {
        // Whoever has taken the terminal away does not care.
        tcsetattr(io::stdin(), OptionalActions::Now, before).unwrap_or_default();
    }
    drop(print_bytes(LEAVE.as_bytes()));
}

/// A signal ends the program in the middle of anything, and leaves the terminal as it was.
fn watch_signals(before: Option<Termios>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    let mut signals = runtime.block_on(async { Signals::new() })?;
    std::thread::spawn(move || {
        runtime.block_on(signals.next());
        // Held until the end, so that nothing is drawn on the terminal that was given back.
        let _alone = hold_output();
        restore(before.as_ref());
        std::process::exit(0);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_apart() {
        assert_eq!(pressed(b"q"), Key::Char('q'));
        assert_eq!(pressed(b"S"), Key::Char('s'));
        for end in [&b""[..], b"\x03", b"\x04", b"\x1b"] {
            assert_eq!(pressed(end), Key::End, "{end:?}");
        }
        assert_eq!(pressed(b"\x1b[A"), Key::Char('\x1b'), "an arrow does nothing");
    }
}
