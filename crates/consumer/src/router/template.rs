//! Text with values of a message in it.

use domain::Invalid;
use serde_json::Value as Json;

use super::source::{Seen, Source};
use crate::Failure;

/// `{data.service}-{attributes.region}`; `{{` and `}}` are braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Value(Source),
}

impl Template {
    /// Reads a template. A refusal names `field`.
    pub(super) fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        let wrong = |problem: &str| Err(Invalid::new(field, format!("{text:?}: {problem}")));
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            plain.push_str(before);
            if let Some(after) = from.strip_prefix("{{").or_else(|| from.strip_prefix("}}")) {
                plain.extend(from.chars().next());
                rest = after;
                continue;
            }
            let Some(inside) = from.strip_prefix('{') else {
                return wrong("a } without its {: write }} for a brace");
            };
            let Some((place, after)) = inside.split_once('}') else {
                return wrong("a { without its }: write {{ for a brace");
            };
            parts.push(Part::Text(std::mem::take(&mut plain)));
            parts.push(Part::Value(Source::parse(field, place)?));
            rest = after;
        }
        plain.push_str(rest);
        parts.push(Part::Text(plain));
        parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
        Ok(Self { parts })
    }

    /// The text for a message. A place that is missing, or holds what is no text, is poison.
    pub(super) fn render(&self, seen: &Seen<'_>) -> Result<String, Failure> {
        let mut rendered = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => rendered.push_str(text),
                Part::Value(source) => put(&mut rendered, source, &source.get(seen)?)?,
            }
        }
        Ok(rendered)
    }
}

fn put(rendered: &mut String, source: &Source, value: &Json) -> Result<(), Failure> {
    match value {
        Json::String(text) => rendered.push_str(text),
        Json::Bool(value) => rendered.push_str(&value.to_string()),
        Json::Number(number) if !number.is_f64() => rendered.push_str(&number.to_string()),
        _ => {
            return Err(Failure {
                kind: "WrongType".to_owned(),
                code: None,
                message: format!("{source}: must be text, a whole number, true or false here"),
            });
        }
    }
    Ok(())
}
