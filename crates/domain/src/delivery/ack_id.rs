//! The id a consumer gets with a lease and sends back to ack, nack or extend it.

use std::fmt;

use crate::offset::{Epoch, Offset, SubscriptionId};

/// Names one lease of one record, forever.
///
/// As text it is 48 characters of `A–Z a–z 0–9 - _`, including a checksum that catches mistyped or
/// truncated ids. The checksum does not protect against forgery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AckId {
    subscription: SubscriptionId,
    offset: Offset,
    epoch: Epoch,
    lease: u64,
}

/// Text that no subscription ever issued as an ack id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ack id is malformed")]
pub struct MalformedAckId;

/// Four numbers and the checksum.
const BYTES: usize = 4 * 8 + 4;
/// Three bytes make four characters.
const TEXT_BYTES: usize = BYTES / 3 * 4;

impl AckId {
    pub(super) fn new(
        subscription: SubscriptionId,
        offset: Offset,
        epoch: Epoch,
        lease: u64,
    ) -> Self {
        Self { subscription, offset, epoch, lease }
    }

    /// The subscription that issued it.
    pub fn subscription(&self) -> SubscriptionId {
        self.subscription
    }

    /// The record that was leased.
    pub fn offset(&self) -> Offset {
        self.offset
    }

    /// The epoch in which it was leased.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Which of the subscription's leases of that epoch it was.
    pub(super) fn lease(&self) -> u64 {
        self.lease
    }

    /// Appends the text form to `out`.
    pub fn write_to(&self, out: &mut String) {
        let mut text = [0; TEXT_BYTES];
        out.push_str(self.write(&mut text));
    }

    /// Parses the text form; anything that `write_to` did not write is malformed.
    pub fn parse(text: &str) -> Result<Self, MalformedAckId> {
        let text: &[u8; TEXT_BYTES] = text.as_bytes().try_into().map_err(|_| MalformedAckId)?;
        let mut bytes = [0; BYTES];
        for (group, four) in bytes.as_chunks_mut::<3>().0.iter_mut().zip(text.as_chunks::<4>().0) {
            let bits = four.iter().fold(0, |bits, &c| bits << 6 | value_of(c));
            if bits & ABOVE_FOUR_SYMBOLS != 0 {
                return Err(MalformedAckId);
            }
            let [_, first, second, third] = bits.to_be_bytes();
            *group = [first, second, third];
        }
        let (numbers, check) = bytes.split_last_chunk::<4>().ok_or(MalformedAckId)?;
        let &[subscription, offset, epoch, lease] = numbers.as_chunks::<8>().0 else {
            return Err(MalformedAckId);
        };
        let numbers = [subscription, offset, epoch, lease].map(u64::from_be_bytes);
        if check_of(numbers) != u32::from_be_bytes(*check) {
            return Err(MalformedAckId);
        }
        let [subscription, offset, epoch, lease] = numbers;
        Ok(Self {
            subscription: SubscriptionId(subscription),
            offset: Offset(offset),
            epoch: Epoch(epoch),
            lease,
        })
    }

    fn write<'text>(&self, text: &'text mut [u8; TEXT_BYTES]) -> &'text str {
        let numbers = [self.subscription.0, self.offset.0, self.epoch.0, self.lease];
        let mut bytes = [0; BYTES];
        let (head, check) = bytes.as_mut_slice().split_at_mut(4 * 8);
        for (eight, number) in head.as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
            *eight = number.to_be_bytes();
        }
        check.copy_from_slice(&check_of(numbers).to_be_bytes());
        for (four, group) in text.as_chunks_mut::<4>().0.iter_mut().zip(bytes.as_chunks::<3>().0) {
            let [first, second, third] = *group;
            let bits = u32::from_be_bytes([0, first, second, third]);
            *four = [bits >> 18, bits >> 12, bits >> 6, bits].map(symbol_of);
        }
        std::str::from_utf8(text).unwrap_or_default()
    }
}

impl fmt::Display for AckId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.write(&mut [0; TEXT_BYTES]))
    }
}

/// Mixes the numbers so that changing any of them almost surely changes the checksum.
fn check_of(numbers: [u64; 4]) -> u32 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = numbers
        .iter()
        .fold(ODD, |mixed, number| (mixed ^ number).wrapping_mul(ODD).rotate_left(29));
    let [a, b, c, d, ..] = mixed.wrapping_mul(ODD).to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

const SYMBOLS: [u8; 64] = *b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Marks a character that is not a symbol: every bit above the six of a symbol is set. Wherever it
/// appears among four characters, some of those bits land above the 24 bits that four symbols fill.
const INVALID: u32 = !63;
const ABOVE_FOUR_SYMBOLS: u32 = 0xff00_0000;

/// The value of every character.
const VALUES: [u32; 256] = values();

const fn values() -> [u32; 256] {
    let mut values = [INVALID; 256];
    let mut value = 0;
    while value < 64 {
        #[expect(clippy::indexing_slicing, reason = "a byte is a place in 256")]
        {
            values[SYMBOLS[value as usize] as usize] = value;
        }
        value += 1;
    }
    values
}

fn value_of(character: u8) -> u32 {
    VALUES.get(usize::from(character)).copied().unwrap_or(INVALID)
}

fn symbol_of(bits: u32) -> u8 {
    SYMBOLS.get((bits & 63) as usize).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_id() -> impl Strategy<Value = AckId> {
        (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>())
            .prop_map(|(s, o, e, lease)| AckId::new(SubscriptionId(s), Offset(o), Epoch(e), lease))
    }

    proptest! {
        #[test]
        fn an_id_comes_back_from_its_text(id in any_id()) {
            let mut text = String::new();
            id.write_to(&mut text);
            prop_assert_eq!(&text, &id.to_string());
            prop_assert!(text.bytes().all(|c| SYMBOLS.contains(&c)));
            prop_assert_eq!(AckId::parse(&text), Ok(id));
        }

        #[test]
        fn a_mistyped_id_is_refused(id in any_id(), place in 0..TEXT_BYTES, typed: char) {
            let text = id.to_string();
            let mut characters: Vec<char> = text.chars().collect();
            *characters.get_mut(place).unwrap() = typed;
            let mistyped: String = characters.into_iter().collect();
            prop_assume!(mistyped != text);
            prop_assert_eq!(AckId::parse(&mistyped), Err(MalformedAckId));
        }

        #[test]
        fn rubbish_is_refused(text in ".{0,60}") {
            prop_assert_eq!(AckId::parse(&text), Err(MalformedAckId));
        }
    }

    #[test]
    fn every_byte_that_is_no_symbol_is_refused_at_every_place() {
        let id = AckId::new(SubscriptionId(1), Offset(2), Epoch(3), 4).to_string();
        for place in 0..4 {
            for byte in (0..128_u8).filter(|byte| !SYMBOLS.contains(byte)) {
                let mut bytes = id.clone().into_bytes();
                *bytes.get_mut(place).unwrap() = byte;
                let text = String::from_utf8(bytes).unwrap();
                assert_eq!(AckId::parse(&text), Err(MalformedAckId), "{byte} at {place}");
            }
        }
    }
}
