//! Numbers that compare by value, however they are written.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// A number. Whole numbers from −2⁶³ to 2⁶⁴ − 1 are exact; all others are the nearest double, and
/// one beyond the range of doubles is greater (or less) than all of them.
///
/// Every value has only one form: `1`, `1.0` and `10e-1` are equal, ordered and hashed alike.
#[derive(Clone, Copy, Debug)]
pub struct Number(Form);

#[derive(Clone, Copy, Debug)]
enum Form {
    /// Zero or more.
    Whole(u64),
    /// Less than zero.
    Below(i64),
    /// Anything the others cannot hold; never NaN.
    Double(f64),
}

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;

impl Number {
    /// Parses a JSON number. The scanner has already validated the text.
    pub(super) fn read(text: &str) -> Self {
        if let Ok(whole) = text.parse::<u64>() {
            return Self(Form::Whole(whole));
        }
        match text.parse::<i64>() {
            Ok(below) => Self::from(below),
            Err(_) => Self::from_double(text.parse().unwrap_or(0.0)),
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "whole and within the range, so exact")]
    fn from_double(double: f64) -> Self {
        let whole = double.trunc() == double;
        if whole && (0.0..TWO_TO_64).contains(&double) {
            return Self(Form::Whole(double as u64));
        }
        if whole && (-TWO_TO_63..0.0).contains(&double) {
            return Self(Form::Below(double as i64));
        }
        Self(Form::Double(double))
    }

    /// The number; `None` = it is beyond the range of doubles, so a filter cannot name it.
    pub fn finite(self) -> Option<Self> {
        match self.0 {
            Form::Double(double) if !double.is_finite() => None,
            _ => Some(self),
        }
    }

    /// Kind and bits: equal for equal numbers, and converted back by `from_bits`.
    pub(crate) fn to_bits(self) -> (u8, u64) {
        match self.0 {
            Form::Whole(whole) => (0, whole),
            Form::Below(below) => (1, below.cast_unsigned()),
            Form::Double(double) => (2, double.to_bits()),
        }
    }

    pub(crate) fn from_bits(kind: u8, bits: u64) -> Self {
        match kind {
            0 => Self(Form::Whole(bits)),
            1 => Self(Form::Below(bits.cast_signed())),
            _ => Self(Form::Double(f64::from_bits(bits))),
        }
    }
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        u64::try_from(value).map_or(Self(Form::Below(value)), |whole| Self(Form::Whole(whole)))
    }
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self(Form::Whole(value))
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Form::Whole(whole) => write!(f, "{whole}"),
            Form::Below(below) => write!(f, "{below}"),
            // `{:e}` gives the shortest text that parses back to the same double, at every
            // magnitude.
            Form::Double(double) => write!(f, "{double:e}"),
        }
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.0, other.0) {
            (Form::Double(one), Form::Double(two)) => one.total_cmp(&two),
            (Form::Double(one), _) => compare(other.whole(), one).reverse(),
            (_, Form::Double(two)) => compare(self.whole(), two),
            _ => self.whole().cmp(&other.whole()),
        }
    }
}

impl Number {
    /// The value of a number that is not a double.
    fn whole(self) -> i128 {
        match self.0 {
            Form::Whole(whole) => i128::from(whole),
            Form::Below(below) => i128::from(below),
            Form::Double(_) => 0,
        }
    }
}

/// Compares a whole number with a double that is not an exact one. Their values differ, so the
/// whole part of the double decides; the cast saturates.
#[expect(clippy::cast_possible_truncation, reason = "saturates, which keeps the order")]
fn compare(whole: i128, double: f64) -> Ordering {
    if whole <= double.floor() as i128 { Ordering::Less } else { Ordering::Greater }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.to_bits() == other.to_bits()
    }
}

impl Eq for Number {}

impl Hash for Number {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.to_bits().hash(state);
    }
}
