//! Checks a message in Protobuf's JSON form.
//!
//! As the specification of that form has it: fields by name or by JSON name, unknown ones refused;
//! null means that a field is not set; numbers may be texts; the well-known types have forms of
//! their own. What `google.protobuf.Any` holds is not looked into: the type it names is nobody's
//! here.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor,
};

use super::json_names::{AnyName, FieldName, MapKey, TypeUrl};
use super::tree::{Field, Form, Kind, Label, Message, Tree};
use super::{scalars, well_known};
use crate::bits::Bits;
use crate::json::{self, Trace};
use crate::problem::{Problem, quoted};

/// Checks a message.
pub(crate) fn check(tree: &Tree, message: &[u8]) -> Result<(), Problem> {
    let trace = Trace::default();
    let root = Check {
        tree,
        trace: &trace,
        kind: Kind::Message(0),
        label: Label::Optional,
        may_be_null: false,
    };
    json::check(message, &trace, Root(root))
}

/// Checks one value, and says whether it is set: a field that is null is not.
#[derive(Clone, Copy)]
struct Check<'t> {
    tree: &'t Tree,
    trace: &'t Trace,
    kind: Kind,
    label: Label,
    may_be_null: bool,
}

impl<'t> Check<'t> {
    fn field(self, field: &Field) -> Self {
        Self { kind: field.kind, label: field.label, may_be_null: true, ..self }
    }

    /// One item of a list, or one value of a map.
    fn item(self, kind: Kind) -> Self {
        Self { kind, label: Label::Optional, may_be_null: false, ..self }
    }

    fn message(&self) -> Option<&'t Message> {
        match self.kind {
            Kind::Message(index) | Kind::Group(index) => self.tree.message(index),
            _ => None,
        }
    }

    fn form(&self) -> Option<Form> {
        self.message().filter(|_| !self.is_many()).map(|message| message.form)
    }

    fn is_many(&self) -> bool {
        matches!(self.label, Label::Repeated | Label::Map)
    }

    /// The kind of a single value, a wrapper's being that of what it wraps; none for a list, a
    /// map or a message.
    fn scalar(&self) -> Option<Kind> {
        match (self.is_many(), self.form()) {
            (true, _) => None,
            (false, Some(Form::Wrapper(kind))) => Some(kind),
            (false, Some(_)) => None,
            (false, None) => Some(self.kind),
        }
    }

    /// A value that is good if it is of any JSON, or if `is_good` says so of its kind.
    fn good_if<E: Error>(
        self,
        found: Unexpected<'_>,
        is_good: impl FnOnce(Kind) -> bool,
    ) -> Result<bool, E> {
        if self.form() == Some(Form::Value) || self.scalar().is_some_and(is_good) {
            return Ok(true);
        }
        Err(E::invalid_type(found, &self))
    }

    fn is_text(&self, text: &str) -> bool {
        match self.scalar() {
            Some(Kind::Text { .. }) => true,
            Some(Kind::Bytes) => scalars::is_base64(text),
            Some(Kind::Bool) => false,
            Some(Kind::Enum(index)) => {
                self.tree.enums.get(index).is_some_and(|one| one.values.contains_key(text))
            }
            Some(kind) => scalars::is_number(kind, text),
            None => match self.form() {
                Some(Form::Value) => true,
                Some(form) => well_known::is_text_of(form, text),
                None => false,
            },
        }
    }

    fn fields<'de, A: MapAccess<'de>>(
        self,
        message: &'t Message,
        mut map: A,
    ) -> Result<(), A::Error> {
        let (mut seen, mut oneofs, mut required) = (Bits::default(), Bits::default(), 0);
        let mut next = 0;
        while let Some(index) = map.next_key_seed(FieldName { message, next })? {
            let Some(field) = message.fields.get(index) else { continue };
            if !seen.put(index) {
                return Err(A::Error::custom(format!("field {} twice", field.name)));
            }
            let is_set =
                map.next_value_seed(self.field(field)).map_err(self.trace.inside(&field.name))?;
            required += usize::from(is_set && field.label == Label::Required);
            let is_second = is_set && field.oneof.is_some_and(|oneof| !oneofs.put(oneof));
            if is_second {
                let what = format!("field {} of a oneof beside another of it", field.name);
                return Err(A::Error::custom(what));
            }
            next = index + 1;
        }
        if required < message.required {
            let what = format!("a required field of {} is missing", message.name);
            return Err(A::Error::custom(what));
        }
        Ok(())
    }

    fn entries<'de, A: MapAccess<'de>>(
        self,
        entry: &'t Message,
        mut map: A,
    ) -> Result<(), A::Error> {
        let (Some(key), Some(value)) = (entry.fields.first(), entry.fields.get(1)) else {
            return Ok(());
        };
        let mut index = 0_usize;
        while let Some(()) = map.next_key_seed(MapKey(key.kind))? {
            map.next_value_seed(self.item(value.kind))
                .map_err(self.trace.inside(format_args!("[{index}]")))?;
            index += 1;
        }
        Ok(())
    }
}

