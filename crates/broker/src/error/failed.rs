//! Messages that did not get through the transforms of their topic.

use transforms::Failure;

use super::Error;

/// A message that did not get through the transforms of its topic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("messages[{index}]: {failure}")]
pub struct Failed {
    /// Which message of the request it is.
    pub index: usize,
    /// Which function failed, and how.
    pub failure: Failure,
}

impl Failed {
    pub(crate) fn at(index: usize, failure: Failure) -> Error {
        Error::Transform(Box::new(Self { index, failure }))
    }
}
