//! Objects of Google's that are kept as they are given: what they look like.
//!
//! Nothing here runs on them, so they are not taken apart: they are checked against their shape
//! and kept as JSON in Google's spelling, without what is empty.

use serde_json::{Map, Value};

use super::read::{object, switch, text, unknown};
use super::{camel, snake};
use crate::error::Invalid;

/// Such an object.
pub type Shaped = Map<String, Value>;

/// What is wrong with a text; `None` = nothing.
pub type Fault = fn(&str) -> Option<&'static str>;

/// A field of such an object.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name, in snake case.
    pub name: &'static str,
    /// What its value looks like.
    pub kind: Kind,
    /// Whether it must be given.
    pub is_needed: bool,
    /// Of the fields with the same mark only one may be given; empty = it has none.
    pub choice: &'static str,
}

/// What the value of a field looks like.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Text; the empty one is none.
    Text(Fault),
    /// Texts, at least one.
    Texts(Fault),
    /// `true` or `false`.
    Switch,
    /// One of these words; the first stands for none.
    Word(&'static [&'static str]),
    /// An object of these fields; one without any counts too.
    Object(&'static [Field]),
    /// Only the server sets it: whatever is given sets nothing.
    Server,
}

impl Field {
    /// A field that may be given.
    pub const fn new(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, is_needed: false, choice: "" }
    }

    /// One that must be given.
    pub const fn needed(name: &'static str, kind: Kind) -> Self {
        Self { is_needed: true, ..Self::new(name, kind) }
    }

    /// The same, not together with others of that mark.
    pub const fn one_of(self, choice: &'static str) -> Self {
        Self { choice, ..self }
    }
}

/// Any text.
pub fn any(_: &str) -> Option<&'static str> {
    None
}

/// An object of these fields, as it is kept. Names may have either case.
pub fn read(
    fields: &'static [Field],
    place: &str,
    value: &Value,
) -> Result<Option<Shaped>, Invalid> {
    let Some(given) = object(place, value)? else { return Ok(None) };
    let is_known = |name: &String| fields.iter().any(|field| field.name == snake(name));
    if let Some(name) = given.keys().find(|name| !is_known(name)) {
        return Err(unknown(&format!("{place}.{name}")));
    }
    let mut kept = Shaped::new();
    let mut chosen: Vec<&Field> = Vec::new();
    for field in fields {
        let path = format!("{place}.{}", field.name);
        let value = given.get(&camel(field.name)).or_else(|| given.get(field.name));
        let Some(value) = read_one(field.kind, &path, value.unwrap_or(&Value::Null))? else {
            if field.is_needed {
                return Err(Invalid::new(path, "must be given"));
            }
            continue;
        };
        let other = chosen.iter().find(|other| other.choice == field.choice);
        if let Some(other) = other.filter(|_| !field.choice.is_empty()) {
            return Err(Invalid::new(
                path,
                format!("conflicts with {}; give only one", other.name),
            ));
        }
        chosen.push(field);
        kept.insert(camel(field.name), value);
    }
    Ok(Some(kept))
}

/// The same of an object that stands for none where it is empty, as an empty push config does.
pub fn read_filled(
    fields: &'static [Field],
    place: &str,
    value: &Value,
) -> Result<Option<Shaped>, Invalid> {
    match value {
        Value::Object(object) if object.is_empty() => Ok(None),
        value => read(fields, place, value),
    }
}

fn read_one(kind: Kind, path: &str, value: &Value) -> Result<Option<Value>, Invalid> {
    let is_good = |path: &str, text: &str, fault: Fault| match fault(text) {
        Some(problem) => Err(Invalid::new(path, problem)),
        None => Ok(()),
    };
    match kind {
        Kind::Text(fault) => {
            let Some(text) = text(path, value)?.filter(|text| !text.is_empty()) else {
                return Ok(None);
            };
            is_good(path, &text, fault)?;
            Ok(Some(text.into()))
        }
        Kind::Texts(fault) => {
            let texts = match value {
                Value::Null => return Ok(None),
                Value::Array(texts) => texts,
                _ => return Err(Invalid::new(path, "expected a list of texts")),
            };
            for (at, one) in texts.iter().enumerate() {
                let path = format!("{path}[{at}]");
                is_good(&path, &text(&path, one)?.unwrap_or_default(), fault)?;
            }
            Ok(Some(value.clone()).filter(|_| !texts.is_empty()))
        }
        Kind::Switch => Ok(switch(path, value)?.filter(|is_on| *is_on).map(Value::Bool)),
        Kind::Word(words) => {
            let Some(text) = text(path, value)?.filter(|text| !text.is_empty()) else {
                return Ok(None);
            };
            match words.iter().position(|word| *word == text) {
                Some(0) => Ok(None),
                Some(_) => Ok(Some(text.into())),
                None => {
                    let known = words.get(1..).unwrap_or_default().join(", ");
                    Err(Invalid::new(path, format!("{text:?} is none of {known}")))
                }
            }
        }
        Kind::Object(fields) => Ok(read(fields, path, value)?.map(Value::Object)),
        Kind::Server => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const INNER: &[Field] = &[Field::new("deep_text", Kind::Text(any))];
    const FIELDS: &[Field] = &[
        Field::needed("first_name", Kind::Text(|text| text.contains(' ').then_some("has a space"))),
        Field::new("places", Kind::Texts(|text| text.is_empty().then_some("is empty"))),
        Field::new("is_on", Kind::Switch),
        Field::new("level", Kind::Word(&["NO_LEVEL", "LOW", "HIGH"])),
        Field::new("left", Kind::Object(INNER)).one_of("side"),
        Field::new("right", Kind::Object(INNER)).one_of("side"),
        Field::new("state", Kind::Server),
    ];

    #[test]
    fn what_is_given_is_kept_in_googles_spelling_without_what_is_empty() {
        let given = json!({
            "first_name": "a", "places": ["b"], "isOn": false, "level": "NO_LEVEL",
            "left": {"deep_text": ""}, "state": "ACTIVE",
        });
        let kept = read(FIELDS, "f", &given).unwrap().unwrap();
        assert_eq!(Value::Object(kept), json!({"firstName": "a", "places": ["b"], "left": {}}));
        assert_eq!(read(FIELDS, "f", &Value::Null), Ok(None));
        assert_eq!(read_filled(FIELDS, "f", &json!({})), Ok(None));
    }

    #[test]
    fn mistakes_are_named() {
        for (given, field) in [
            (json!(5), "f"),
            (json!({}), "f.first_name"),
            (json!({"firstName": ""}), "f.first_name"),
            (json!({"firstName": "a b"}), "f.first_name"),
            (json!({"firstName": "a", "more": 1}), "f.more"),
            (json!({"firstName": "a", "places": "b"}), "f.places"),
            (json!({"firstName": "a", "places": ["b", ""]}), "f.places[1]"),
            (json!({"firstName": "a", "isOn": 1}), "f.is_on"),
            (json!({"firstName": "a", "level": "MID"}), "f.level"),
            (json!({"firstName": "a", "left": {}, "right": {}}), "f.right"),
            (json!({"firstName": "a", "left": {"deepText": 5}}), "f.left.deep_text"),
        ] {
            assert_eq!(read(FIELDS, "f", &given).unwrap_err().field, field, "{given}");
        }
    }
}
