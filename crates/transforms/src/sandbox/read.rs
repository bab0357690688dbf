//! What a function returned, as a message.
//!
//! Everything read here may run code of the script: getters, traps of proxies. It is held to the
//! same deadline and memory as the function itself.

use std::collections::BTreeMap;

use domain::limits::{
    ATTRIBUTE_KEY_BYTES_MAX, ATTRIBUTE_VALUE_BYTES_MAX, ATTRIBUTES_MAX, MESSAGE_DATA_BYTES_MAX,
};
use rquickjs::{Object, String as JsString, Value};

use crate::text::quoted;

/// A message between two functions.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) data: String,
    pub(super) attributes: BTreeMap<String, String>,
}

/// Why something is not a message.
pub(super) enum Wrong {
    /// What is wrong with it.
    Result(String),
    /// Reading it threw.
    Thrown(rquickjs::Error),
}

impl From<rquickjs::Error> for Wrong {
    fn from(error: rquickjs::Error) -> Self {
        Self::Thrown(error)
    }
}

fn wrong<T>(what: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong::Result(what.into()))
}

/// A message, or none where the function filtered it.
pub(super) fn message(returned: &Value<'_>) -> Result<Option<Message>, Wrong> {
    if returned.is_null() || returned.is_undefined() {
        return Ok(None);
    }
    if returned.is_promise() {
        return wrong("returned a promise; the function must not be async");
    }
    let Some(object) = returned.as_object() else {
        return wrong(format!("returned {}; a message or null is expected", kind(returned)));
    };
    let data = data(object)?;
    let attributes = attributes(object)?;
    if data.is_empty() && attributes.is_empty() {
        return wrong("returned a message with neither data nor attributes");
    }
    Ok(Some(Message { data, attributes }))
}

fn data(object: &Object<'_>) -> Result<String, Wrong> {
    let value: Value<'_> = object.get("data")?;
    let Some(data) = value.as_string() else {
        return wrong(format!("returned a message whose data is {}, not a string", kind(&value)));
    };
    let Some(data) = utf8(data)? else {
        return wrong("returned data with half of a surrogate pair, which is not UTF-8");
    };
    if data.len() > MESSAGE_DATA_BYTES_MAX {
        let bytes = data.len();
        return wrong(format!(
            "returned {bytes} bytes of data, at most {MESSAGE_DATA_BYTES_MAX} are allowed"
        ));
    }
    Ok(data)
}

/// All attributes: a message that is returned without any has none.
fn attributes(object: &Object<'_>) -> Result<BTreeMap<String, String>, Wrong> {
    let mut attributes = BTreeMap::new();
    let value: Value<'_> = object.get("attributes")?;
    if value.is_undefined() || value.is_null() {
        return Ok(attributes);
    }
    let object = match value.as_object() {
        Some(object) if !value.is_array() && !value.is_function() => object,
        _ => return wrong(format!("returned attributes that are {}", kind(&value))),
    };
    for key in object.keys::<JsString<'_>>() {
        let key = key?;
        if attributes.len() == ATTRIBUTES_MAX {
            return wrong(format!("returned more than {ATTRIBUTES_MAX} attributes"));
        }
        let Some(name) = utf8(&key)? else {
            return wrong("returned an attribute whose key has half of a surrogate pair");
        };
        let value = attribute(&name, &object.get(key.into_value())?)?;
        attributes.insert(name, value);
    }
    Ok(attributes)
}

fn attribute(key: &str, value: &Value<'_>) -> Result<String, Wrong> {
    let shown = quoted(key);
    let Some(string) = value.as_string() else {
        return wrong(format!("returned attribute {shown} as {}, not a string", kind(value)));
    };
    let Some(text) = utf8(string)? else {
        return wrong(format!("returned attribute {shown} with half of a surrogate pair"));
    };
    if key.is_empty() {
        return wrong("returned an attribute without a key");
    }
    if key.len() > ATTRIBUTE_KEY_BYTES_MAX {
        let bytes = key.len();
        return wrong(format!(
            "returned attribute {shown} with a key of {bytes} bytes, at most \
             {ATTRIBUTE_KEY_BYTES_MAX} are allowed"
        ));
    }
    if text.len() > ATTRIBUTE_VALUE_BYTES_MAX {
        let bytes = text.len();
        return wrong(format!(
            "returned attribute {shown} with {bytes} bytes, at most {ATTRIBUTE_VALUE_BYTES_MAX} \
             are allowed"
        ));
    }
    Ok(text)
}

/// A string of JavaScript, or none where half of a surrogate pair is in it.
fn utf8(string: &JsString<'_>) -> Result<Option<String>, Wrong> {
    match string.to_string() {
        Ok(text) => Ok(Some(text)),
        Err(rquickjs::Error::Utf8(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What a value is, in words.
pub(super) fn kind(value: &Value<'_>) -> &'static str {
    if value.is_undefined() {
        "undefined"
    } else if value.is_null() {
        "null"
    } else if value.is_bool() {
        "a boolean"
    } else if value.is_number() {
        "a number"
    } else if value.is_string() {
        "a string"
    } else if value.is_symbol() {
        "a symbol"
    } else if value.is_big_int() {
        "a big integer"
    } else if value.is_function() {
        "a function"
    } else if value.is_array() {
        "an array"
    } else {
        "an object"
    }
}
