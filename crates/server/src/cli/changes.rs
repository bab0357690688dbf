//! A body made of single settings, and the mask that names them.

use serde_json::{Map, Value, json};

/// The object whose fields only Postrider has.
const OURS: &str = "postrider";

/// What is to be set of a topic or a subscription, over what it has now.
pub(crate) struct Changes {
    current: Value,
    body: Map<String, Value>,
    mask: Vec<String>,
}

impl Changes {
    /// None yet; `current` is what there is, null for one that is to be made.
    pub(crate) fn new(current: Value) -> Self {
        Self { current, body: Map::new(), mask: Vec::new() }
    }

    /// Sets what is at a path of names with dots between them. Of Google's objects the other
    /// fields are kept; ours are named in the mask one by one.
    pub(super) fn set(&mut self, path: &str, value: Value) {
        let (object, rest) = path.split_once('.').unwrap_or((path, ""));
        let named = match rest.split_once('.') {
            _ if object != OURS => object,
            Some((field, _)) => path.get(..object.len() + 1 + field.len()).unwrap_or(path),
            None => path,
        };
        self.name(named);
        if rest.is_empty() {
            self.body.insert(object.to_owned(), value);
        } else {
            put(self.object(object), rest, value);
        }
    }

    /// Takes one field out of an object.
    pub(super) fn remove(&mut self, object: &str, field: &str) {
        self.name(object);
        self.object(object).remove(field);
    }

    /// Puts `field` back to what it is by default.
    pub(super) fn clear(&mut self, path: &str) {
        self.name(path);
        if !path.contains('.') {
            self.body.remove(path);
        }
    }

    fn name(&mut self, path: &str) {
        if !self.mask.iter().any(|named| named == path) {
            self.mask.push(path.to_owned());
        }
    }

    fn object(&mut self, name: &str) -> &mut Map<String, Value> {
        let current = match name {
            OURS => Map::new(),
            _ => self.current[name].as_object().cloned().unwrap_or_default(),
        };
        let place = self.body.entry(name).or_insert_with(|| Value::Object(current));
        if !place.is_object() {
            *place = json!({});
        }
        #[expect(clippy::expect_used, reason = "made an object the line before")]
        place.as_object_mut().expect("an object")
    }

    /// Whether there will be a dead letter topic.
    pub(super) fn has_dead_letters(&self) -> bool {
        let is_set = |policy: &Value| policy["deadLetterTopic"].is_string();
        match self.body.get("deadLetterPolicy") {
            Some(policy) => is_set(policy),
            None => is_set(&self.current["deadLetterPolicy"]),
        }
    }

    /// Whether there is something at this place now.
    pub(super) fn is_now(&self, pointer: &str) -> bool {
        self.current.pointer(pointer).is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.mask.is_empty()
    }

    /// The resource to be made.
    pub(crate) fn body(&self) -> Value {
        Value::Object(self.body.clone())
    }

    /// The update to be made of a resource of that kind.
    pub(super) fn request(&self, kind: &str) -> Value {
        json!({kind: self.body, "updateMask": self.mask.join(",")})
    }
}

fn put(object: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => drop(object.insert(path.to_owned(), value)),
        Some((name, rest)) => {
            let inner = object.entry(name).or_insert_with(|| json!({}));
            match inner {
                Value::Object(inner) => put(inner, rest, value),
                other => {
                    *other = json!({});
                    if let Value::Object(inner) = other {
                        put(inner, rest, value);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_names_what_it_changes_and_keeps_the_rest() {
        let mut changes = Changes::new(json!({
            "retryPolicy": {"minimumBackoff": "10s", "maximumBackoff": "600s"},
            "labels": {"a": "1", "b": "2"},
            "postrider": {"fifo": true, "start": "latest"},
        }));
        assert!(changes.is_empty());
        changes.set("retryPolicy.minimumBackoff", json!("1s"));
        changes.set("postrider.paused", json!(true));
        changes.set("postrider.poison", json!("skip"));
        changes.remove("labels", "a");
        changes.clear("deadLetterPolicy");
        let expected = json!({
            "subscription": {
                "retryPolicy": {"minimumBackoff": "1s", "maximumBackoff": "600s"},
                "postrider": {"paused": true, "poison": "skip"},
                "labels": {"b": "2"},
            },
            "updateMask": "retryPolicy,postrider.paused,postrider.poison,labels,deadLetterPolicy",
        });
        assert_eq!(changes.request("subscription"), expected);
        assert!(!changes.has_dead_letters());
        changes.set("deadLetterPolicy.deadLetterTopic", json!("t"));
        assert!(changes.has_dead_letters());
    }
}
