//! JSON of Google's messages, in and out.

use wire::json::{from_slice, to_vec};
use wire::pubsub::{PublishRequest, PullResponse, Snapshot, Subscription, Topic};

/// Any bytes as JSON of the messages that clients send most: refused, or the same again.
pub(super) fn proto_json(input: &[u8]) -> String {
    [
        twice::<PublishRequest>(input),
        twice::<Subscription>(input),
        twice::<Topic>(input),
        twice::<Snapshot>(input),
        twice::<PullResponse>(input),
    ]
    .join("; ")
}

fn twice<T>(input: &[u8]) -> String
where
    T: serde::de::DeserializeOwned + serde::Serialize + PartialEq + std::fmt::Debug,
{
    let read: T = match from_slice(input) {
        Ok(read) => read,
        Err(error) => {
            let said = error.to_string();
            assert!(!said.contains('\n'), "{said}");
            return said;
        }
    };
    let written = match to_vec(&read) {
        Ok(written) => written,
        Err(error) => panic!("{read:?} cannot be written: {error}"),
    };
    match from_slice::<T>(&written) {
        Ok(again) => assert_eq!(again, read, "written and read"),
        Err(error) => panic!("{} cannot be read: {error}", written.escape_ascii()),
    }
    "read".to_owned()
}
