//! Where in a message a value is.

use std::fmt;
use std::sync::OnceLock;

use domain::Invalid;
use serde_json::Value as Json;

use crate::{Failure, Message, clock};

/// Names in one place, at most.
const SEGMENTS_MAX: usize = 32;

/// A place in a message.
///
/// ```text
/// data.a.b         a value inside the data, which is JSON
/// attributes.a.b   the attribute a.b
/// message.id       also publish_time, ordering_key, subscription (its id)
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Data(Vec<String>),
    Attribute(String),
    Id,
    PublishTime,
    OrderingKey,
    Subscription,
}

impl Source {
    /// Reads a place. A refusal names `field`.
    pub(super) fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        let wrong = || {
            Invalid::new(
                field,
                format!(
                    "{text:?} is not a place in a message: write data.NAME, attributes.NAME, \
                     message.id, message.publish_time, message.ordering_key or message.subscription"
                ),
            )
        };
        let (root, rest) = text.split_once('.').ok_or_else(wrong)?;
        match (root, rest) {
            (_, "") => Err(wrong()),
            ("data", names) => {
                let names: Vec<String> = names.split('.').map(str::to_owned).collect();
                let is_sound = names.len() <= SEGMENTS_MAX && names.iter().all(|n| !n.is_empty());
                if is_sound { Ok(Self::Data(names)) } else { Err(wrong()) }
            }
            ("attributes", name) => Ok(Self::Attribute(name.to_owned())),
            ("message", "id") => Ok(Self::Id),
            ("message", "publish_time") => Ok(Self::PublishTime),
            ("message", "ordering_key") => Ok(Self::OrderingKey),
            ("message", "subscription") => Ok(Self::Subscription),
            _ => Err(wrong()),
        }
    }

    /// The value there; `None` = there is none, or it is null.
    pub(super) fn find(&self, seen: &Seen<'_>) -> Result<Option<Json>, Failure> {
        let message = seen.message;
        let text = |text: &str| Some(Json::String(text.to_owned()));
        Ok(match self {
            Self::Data(names) => {
                let mut value = seen.data()?;
                for name in names {
                    match value.get(name) {
                        Some(inner) => value = inner,
                        None => return Ok(None),
                    }
                }
                Some(value.clone()).filter(|value| !value.is_null())
            }
            Self::Attribute(name) => message.attributes.get(name).and_then(|value| text(value)),
            Self::Id => text(message.dedupe_id()),
            Self::PublishTime => message.publish_time.and_then(|at| text(&clock::text(at))),
            Self::OrderingKey => {
                text(&message.ordering_key).filter(|_| !message.ordering_key.is_empty())
            }
            Self::Subscription => {
                message.subscription.as_deref().and_then(|name| text(short(name)))
            }
        })
    }

    /// The value there, or poison that names the place.
    pub(super) fn get(&self, seen: &Seen<'_>) -> Result<Json, Failure> {
        self.find(seen)?.ok_or_else(|| Failure {
            kind: "MissingField".to_owned(),
            code: None,
            message: format!("{self}: missing, and its route needs it"),
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(names) => write!(f, "data.{}", names.join(".")),
            Self::Attribute(name) => write!(f, "attributes.{name}"),
            Self::Id => f.write_str("message.id"),
            Self::PublishTime => f.write_str("message.publish_time"),
            Self::OrderingKey => f.write_str("message.ordering_key"),
            Self::Subscription => f.write_str("message.subscription"),
        }
    }
}

/// The id of a subscription of that full name.
pub(super) fn short(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, id)| id)
}

/// A message whose data is read once, when it is first looked at.
pub(super) struct Seen<'a> {
    pub(super) message: &'a Message,
    data: OnceLock<Result<Json, String>>,
}

impl<'a> Seen<'a> {
    pub(super) fn new(message: &'a Message) -> Self {
        Self { message, data: OnceLock::new() }
    }

    fn read(&self) -> Result<&Json, &String> {
        let read = || serde_json::from_slice(&self.message.data).map_err(|e| e.to_string());
        self.data.get_or_init(read).as_ref()
    }

    /// Why the data is not JSON, if it is not.
    pub(super) fn not_json(&self) -> Option<&str> {
        self.read().err().map(String::as_str)
    }

    fn data(&self) -> Result<&Json, Failure> {
        self.read().map_err(|problem| Failure {
            kind: "InvalidJson".to_owned(),
            code: None,
            message: format!("data: not JSON: {problem}"),
        })
    }
}
