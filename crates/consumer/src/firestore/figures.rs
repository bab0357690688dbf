//! What Firestore answered, counted, and as text for Prometheus.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use tonic::Code;
use wire::rpc::code_name;

/// The counter of errors, by code.
pub const ERRORS: &str = "postrider_consumer_firestore_errors_total";
/// The counter of tries.
pub const TRIES: &str = "postrider_consumer_firestore_tries_total";
/// Codes that mean Firestore is overloaded or unreachable. ABORTED is not among them: those who
/// write the same document at the same time are told so every day.
pub const TRANSIENT_CODES: [&str; 3] = ["RESOURCE_EXHAUSTED", "UNAVAILABLE", "DEADLINE_EXCEEDED"];
/// Codes that last until someone fixes the setup.
pub const CONFIG_CODES: [&str; 2] = ["PERMISSION_DENIED", "UNAUTHENTICATED"];
/// gRPC has so many codes.
const CODES: usize = 17;

/// What Firestore answered so far.
#[derive(Debug, Default)]
pub struct Figures {
    errors: [AtomicU64; CODES],
    tries: AtomicU64,
}

impl Figures {
    /// Errors by their code, those that were tried again too. Codes that never came are left out.
    pub fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.all().filter(|(_, count)| *count > 0)
    }

    fn all(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let codes = (0..).map(|code| code_name(Code::from_i32(code)));
        codes.zip(self.errors.iter().map(|count| count.load(Ordering::Relaxed)))
    }

    /// Tries begun.
    pub fn tries(&self) -> u64 {
        self.tries.load(Ordering::Relaxed)
    }

    /// All of it, in Prometheus's text format. Codes that alerts look at are always there: a rule
    /// does not see a counter that begins with 1.
    pub fn text(&self) -> String {
        let mut out = format!(
            "# HELP {ERRORS} Errors from Firestore, including retried ones.\n\
             # TYPE {ERRORS} counter\n"
        );
        for (code, count) in self.all() {
            if count > 0 || TRANSIENT_CODES.contains(&code) || CONFIG_CODES.contains(&code) {
                put(&mut out, format_args!("{ERRORS}{{code=\"{code}\"}} {count}\n"));
            }
        }
        put(
            &mut out,
            format_args!(
                "# HELP {TRIES} Attempts to write a message.\n\
                 # TYPE {TRIES} counter\n{TRIES} {}\n",
                self.tries()
            ),
        );
        out
    }

    pub(super) fn count_try(&self) {
        self.tries.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_error(&self, code: Code) {
        if let Ok(place) = usize::try_from(i32::from(code))
            && let Some(count) = self.errors.get(place)
        {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[expect(clippy::expect_used, reason = "writing to a string cannot fail")]
fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes all text");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_that_alerts_look_at_are_always_shown() {
        let figures = Figures::default();
        figures.count_try();
        figures.count_error(Code::Aborted);
        figures.count_error(Code::Unavailable);
        let text = figures.text();
        for (code, count) in [("ABORTED", 1), ("UNAVAILABLE", 1), ("PERMISSION_DENIED", 0)] {
            assert!(text.contains(&format!("{ERRORS}{{code=\"{code}\"}} {count}\n")), "{text}");
        }
        assert!(!text.contains("NOT_FOUND") && text.contains(&format!("{TRIES} 1\n")), "{text}");
        assert_eq!(figures.errors().count(), 2);
    }
}
