//! Feeds arbitrary bytes to the readers of definitions and of endpoints' answers. For fuzzing only.

use std::net::{IpAddr, SocketAddr};

use domain::push::Endpoint;

use crate::definition::{
    StoredReplay, StoredSchema, StoredSnapshot, StoredSubscription, StoredTopic,
};
use crate::push::guard::Guard;

pub use crate::push::sender::fuzzing::answer;

/// Any bytes as a stored definition of each kind: refused, or the same when written again.
pub fn definition(input: &[u8]) -> String {
    const TOPIC: &str = "projects/p/topics/t";
    const SUBSCRIPTION: &str = "projects/p/subscriptions/s";
    const SNAPSHOT: &str = "projects/p/snapshots/n";
    const SCHEMA: &str = "projects/p/schemas/order";
    [
        twice(input, |bytes| StoredTopic::decode(TOPIC, bytes), StoredTopic::encode),
        twice(
            input,
            |bytes| StoredSubscription::decode(SUBSCRIPTION, bytes),
            StoredSubscription::encode,
        ),
        twice(input, |bytes| StoredSnapshot::decode(SNAPSHOT, bytes), StoredSnapshot::encode),
        twice(
            input,
            |bytes| StoredSchema::decode(SCHEMA, bytes),
            |stored| StoredSchema::encode(&stored.0),
        ),
        twice(input, StoredReplay::decode, StoredReplay::encode),
    ]
    .join("; ")
}

fn twice<T, E: std::fmt::Display>(
    input: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, E>,
    encode: impl Fn(&T) -> Result<bytes::Bytes, E>,
) -> String {
    let once = match decode(input) {
        Ok(stored) => encode(&stored),
        Err(error) => return error.to_string(),
    };
    let again = once.as_ref().ok().map(|bytes| decode(bytes).and_then(|stored| encode(&stored)));
    match (once, again) {
        (Ok(once), Some(Ok(again))) => assert_eq!(once, again, "written twice, and not the same"),
        (_, Some(Err(error))) => panic!("what was written cannot be read: {error}"),
        (Err(error), _) => return error.to_string(),
        (Ok(_), None) => {}
    }
    "read".to_owned()
}

/// Whether a server with default settings connects to `address`, resolved from an endpoint's host.
pub fn connects_to(address: IpAddr) -> bool {
    Guard::default().vet("host.example", &[SocketAddr::new(address, 443)]).is_ok()
}

/// Any text as an endpoint.
pub fn endpoint(text: &str) -> Result<Endpoint, String> {
    let endpoint = Endpoint::parse("endpoint", text).map_err(|invalid| invalid.to_string())?;
    assert!(!endpoint.host().is_empty() && endpoint.port() > 0, "{text}");
    assert!(!endpoint.host().starts_with('['), "{text}");
    let shown = endpoint.shown();
    let authority = shown.split('/').nth(2).unwrap_or_default();
    assert!(!authority.contains('@') && !shown.contains('?'), "{shown} shows what may be secret");
    Ok(endpoint)
}
