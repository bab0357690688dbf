//! `google.protobuf.FieldMask` and its text.

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Error, Serialize, Serializer};

/// The fields a call means, such as those an update shall change.
///
/// In JSON it is one string of paths in camel case, `"labels,pushConfig.pushEndpoint"`; here the
/// paths are in snake case, as the fields are called. Reading accepts snake case too.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct FieldMask {
    /// Paths such as `push_config.push_endpoint`.
    #[prost(string, repeated, tag = "1")]
    pub paths: Vec<String>,
}

fn snake_case(path: &str) -> String {
    let mut snake = String::with_capacity(path.len() + 4);
    for c in path.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// None if reading it back would give another path.
fn camel_case(path: &str) -> Option<String> {
    let mut camel = String::with_capacity(path.len());
    let mut chars = path.chars();
    while let Some(c) = chars.next() {
        let next = match c {
            '_' => chars.next().filter(char::is_ascii_lowercase)?.to_ascii_uppercase(),
            c if c.is_ascii_uppercase() => return None,
            c => c,
        };
        camel.push(next);
    }
    Some(camel)
}

impl Serialize for FieldMask {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let paths: Option<Vec<String>> = self.paths.iter().map(|path| camel_case(path)).collect();
        let paths = paths.ok_or_else(|| S::Error::custom("field mask has no JSON form"))?;
        serializer.serialize_str(&paths.join(","))
    }
}

impl<'de> Deserialize<'de> for FieldMask {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(FieldMaskVisitor)
    }
}

struct FieldMaskVisitor;

impl Visitor<'_> for FieldMaskVisitor {
    type Value = FieldMask;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("field names such as \"labels,ackDeadlineSeconds\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<FieldMask, E> {
        if text.is_empty() {
            return Ok(FieldMask::default());
        }
        let mut paths = Vec::new();
        for path in text.split(',') {
            if path.is_empty() {
                return Err(E::invalid_value(de::Unexpected::Str(text), &self));
            }
            paths.push(snake_case(path));
        }
        Ok(FieldMask { paths })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(paths: &[&str]) -> FieldMask {
        FieldMask { paths: paths.iter().map(|&path| path.to_owned()).collect() }
    }

    #[test]
    fn text_goes_there_and_back() {
        for (paths, text) in [
            (vec![], r#""""#),
            (vec!["labels"], r#""labels""#),
            (vec!["labels", "ack_deadline_seconds"], r#""labels,ackDeadlineSeconds""#),
            (vec!["push_config.push_endpoint"], r#""pushConfig.pushEndpoint""#),
        ] {
            assert_eq!(serde_json::to_string(&mask(&paths)).unwrap(), text);
            assert_eq!(serde_json::from_str::<FieldMask>(text).unwrap(), mask(&paths));
        }
    }

    #[test]
    fn snake_case_is_read_as_it_stands() {
        let read: FieldMask = serde_json::from_str(r#""ack_deadline_seconds""#).unwrap();
        assert_eq!(read, mask(&["ack_deadline_seconds"]));
    }

    #[test]
    fn empty_paths_are_refused() {
        for text in [r#"",""#, r#""labels,""#, r#""a,,b""#] {
            assert!(serde_json::from_str::<FieldMask>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn paths_that_would_not_come_back_are_not_written() {
        for path in ["ackDeadline", "ack__deadline", "ack_", "ack_3"] {
            assert!(serde_json::to_string(&mask(&[path])).is_err(), "{path}");
        }
    }
}
