//! Keys of objects in Protobuf's JSON form.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, Visitor};

use super::scalars;
use super::tree::{Kind, Message};
use crate::problem::quoted;

/// A key of a message: the index of its field.
pub(super) struct FieldName<'t> {
    pub(super) message: &'t Message,
    /// The field that is tried before the name is looked up: most come in their order.
    pub(super) next: usize,
}

impl<'de> DeserializeSeed<'de> for FieldName<'_> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for FieldName<'_> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a field of {}", self.message.name)
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<usize, E> {
        match self.message.fields.get(self.next) {
            Some(field) if *field.json_name == *name || *field.name == *name => Ok(self.next),
            _ => self.message.by_name.get(name).copied().ok_or_else(|| {
                let message = &self.message.name;
                E::custom(format!("message {message} has no field {}", quoted(name)))
            }),
        }
    }
}

/// A key of a map.
pub(super) struct MapKey(pub(super) Kind);

impl<'de> DeserializeSeed<'de> for MapKey {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for MapKey {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a key that is {}", self.0.word())
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<(), E> {
        if scalars::is_key(self.0, key) {
            return Ok(());
        }
        Err(E::custom(format!("key {} is not {}", quoted(key), self.0.word())))
    }
}

/// A key of `google.protobuf.Any`.
#[derive(Deserialize)]
pub(super) enum AnyName {
    #[serde(rename = "@type")]
    Type,
    #[serde(other)]
    Other,
}

/// A text that names a type. It is not kept.
pub(super) struct TypeUrl;

impl<'de> Deserialize<'de> for TypeUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;
        impl Visitor<'_> for Name {
            type Value = TypeUrl;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a type behind a slash")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<TypeUrl, E> {
                match text.rsplit_once('/') {
                    Some((_, name)) if !name.is_empty() => Ok(TypeUrl),
                    _ => Err(E::custom(format!("{} names no type", quoted(text)))),
                }
            }
        }
        deserializer.deserialize_str(Name)
    }
}
