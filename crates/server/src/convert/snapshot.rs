//! Snapshots.

use domain::snapshot::{Change, Field};
use domain::{Invalid, Snapshot, Timestamp};
use wire::protobuf;
use wire::pubsub;

use super::{needed, timestamp};
use crate::status::Result;

/// A snapshot as it is shown.
pub(crate) fn snapshot_to_wire(snapshot: &Snapshot) -> pubsub::Snapshot {
    let micros = i64::try_from(snapshot.expire_time.0).unwrap_or(i64::MAX);
    pubsub::Snapshot {
        name: snapshot.name.to_string(),
        topic: snapshot.topic.to_string(),
        expire_time: Some(protobuf::Timestamp::from_unix_micros(micros)),
        labels: snapshot.labels.clone(),
    }
}

/// What an update of a snapshot changes: the fields that `paths` name.
pub(crate) fn snapshot_change(wire: &pubsub::Snapshot, paths: &[String]) -> Result<Change> {
    let mut change = Change::default();
    for path in needed(paths)? {
        match Field::parse(path)? {
            Field::Labels => change.labels = Some(wire.labels.clone()),
            Field::ExpireTime => change.expire_time = Some(expire_time(wire)?),
        }
    }
    Ok(change)
}

fn expire_time(wire: &pubsub::Snapshot) -> Result<Timestamp, Invalid> {
    const FIELD: &str = "expire_time";
    match wire.expire_time {
        Some(time) => timestamp(FIELD, time),
        None => Err(Invalid::new(FIELD, "must be given")),
    }
}
