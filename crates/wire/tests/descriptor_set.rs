//! The descriptor set is complete enough for server reflection.

use std::collections::BTreeSet;

use prost::Message;
use prost_types::FileDescriptorSet;

#[test]
fn every_import_comes_before_the_file_that_needs_it() {
    let set = FileDescriptorSet::decode(wire::FILE_DESCRIPTOR_SET).unwrap();
    let mut seen = BTreeSet::new();
    for file in &set.file {
        for dependency in &file.dependency {
            assert!(seen.contains(dependency.as_str()), "{} lacks {dependency}", file.name());
        }
        seen.insert(file.name());
    }
    for name in [
        "google/pubsub/v1/pubsub.proto",
        "google/pubsub/v1/schema.proto",
        "google/iam/v1/iam_policy.proto",
        "google/protobuf/timestamp.proto",
        "postrider/live/v1/live.proto",
    ] {
        assert!(seen.contains(name), "{name}");
    }
}

#[test]
fn the_received_message_is_described_as_google_has_it() {
    let set = FileDescriptorSet::decode(wire::FILE_DESCRIPTOR_SET).unwrap();
    let messages = set.file.iter().flat_map(|file| &file.message_type);
    let received = messages.into_iter().find(|m| m.name() == "ReceivedMessage").unwrap();
    assert_eq!(received.field[1].type_name(), ".google.pubsub.v1.PubsubMessage");
}
