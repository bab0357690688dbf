//! A summary of what is wanted in a collection, so that a producer can drop unwanted messages
//! before sending them.
//!
//! Every filter that requires one of certain values contributes a key for each of them. If some
//! filter requires none, everything may be wanted. A message may be wanted if it has one of the
//! keys. There may be keys that no filter has anymore, or false positives (Bloom), but a key is
//! never missing.
//!
//! A key is 64 bits: FNV-1a over these bytes, then mixed as `mixed` does.
//!
//! ```text
//! 'd' or 'a'                                 data or attributes
//! { length of a name, 4 bytes, low first; the name }     the path
//! 0xff, 0xff, 0xff, 0xff                     its end
//! 'n' | 't' | 'f' | 's' text | 'i' decimal digits | 'x' double, 8 bytes, low first
//! ```
//!
//! Whole numbers from −2⁶³ to 2⁶⁴ − 1 are written in decimal, however the message wrote them.

use super::plan::Plan;
use super::program;
use super::{Index, Subject};
use crate::filter::{Expression, Field, Scalar, ScalarRef};
use crate::json::{self, Value};
use crate::message::{self, Malformed};

/// Up to this many keys are listed exactly.
pub const EXACT_KEYS_MAX: usize = 1_000;
/// Bits of a Bloom filter per key: about one message in a hundred passes by mistake, for each key
/// that it has.
pub const BLOOM_BITS_PER_KEY: usize = 10;
/// Bits that each key sets.
pub const BLOOM_HASHES: u32 = 7;

/// What is wanted in one collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Increases whenever anything else here changes, and never decreases while the index lives.
    pub version: u64,
    /// Everything may be wanted.
    pub match_all: bool,
    /// A message needs one of these keys; filters that need none are not included.
    pub interest: Interest,
}

/// A set of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interest {
    /// All keys, sorted.
    Exact(Vec<u64>),
    /// A Bloom filter: key k sets bits `(low + i · (high | 1)) mod bits`, i from 0 to
    /// `BLOOM_HASHES` − 1, low and high being the halves of k, 64 bits to a word, low bits first.
    Bloom(Vec<u64>),
}

impl Summary {
    /// Whether a message with these keys may be wanted.
    pub fn may_want(&self, keys: &[u64]) -> bool {
        self.match_all || keys.iter().any(|key| self.interest.may_have(*key))
    }
}

impl Interest {
    fn new(mut keys: Vec<u64>) -> Self {
        keys.sort_unstable();
        keys.dedup();
        if keys.len() <= EXACT_KEYS_MAX {
            return Self::Exact(keys);
        }
        let mut words = vec![0_u64; (keys.len() * BLOOM_BITS_PER_KEY).div_ceil(64)];
        for key in keys {
            for bit in bits(key, words.len()) {
                if let Some(word) = words.get_mut(bit / 64) {
                    *word |= 1 << (bit % 64);
                }
            }
        }
        Self::Bloom(words)
    }

    fn may_have(&self, key: u64) -> bool {
        match self {
            Self::Exact(keys) => keys.binary_search(&key).is_ok(),
            Self::Bloom(words) => bits(key, words.len())
                .all(|bit| words.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)),
        }
    }
}

fn bits(key: u64, words: usize) -> impl Iterator<Item = usize> {
    let (low, high) = (key & 0xffff_ffff, key >> 32 | 1);
    let bits = (words as u64 * 64).max(1);
    let bit = move |hash: u32| (low + u64::from(hash) * high) % bits;
    (0..BLOOM_HASHES).map(move |hash| usize::try_from(bit(hash)).unwrap_or(0))
}

impl Index {
    /// What is wanted in a collection now. Scans every filter of this index: cache the answer until
    /// `interest_version` changes.
    pub fn interest(&self, tenant: &str, collection: &str) -> Summary {
        let mut summary = Summary {
            version: self.interest_version(tenant, collection),
            match_all: false,
            interest: Interest::Exact(Vec::new()),
        };
        let Some(scope) = self.find_scope(tenant, collection) else { return summary };
        let mut keys = Vec::new();
        for (_, group) in self.groups.iter().filter(|(_, group)| group.scope == scope) {
            let filter = program::read(&group.program, &self.paths);
            summary.match_all |= !filter.is_some_and(|filter| gather(&filter, &mut keys));
        }
        summary.interest = Interest::new(keys);
        summary
    }

    /// The version of what is wanted in a collection.
    pub fn interest_version(&self, tenant: &str, collection: &str) -> u64 {
        self.find_scope(tenant, collection)
            .and_then(|scope| self.scopes.get(scope))
            .map_or(self.version, |collection| collection.version)
    }
}

/// Appends the keys of which a message needs one. `false` = it needs none.
fn gather(filter: &Expression, keys: &mut Vec<u64>) -> bool {
    let plan = Plan::new(Some(filter));
    let mut needed = !plan.alternatives.is_empty();
    for alternative in &plan.alternatives {
        match alternative.equalities.iter().min_by_key(|(_, values)| values.len()) {
            Some((field, values)) => keys.extend(values.iter().map(|value| key_of(field, value))),
            None => needed = false,
        }
    }
    needed
}

