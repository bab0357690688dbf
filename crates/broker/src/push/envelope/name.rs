//! Permanent names for messages and requests, so that a receiver recognizes duplicates.

use domain::delivery::Lease;
use domain::letter::{ORIGINAL_MESSAGE_ID, ORIGINAL_SUBSCRIPTION};
use domain::{Record, message};

/// The name of a request: that of its message, or for several messages one that only this
/// combination has. It must not be that of one of them: a receiver that already got that one alone
/// would treat the others as duplicates too.
pub(super) fn of_request(leases: &[Lease]) -> String {
    let (first, last) = match leases {
        [] => return String::new(),
        [one] => return of_message(&one.stored_record()).to_string(),
        [first, .., last] => {
            (of_message(&first.stored_record()), of_message(&last.stored_record()))
        }
    };
    let mixed = leases.iter().fold(FNV_START, |mixed, lease| {
        let bytes = of_message(&lease.stored_record()).to_be_bytes();
        bytes.iter().fold(mixed, |mixed, byte| (mixed ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
    });
    format!("{first}-{last}-{mixed:016x}")
}

/// FNV-1a: nobody chooses offsets, so nothing stronger is needed.
const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// The message's original id. A replay has another id, and carries the original one along; a dead
/// letter carries it too, and is a separate message.
fn of_message(record: &Record) -> u64 {
    let attribute = |key| message::attribute(&record.body, key).ok().flatten();
    attribute(ORIGINAL_MESSAGE_ID)
        .filter(|_| attribute(ORIGINAL_SUBSCRIPTION).is_none())
        .and_then(|first| first.parse().ok())
        .unwrap_or(record.offset.0)
}