/// An object with a text at `@type`.
fn any<'de, A: MapAccess<'de>>(mut map: A) -> Result<(), A::Error> {
    let mut has_type = false;
    while let Some(key) = map.next_key::<AnyName>()? {
        match key {
            AnyName::Type => {
                map.next_value::<TypeUrl>()?;
                has_type = true;
            }
            AnyName::Other => drop(map.next_value::<IgnoredAny>()?),
        }
    }
    if has_type { Ok(()) } else { Err(A::Error::custom("\"@type\" is missing")) }
}

fn ignore<'de, A: MapAccess<'de>>(mut map: A) -> Result<(), A::Error> {
    while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
    Ok(())
}

impl<'de> DeserializeSeed<'de> for Check<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Check<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = self.message().map_or_else(|| self.kind.word(), |message| &message.name);
        match self.label {
            Label::Repeated => write!(f, "a list of {of}"),
            Label::Map => f.write_str("a map, as an object"),
            Label::Optional | Label::Required => f.write_str(of),
        }
    }

    fn visit_unit<E: Error>(self) -> Result<bool, E> {
        let is_null_value = match self.kind {
            Kind::Enum(index) => self.tree.enums.get(index).is_some_and(|one| one.is_null),
            _ => false,
        };
        match self.form() {
            Some(Form::Value) => Ok(true),
            _ if is_null_value && !self.is_many() => Ok(true),
            _ if self.may_be_null => Ok(false),
            _ => Err(E::invalid_type(Unexpected::Unit, &self)),
        }
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<bool, E> {
        self.good_if(Unexpected::Bool(value), |kind| kind == Kind::Bool)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<bool, E> {
        self.good_if(Unexpected::Signed(value), |kind| scalars::is_signed(kind, value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<bool, E> {
        self.good_if(Unexpected::Unsigned(value), |kind| scalars::is_unsigned(kind, value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<bool, E> {
        self.good_if(Unexpected::Float(value), |kind| scalars::is_float(kind, value))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<bool, E> {
        if self.is_text(text) {
            return Ok(true);
        }
        Err(E::custom(format!("{}, expected {}", quoted(text), Expected(self))))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<bool, A::Error> {
        if let Some(Form::Value | Form::ListValue) = self.form() {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(true);
        }
        if self.label != Label::Repeated {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        }
        let mut index = 0_usize;
        while seq
            .next_element_seed(self.item(self.kind))
            .map_err(self.trace.inside(format_args!("[{index}]")))?
            .is_some()
        {
            index += 1;
        }
        Ok(true)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<bool, A::Error> {
        match (self.message(), self.form()) {
            (Some(entry), _) if self.label == Label::Map => self.entries(entry, map)?,
            (Some(message), Some(Form::Fields)) => self.fields(message, map)?,
            (_, Some(Form::Struct | Form::Value)) => ignore(map)?,
            (_, Some(Form::Any)) => any(map)?,
            _ => return Err(A::Error::invalid_type(Unexpected::Map, &self)),
        }
        Ok(true)
    }
}

/// The whole message.
struct Root<'t>(Check<'t>);

impl<'de> DeserializeSeed<'de> for Root<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.0.deserialize(deserializer).map(drop)
    }
}

/// What a check expects, as text.
struct Expected<'t>(Check<'t>);

impl fmt::Display for Expected<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }
}
