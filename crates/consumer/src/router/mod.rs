//! The router: which message is written where, declared in TOML.
//!
//! Routes are asked in order, and the first one that matches takes the message. A message that
//! none takes, that lacks something its route needs, or that has an unknown version is poison: it
//! is what it is, and trying again does not help.
//!
//! | File | Holds |
//! |---|---|
//! | `settings` | what the file may say |
//! | `source` | where in a message a value is: `data.a.b`, `attributes.x`, `message.id` |
//! | `template` | text with values in it: `{data.service}` |
//! | `field` | a document's field: its source and its type |
//! | `route` | one entry, checked and ready |

mod field;
mod route;
pub mod settings;
mod source;
mod template;
#[cfg(test)]
mod tests;

use bytes::BytesMut;
use domain::{Invalid, Offset, Timestamp};

use crate::effects::Write;
use crate::{About, Failure, Message};
use route::Route;
use settings::{Dedupe, RouteSettings, Routes};
use source::Seen;

/// Routes in order.
#[derive(Debug)]
pub struct Router {
    routes: Vec<Route>,
}

/// What a message comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Routed {
    /// The write, or why the message is poison.
    pub write: Result<Write, Failure>,
    /// What is known about it, for the log line.
    pub about: About,
}

/// Why there are no routes.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    /// The text is not what the file may say; the error names line and column.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// A route cannot be; the field is named.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

impl Router {
    /// Reads routes from TOML that holds nothing else.
    pub fn from_toml(text: &str) -> Result<Self, RouterError> {
        let Routes { dedupe, route } = toml::from_str(text)?;
        Ok(Self::new(route, &dedupe)?)
    }

    /// Checks routes. A refusal names the route and its field.
    pub fn new(routes: Vec<RouteSettings>, dedupe: &Dedupe) -> Result<Self, Invalid> {
        if routes.is_empty() {
            return Err(Invalid::new("route", "there is none: write [[route]] and its fields"));
        }
        let expiry_min = dedupe.expiry_min()?;
        let mut checked: Vec<Route> = Vec::new();
        for (number, settings) in routes.into_iter().enumerate() {
            let route = Route::new(number, settings, expiry_min)?;
            if checked.iter().any(|before| before.name() == route.name()) {
                let problem = format!("{:?} is the name of a route before it", route.name());
                return Err(Invalid::new(format!("route[{number}].name"), problem));
            }
            checked.push(route);
        }
        Ok(Self { routes: checked })
    }

    /// What the message comes to. `now` is the time that its note is kept from.
    pub fn route(&self, message: &Message, now: Timestamp) -> Routed {
        let seen = Seen::new(message);
        let body = body(message);
        match self.routes.iter().find(|route| route.takes(message, &body)) {
            Some(route) => route.apply(&seen, now),
            None => Routed { write: Err(unroutable(&seen)), about: About::default() },
        }
    }

    /// The names of the routes, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.routes.iter().map(Route::name)
    }
}

fn unroutable(seen: &Seen<'_>) -> Failure {
    match seen.not_json() {
        Some(problem) => Failure {
            kind: "InvalidJson".to_owned(),
            code: None,
            message: format!("data: not JSON: {problem}; and no route takes it as it is"),
        },
        None => Failure {
            kind: "Unroutable".to_owned(),
            code: None,
            message: "no route matches: add one for messages of this shape".to_owned(),
        },
    }
}

/// The message as filters look at it.
fn body(message: &Message) -> BytesMut {
    let plain = domain::Message {
        data: message.data.clone(),
        attributes: message.attributes.clone(),
        ordering_key: message.ordering_key.clone(),
    };
    let mut body = BytesMut::with_capacity(domain::message::encoded_len_max(&plain));
    let publish_time = message.publish_time.unwrap_or_default();
    domain::message::encode(&plain, Offset(0), publish_time, &mut body);
    body
}
