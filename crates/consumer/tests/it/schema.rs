//! Checks log lines against the schema that is shipped. Knows the few keywords that the schema
//! uses, and refuses a schema with others, so that none is passed over.

use std::sync::LazyLock;

use serde_json::{Map, Value};

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../../../docs/consumer/log-line.schema.json");
    serde_json::from_str(text).unwrap()
});

/// Panics unless `line` is as the schema says.
pub(crate) fn check_line(line: &Value) {
    if let Err(problem) = check(&SCHEMA, line) {
        panic!("{problem}: {line}");
    }
}

fn check(schema: &Value, value: &Value) -> Result<(), String> {
    for (keyword, wanted) in schema.as_object().unwrap() {
        let holds = match keyword.as_str() {
            "$schema" | "title" | "description" | "properties" => true,
            "type" => is_of_type(wanted, value),
            "enum" => wanted.as_array().unwrap().contains(value),
            "minLength" => value.as_str().is_none_or(|text| text.chars().count() >= size(wanted)),
            "maxLength" => value.as_str().is_none_or(|text| text.chars().count() <= size(wanted)),
            "minimum" => value.as_f64().is_none_or(|number| number >= wanted.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|number| number <= wanted.as_f64().unwrap()),
            "required" => wanted.as_array().unwrap().iter().all(|name| has(value, name)),
            "additionalProperties" => {
                assert_eq!(*wanted, Value::Bool(false));
                let known = properties(schema);
                value.as_object().unwrap().keys().all(|name| known.contains_key(name))
            }
            other => panic!("the schema has a keyword that is not known here: {other}"),
        };
        if !holds {
            return Err(format!("not {keyword} {wanted}"));
        }
    }
    for (name, schema) in properties(schema) {
        if let Some(value) = value.get(name) {
            check(schema, value).map_err(|problem| format!("{name}: {problem}"))?;
        }
    }
    Ok(())
}

fn properties(schema: &Value) -> &Map<String, Value> {
    static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    schema.get("properties").and_then(Value::as_object).unwrap_or(&NONE)
}

fn has(value: &Value, name: &Value) -> bool {
    value.get(name.as_str().unwrap()).is_some()
}

fn size(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

fn is_of_type(wanted: &Value, value: &Value) -> bool {
    let is = |name: &str| match name {
        "object" => value.is_object(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("a type that is not known here: {other}"),
    };
    match wanted {
        Value::String(name) => is(name),
        Value::Array(names) => names.iter().any(|name| is(name.as_str().unwrap())),
        other => panic!("{other} is no type"),
    }
}

#[test]
fn a_line_that_lacks_a_field_or_has_a_wrong_one_is_refused() {
    let names = SCHEMA["required"].as_array().unwrap();
    assert_eq!(names.len(), properties(&SCHEMA).len(), "every field is in every line");
    for named in [
        "service",
        "env",
        "version",
        "subscription",
        "topic",
        "messageId",
        "publishTime",
        "deliveryAttempt",
        "handler",
        "event_type",
        "schemaVersion",
        "outcome",
        "http_status",
        "ack_action",
        "write_kind",
        "doc_path",
        "idempotency_doc",
        "error_type",
        "error_code",
        "error",
        "retryable",
    ] {
        assert!(names.contains(&Value::from(named)), "{named}");
    }
    let mut line = serde_json::json!({
        "severity": "INFO", "time": "2027-01-15T08:00:00Z", "message": "m", "service": "s",
        "env": "e", "version": "v", "subscription": null, "topic": null, "messageId": "7",
        "publishTime": null, "deliveryAttempt": 1, "handler": null, "event_type": null,
        "schemaVersion": null, "outcome": "applied", "http_status": 204, "ack_action": null,
        "write_kind": null, "doc_path": null, "idempotency_doc": null, "error_class": null,
        "error_type": null, "error_code": null, "error": null, "retryable": false,
        "duration_ms": 0.5,
    });
    check_line(&line);
    for (field, wrong) in [
        ("outcome", Value::from("lost")),
        ("deliveryAttempt", Value::from(0)),
        ("service", Value::Null),
        ("error", Value::from("x".repeat(1_025))),
        ("extra", Value::Null),
    ] {
        let right = line.get(field).cloned();
        line[field] = wrong;
        assert!(check(&SCHEMA, &line).is_err(), "{field}");
        match right {
            Some(right) => line[field] = right,
            None => drop(line.as_object_mut().unwrap().remove(field)),
        }
    }
    line.as_object_mut().unwrap().remove("topic");
    assert!(check(&SCHEMA, &line).is_err());
}
