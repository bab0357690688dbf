//! The JSON form of a resource's settings.

use serde_json::{Map, Value};

/// The settings of a resource as JSON in Google's spelling, camel case throughout.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document(pub Map<String, Value>);

impl Document {
    /// What is at a path in snake case; nothing and `null` are the same.
    pub fn get(&self, path: &str) -> Option<&Value> {
        let mut names = path.split('.').map(camel);
        let mut value = self.0.get(&names.next()?)?;
        for name in names {
            value = value.get(&name)?;
        }
        Some(value).filter(|value| !value.is_null())
    }

    /// Puts `value` at a path in snake case, making the objects on the way.
    pub fn put(&mut self, path: &str, value: Value) {
        put(&mut self.0, path, value);
    }

    /// Takes away what is at a path in snake case.
    pub fn remove(&mut self, path: &str) {
        let mut names: Vec<String> = path.split('.').map(camel).collect();
        let (Some(last), mut object) = (names.pop(), Some(&mut self.0)) else { return };
        for name in names {
            object = object.and_then(|object| object.get_mut(&name)?.as_object_mut());
        }
        object.and_then(|object| object.remove(&last));
    }
}

fn put(object: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => drop(object.insert(camel(path), value)),
        Some((name, rest)) => {
            let inner = object.entry(camel(name)).or_insert_with(|| Value::Object(Map::new()));
            if !inner.is_object() {
                *inner = Value::Object(Map::new());
            }
            if let Value::Object(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

/// `lane_by` as JSON has it: `laneBy`.
pub fn camel(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    let mut is_start = false;
    for char in path.chars() {
        match char {
            '_' => is_start = true,
            _ if is_start => {
                text.extend(char.to_uppercase());
                is_start = false;
            }
            _ => text.push(char),
        }
    }
    text
}

/// `laneBy` as protobuf has it: `lane_by`.
pub fn snake(path: &str) -> String {
    let mut text = String::with_capacity(path.len() + 4);
    for char in path.chars() {
        if char.is_ascii_uppercase() {
            text.push('_');
        }
        text.push(char.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_go_between_the_two_cases() {
        for (camel_case, snake_case) in [
            ("laneBy", "lane_by"),
            (
                "pushConfig.oidcToken.serviceAccountEmail",
                "push_config.oidc_token.service_account_email",
            ),
            ("fifo", "fifo"),
        ] {
            assert_eq!(camel(snake_case), camel_case);
            assert_eq!(snake(camel_case), snake_case);
        }
    }

    #[test]
    fn what_is_put_is_found() {
        let mut document = Document::default();
        document.put("postrider.lane_by", json!("kind"));
        document.put("postrider.fifo", json!(null));
        document.put("ack_deadline_seconds", json!(10));
        assert_eq!(document.get("postrider.lane_by"), Some(&json!("kind")));
        assert_eq!(document.get("postrider.fifo"), None);
        assert_eq!(document.get("ack_deadline_seconds.x"), None);
        document.put("postrider.batch.messages", json!(9));
        document.remove("postrider.batch");
        document.remove("postrider.lanes.lane_by");
        assert_eq!(
            Value::Object(document.0),
            json!({"postrider": {"laneBy": "kind", "fifo": null}, "ackDeadlineSeconds": 10})
        );
    }
}
