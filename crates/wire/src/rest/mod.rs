//! The REST methods of Pub/Sub v1: which call a verb and a path mean, and how path, query and
//! body make up its request.

mod percent;
mod request;
mod route;
mod table;

use std::fmt::{Display, Formatter, Result as FmtResult};

pub use request::query;
pub use route::{Match, NoRoute, route};
pub use table::METHODS;

/// One segment of a path, percent-decoded, slashes too. None if it is not well-formed.
pub fn segment(text: &str) -> Option<String> {
    percent::decode(text, percent::Slash::Decoded)
}

/// One way to make a call over REST.
///
/// Every path binds one field of the request. Fields that neither path nor body give may come as
/// query parameters.
#[derive(Debug, PartialEq, Eq)]
pub struct Method {
    /// The HTTP verb.
    pub verb: Verb,
    /// The path, such as `/v1/{topic=projects/*/topics/*}:publish`: between the braces stand
    /// the field it binds and the shape of its value, where `*` is one segment.
    pub path: &'static str,
    /// The service that has the call, such as `google.pubsub.v1.Publisher`.
    pub service: &'static str,
    /// The call, such as `Publish`. No two services have calls of the same name.
    pub call: &'static str,
    /// What the body is.
    pub body: Body,
}

impl Method {
    /// The full name of the call, such as `google.pubsub.v1.Publisher/Publish`.
    pub fn rpc(&self) -> String {
        format!("{}/{}", self.service, self.call)
    }
}

/// The HTTP verbs that methods use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// Removes something.
    Delete,
    /// Reads something.
    Get,
    /// Changes part of something.
    Patch,
    /// Does something.
    Post,
    /// Creates something.
    Put,
}

impl Verb {
    /// The verb as HTTP spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "DELETE",
            Self::Get => "GET",
            Self::Patch => "PATCH",
            Self::Post => "POST",
            Self::Put => "PUT",
        }
    }
}

impl Display for Verb {
    fn fmt(&self, f: &mut Formatter<'_>) -> FmtResult {
        f.write_str(self.as_str())
    }
}

/// What the body of a REST request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// There is none.
    None,
    /// The request without what the path binds.
    All,
    /// One field of the request.
    Field(&'static str),
}
