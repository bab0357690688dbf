//! What the value of a setting looks like, and how it is written where there is no JSON.

use std::time::Duration;

use serde_json::{Value, json};

use super::read;
use crate::backoff::show_wait;
use crate::error::Invalid;
use crate::subscription::Start;

/// What a value looks like. In the document it is JSON in Google's spelling; labels and flags have
/// text, and the configuration file writes times with their unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `true` or `false`.
    Switch,
    /// A whole number.
    Number,
    /// A time, which the document has as a number of seconds.
    Seconds,
    /// A time, which the document has as `"600s"`.
    Time,
    /// A time within its own object, `{"ttl": "86400s"}`; without it, never.
    TimeOrNever,
    /// Times one after the other, `["5s", "5m"]`, or an object.
    Times,
    /// Text.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// The name of a topic.
    Topic,
    /// The name of a schema.
    Schema,
    /// Text by key.
    Pairs,
    /// An object of the parts that the setting has; without one it is on, and nothing more.
    Object,
    /// Where a subscription starts.
    Start,
    /// A list of functions, which flags name by their files.
    Functions,
    /// Of its own kind, described in its help.
    Own,
}

impl Form {
    /// Reads the text of a label.
    pub fn from_label(self, field: &str, text: &str) -> Result<Value, Invalid> {
        match self {
            Self::Switch => match text {
                "true" => Ok(json!(true)),
                "false" => Ok(json!(false)),
                _ => Err(Invalid::new(field, format!("{text:?} is not true or false"))),
            },
            Self::Number | Self::Seconds => match read::decimal(text) {
                Some(number) => Ok(json!(number)),
                None => {
                    let shown: String = text.chars().take(64).collect();
                    Err(Invalid::new(field, format!("{shown:?} is not a whole number")))
                }
            },
            Self::Start => Start::parse(field, text).map(|start| start.show()),
            _ => Ok(json!(text)),
        }
    }

    /// The text of a label that says `value`; `None` where there is nothing to say.
    pub fn to_label(self, value: &Value) -> Option<String> {
        match value {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }

    /// A value in a word or two, as the configuration file has it; `None` where it takes more.
    pub fn brief(self, value: &Value) -> Option<String> {
        let time = |value: &Value| read::google_time("", value).ok().flatten().map(show_wait);
        match self {
            Self::Switch | Self::Number | Self::Word(_) | Self::Topic | Self::Schema => {
                Some(self.to_label(value).unwrap_or_else(|| "none".to_owned()))
            }
            Self::Seconds => Some(match value.as_u64() {
                Some(seconds) => show_wait(Duration::from_secs(seconds)),
                None => "none".to_owned(),
            }),
            Self::Time => Some(time(value).unwrap_or_else(|| "none".to_owned())),
            Self::TimeOrNever => Some(match value.get("ttl") {
                Some(ttl) => time(ttl)?,
                None => "never".to_owned(),
            }),
            _ => None,
        }
    }

    /// What people are told to write.
    pub fn described(self) -> String {
        match self {
            Self::Switch => "`true`, `false`".to_owned(),
            Self::Number => "number".to_owned(),
            Self::Seconds | Self::Time => "time".to_owned(),
            Self::TimeOrNever => "time, `never`".to_owned(),
            Self::Times => "times, or an object".to_owned(),
            Self::Text => "text".to_owned(),
            Self::Word(words) => {
                let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                quoted.join(", ")
            }
            Self::Topic => "topic".to_owned(),
            Self::Schema => "schema".to_owned(),
            Self::Pairs => "text by key".to_owned(),
            Self::Functions => "list of transforms".to_owned(),
            Self::Object | Self::Own => "object".to_owned(),
            Self::Start => "`latest`, `earliest`, an offset, a time".to_owned(),
        }
    }
}
