//! What functions of transforms return, and what the processes that run them answer.

/// Recipes of values: plain ones, objects, getters, proxies.
pub(super) const RETURNED: &[&[u8]] = &[
    b"\x02",
    b"\x00",
    b"\x45\x02\x80\x06\x81\x45\x01\x85\x06",
    b"\x45\x02\x00\x06\x01\x44\x06",
    b"\x40\x45\x02\x80\x06\x81\x41\x06",
    b"\x0d",
];

/// Answers: a message with an attribute, one that was dropped, a failure, a refusal.
pub(super) const ANSWERED: &[&[u8]] = &[
    b"\x0a\x0b\x0a\x01x\x12\x06\x0a\x01k\x12\x01v",
    b"\x0a\x00",
    b"\x0a\x0b\x1a\x09\x08\x01\x10\x01\x1a\x01e\x20\x03",
    b"\x12\x07\x10\x01\x1a\x01e\x20\x03",
];
