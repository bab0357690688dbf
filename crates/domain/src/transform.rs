//! Message transforms as they are set on a topic or a subscription: what a request says, and how
//! it is shown. Whether the code is any good is found out by whoever runs it.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::error::Invalid;
use crate::setting::read::{needed, object, switch, text, unknown};
use crate::setting::snake;

/// A function that changes messages, or drops them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transform {
    /// The name of the JavaScript function.
    pub function_name: Arc<str>,
    /// The code that defines it.
    pub code: Arc<str>,
    /// Whether messages pass it by.
    pub disabled: bool,
}

/// Reads the list in a document; `null` is an empty one.
pub fn read_all(field: &str, value: &Value) -> Result<Vec<Transform>, Invalid> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(list) => {
            let list = list.iter().enumerate();
            list.map(|(index, one)| read_one(&format!("{field}[{index}]"), one)).collect()
        }
        _ => Err(Invalid::new(field, "expected a list")),
    }
}

/// Reads one of them.
pub fn read_one(field: &str, value: &Value) -> Result<Transform, Invalid> {
    const KINDS: &str = "javascript_udf is the only kind of transform that runs here";
    let mut udf = None;
    let mut disabled = false;
    for (name, value) in fields(field, value)? {
        let field = format!("{field}.{name}");
        match name.as_str() {
            "javascript_udf" => udf = Some(read_udf(&field, value)?),
            "disabled" => disabled = switch(&field, value)?.unwrap_or_default(),
            // Google's older switch, which has no effect.
            "enabled" => drop(switch(&field, value)?),
            "compression" | "ai_inference" => return Err(Invalid::new(field, KINDS)),
            _ => return Err(unknown(&field)),
        }
    }
    let (function_name, code) = needed(&format!("{field}.javascript_udf"), udf)?;
    Ok(Transform { function_name, code, disabled })
}

/// Empty texts are refused along with what else is wrong with them.
fn read_udf(field: &str, value: &Value) -> Result<(Arc<str>, Arc<str>), Invalid> {
    let (mut function_name, mut code) = (None, None);
    for (name, value) in fields(field, value)? {
        let field = format!("{field}.{name}");
        match name.as_str() {
            "function_name" => function_name = text(&field, value)?,
            "code" => code = text(&field, value)?,
            _ => return Err(unknown(&field)),
        }
    }
    Ok((function_name.unwrap_or_default().into(), code.unwrap_or_default().into()))
}

/// The fields of an object by their names in snake case, those left out aside.
fn fields<'value>(
    field: &str,
    value: &'value Value,
) -> Result<impl Iterator<Item = (String, &'value Value)>, Invalid> {
    let object: &'value Map<String, Value> = needed(field, object(field, value)?)?;
    let given = object.iter().filter(|(_, value)| !value.is_null());
    Ok(given.map(|(name, value)| (snake(name), value)))
}

/// The list as a document has it.
pub fn show_all(transforms: &[Transform]) -> Value {
    if transforms.is_empty() {
        return Value::Null;
    }
    let show = |one: &Transform| {
        let udf = json!({"functionName": *one.function_name, "code": *one.code});
        match one.disabled {
            false => json!({"javascriptUdf": udf}),
            true => json!({"javascriptUdf": udf, "disabled": true}),
        }
    };
    transforms.iter().map(show).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_again() {
        let given = json!([
            {"javascriptUdf": {"functionName": "f", "code": "function f(m) { return m; }"}},
            {"javascript_udf": {"function_name": "g", "code": "…"}, "disabled": true},
            {"javascriptUdf": {"functionName": "h", "code": "x"}, "enabled": true},
        ]);
        let read = read_all("message_transforms", &given).unwrap();
        let disabled: Vec<bool> = read.iter().map(|one| one.disabled).collect();
        assert_eq!(disabled, [false, true, false]);
        assert_eq!(read_all("", &show_all(&read)), Ok(read));
        assert_eq!(read_all("", &Value::Null), Ok(Vec::new()));
        assert_eq!(show_all(&[]), Value::Null);
    }

    #[test]
    fn refusals_name_the_field() {
        for (given, text) in [
            (json!({}), "message_transforms: expected a list"),
            (json!([1]), "message_transforms[0]: expected an object"),
            (json!([{}]), "message_transforms[0].javascript_udf: must be given"),
            (
                json!([{"javascriptUdf": {"functionName": 1}}]),
                "message_transforms[0].javascript_udf.function_name: expected text",
            ),
            (
                json!([{"javascriptUdf": {"lang": "ts"}}]),
                "message_transforms[0].javascript_udf.lang: unknown field",
            ),
            (
                json!([{"aiInference": {"endpoint": "e"}}]),
                "message_transforms[0].ai_inference: javascript_udf is the only kind of transform \
                 that runs here",
            ),
        ] {
            let refused = read_all("message_transforms", &given).unwrap_err();
            assert_eq!(refused.to_string(), text);
        }
    }
}
