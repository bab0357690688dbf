//! Bounds, Google's and ours.

use std::time::Duration;

/// Bytes of the code of one function: Google's 20 KB.
pub const CODE_BYTES_MAX: usize = 20 << 10;
/// Transforms of one topic or subscription, disabled ones included: Google's.
pub const TRANSFORMS_MAX: usize = 5;

/// Bytes of a text that says what is wrong: it may quote what a script threw.
pub const TEXT_BYTES_MAX: usize = 500;

/// How long a helper works for one owner while others wait.
pub(crate) const SLICE: Duration = Duration::from_millis(10);
/// Sandboxes that a helper keeps. To load one takes a quarter of a millisecond.
pub(crate) const SANDBOXES_MAX: usize = 16;
/// What a sandbox may keep while another is used; one that keeps more is loaded anew.
pub(crate) const RESTING_BYTES_MAX: i64 = 1 << 20;
/// Memory of a helper: the largest message with all that its script may take of it and its copies
/// on their way, 16 sandboxes, and some to spare.
pub(crate) const HELPER_BYTES_MAX: u64 = 192 << 20;
/// Bytes that a process and its helper send each other at once: a message as large as may be, or
/// several that together are not larger.
pub(crate) const FRAME_BYTES_MAX: usize = 24 << 20;

/// What a script may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// For one message through the whole chain, and for the top level of all scripts of a chain.
    pub time: Duration,
    /// Memory of a sandbox, for a message without data.
    pub memory_bytes: usize,
    /// Memory on top of that for each byte of a message's data. A string takes one or two bytes
    /// for each character in JavaScript and is copied on its way in and out; what is parsed of it
    /// takes more.
    pub memory_per_data_byte: usize,
    /// Stack; a thread that runs a sandbox must have some more.
    pub stack_bytes: usize,
}

/// 500 ms is Google's. A sandbox that was just loaded takes about 0.3 MiB; 16 MiB leave room for
/// a result of some megabytes. With five helpers, of which one at a time has a large message, all
/// scripts together take 210 MiB at the worst of the 512 MiB that the server may take.
impl Default for Bounds {
    fn default() -> Self {
        Self {
            time: Duration::from_millis(500),
            memory_bytes: 16 << 20,
            memory_per_data_byte: 5,
            stack_bytes: 256 << 10,
        }
    }
}