/// The key of a field that has a value.
pub fn key_of(field: &Field, value: &Scalar) -> u64 {
    let (root, path) = match field {
        Field::Attribute(key) => (b'a', std::slice::from_ref(key)),
        Field::Data(path) => (b'd', path.as_slice()),
    };
    let path = path.iter().fold(State::new(root), |state, name| state.name(name.bytes()));
    path.key(value.borrow())
}

/// Appends the keys of a message: of all its attributes and of all values in its data that are not
/// in lists. Data that is not JSON has none.
pub fn keys_of(subject: Subject<'_>, keys: &mut Vec<u64>) -> Result<(), Malformed> {
    for pair in message::attributes(subject.record) {
        let (name, value) = pair?;
        let state = State::new(b'a').name(name.iter().copied());
        keys.push(state.key(ScalarRef::Text(value)));
    }
    let before = keys.len();
    if data_keys(subject.data, keys).is_err() {
        keys.truncate(before);
    }
    Ok(())
}

fn data_keys(data: &[u8], keys: &mut Vec<u64>) -> Result<(), json::NotJson> {
    let mut open = vec![(State::new(b'd'), data)];
    let mut text = String::new();
    while let Some((above, object)) = open.pop() {
        let Some(members) = json::open(object)? else { continue };
        for member in members {
            let (name, value) = member?;
            text.clear();
            name.append_to(&mut text);
            let state = above.name(text.bytes());
            let value = match value {
                Value::Null => ScalarRef::Null,
                Value::Bool(bool) => ScalarRef::Bool(bool),
                Value::Number(number) => ScalarRef::Number(number),
                Value::Text(value) => {
                    text.clear();
                    value.append_to(&mut text);
                    ScalarRef::Text(text.as_bytes())
                }
                Value::Object(inner) => {
                    open.push((state, inner.as_bytes()));
                    continue;
                }
                Value::List(_) => continue,
            };
            keys.push(state.key(value));
        }
    }
    Ok(())
}

/// A running FNV-1a hash.
#[derive(Clone, Copy)]
struct State(u64);

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

impl State {
    fn new(root: u8) -> Self {
        Self(FNV_OFFSET).bytes([root])
    }

    fn bytes(self, bytes: impl IntoIterator<Item = u8>) -> Self {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        Self(bytes.into_iter().fold(self.0, step))
    }

    fn name(self, name: impl ExactSizeIterator<Item = u8>) -> Self {
        let length = u32::try_from(name.len()).unwrap_or(u32::MAX);
        self.bytes(length.to_le_bytes()).bytes(name)
    }

    fn key(self, value: ScalarRef<'_>) -> u64 {
        let state = self.bytes([0xff; 4]);
        let state = match value {
            ScalarRef::Null => state.bytes(*b"n"),
            ScalarRef::Bool(true) => state.bytes(*b"t"),
            ScalarRef::Bool(false) => state.bytes(*b"f"),
            ScalarRef::Text(text) => state.bytes(*b"s").bytes(text.iter().copied()),
            ScalarRef::Number(number) => match number.to_bits() {
                (2, bits) => state.bytes(*b"x").bytes(bits.to_le_bytes()),
                _ => state.bytes(*b"i").bytes(number.to_string().bytes()),
            },
        };
        mixed(state.0)
    }
}

/// Spreads the entropy that FNV leaves in the low bits over all of them.
fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

/// A hash of bytes that is the same everywhere.
pub(crate) fn fold(bytes: impl Iterator<Item = u8>) -> u64 {
    mixed(State(FNV_OFFSET).bytes(bytes).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fixed values that producers in other languages can be checked against.
    #[test]
    fn keys_are_what_the_description_says() {
        let status = Field::Data(vec!["a".to_owned()]);
        let mut bytes = vec![b'd', 1, 0, 0, 0, b'a', 0xff, 0xff, 0xff, 0xff];
        bytes.extend(b"sx");
        assert_eq!(key_of(&status, &Scalar::from("x")), fold(bytes.into_iter()));
        assert_eq!(fold(std::iter::empty()), mixed(0xcbf2_9ce4_8422_2325));
        let one = Scalar::Number(json::Number::from(1_i64));
        assert_ne!(key_of(&status, &one), key_of(&status, &Scalar::from("1")));
        assert_ne!(key_of(&Field::Attribute("a".to_owned()), &one), key_of(&status, &one));
    }

    #[test]
    fn a_bloom_filter_has_every_key_and_few_others() {
        let key = |number: u64| mixed(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let interest = Interest::new((0..100_000).map(key).collect());
        let Interest::Bloom(words) = &interest else { panic!("100,000 keys are many") };
        assert_eq!(words.len(), 15_625);
        assert!((0..100_000).all(|number| interest.may_have(key(number))));
        let passed = (100_000..200_000).filter(|number| interest.may_have(key(*number))).count();
        assert!(passed < 1_500, "{passed} of 100,000");
        let few = Interest::new((0..1_000).map(key).collect());
        assert!(matches!(&few, Interest::Exact(keys) if keys.len() == 1_000));
        assert!(few.may_have(key(3)) && !few.may_have(key(1_000)));
    }
}
