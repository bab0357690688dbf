//! Numbers and bytes as protobuf's JSON has them. The generated code calls these.

use std::fmt::{Formatter, Result as FmtResult};
use std::marker::PhantomData;

use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose};
use base64::{DecodeError, Engine};
use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

/// A whole number, given as a number or as a string.
#[derive(Default)]
pub(crate) struct Integer<T>(pub(crate) T);

impl<'de, T: TryFrom<i64>> Deserialize<'de> for Integer<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IntegerVisitor(PhantomData)).map(Self)
    }
}

struct IntegerVisitor<T>(PhantomData<T>);

impl<T: TryFrom<i64>> IntegerVisitor<T> {
    fn fit<E: Error>(self, number: Option<i64>, given: Unexpected<'_>) -> Result<T, E> {
        number
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| E::invalid_value(given, &self))
    }
}

impl<T: TryFrom<i64>> Visitor<'_> for IntegerVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut Formatter<'_>) -> FmtResult {
        write!(f, "a whole number of {} bits", size_of::<T>() * 8)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.fit(Some(number), Unexpected::Signed(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.fit(i64::try_from(number).ok(), Unexpected::Unsigned(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        self.fit(whole_number(number), Unexpected::Float(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        let number = text.parse().ok().filter(|_| !text.starts_with('+'));
        self.fit(number, Unexpected::Str(text))
    }
}

/// The same number as an integer, if it is whole and small enough to be exact.
#[expect(clippy::cast_possible_truncation, reason = "only whole numbers below 2^53 are cast")]
pub(crate) fn whole_number(number: f64) -> Option<i64> {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    (number.fract() == 0.0 && number.abs() < EXACT_MAX).then_some(number as i64)
}

/// Bytes, given as base64 of either alphabet, padded or not.
pub(crate) struct Base64<T>(pub(crate) T);

impl<'de, T: From<Vec<u8>>> Deserialize<'de> for Base64<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Base64Visitor).map(|bytes| Self(bytes.into()))
    }
}

struct Base64Visitor;

const PADDED_OR_NOT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, PADDED_OR_NOT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, PADDED_OR_NOT);

impl Visitor<'_> for Base64Visitor {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut Formatter<'_>) -> FmtResult {
        f.write_str("a base64 string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<u8>, E> {
        let decoded = match STANDARD.decode(text) {
            Err(DecodeError::InvalidByte(_, b'-' | b'_')) => URL_SAFE.decode(text),
            decoded => decoded,
        };
        decoded.map_err(|error| E::custom(describe(&error)))
    }
}

fn describe(error: &DecodeError) -> String {
    match error {
        DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => {
            format!("invalid base64 at character {}", at + 1)
        }
        DecodeError::InvalidLength(_) => "invalid base64: wrong length".to_owned(),
        DecodeError::InvalidPadding => "invalid base64: wrong padding".to_owned(),
    }
}

/// Bytes as padded base64 of the standard alphabet.
pub(crate) fn base64_text(bytes: impl AsRef<[u8]>) -> String {
    general_purpose::STANDARD.encode(bytes)
}
