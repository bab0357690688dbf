//! Turns `proto/` into Rust: messages, gRPC clients and servers, JSON, and the descriptor set.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;

const PROTOS: [&str; 7] = [
    "google/iam/v1/iam_policy.proto",
    "google/iam/v1/options.proto",
    "google/iam/v1/policy.proto",
    "google/pubsub/v1/pubsub.proto",
    "google/pubsub/v1/schema.proto",
    "google/type/expr.proto",
    "postrider/live/v1/live.proto",
];

/// The packages that JSON is generated for.
const JSON_PACKAGES: [&str; 3] = [".google.iam.v1", ".google.pubsub.v1", ".google.type"];

/// The files it is generated into.
const JSON_FILES: [&str; 3] =
    ["google.iam.v1.serde.rs", "google.pubsub.v1.serde.rs", "google.r#type.serde.rs"];

/// Types written by hand in `src/`, which code is not generated for.
const OURS: [(&str, &str); 2] = [
    (".google.protobuf", "crate::protobuf"),
    (".google.pubsub.v1.ReceivedMessage", "crate::ReceivedMessage"),
];

/// What the generated JSON code calls, and what it shall call instead: ours says what is wrong
/// with a number, and does not need a second runtime crate.
const JSON_CALLS: [(&str, &str); 3] = [
    ("::pbjson::private::NumberDeserialize", "crate::json::scalar::Integer"),
    ("::pbjson::private::BytesDeserialize", "crate::json::scalar::Base64"),
    ("pbjson::private::base64::encode", "crate::json::scalar::base64_text"),
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let out_dir = PathBuf::from(std::env::var("OUT_DIR")?);

    let mut files = protox::compile(PROTOS, ["proto"])?;
    let mut messages =
        tonic_prost_build::configure().compile_well_known_types(true).btree_map(".").bytes(".");
    for (proto, rust) in OURS {
        messages = messages.extern_path(proto, rust);
    }
    messages.compile_fds(files.clone())?;

    // Reflection has no use for comments.
    for file in &mut files.file {
        file.source_code_info = None;
    }
    let descriptor_set = files.encode_to_vec();
    fs::write(out_dir.join("descriptor_set.bin"), &descriptor_set)?;
    generate_json(&descriptor_set, &out_dir)
}

fn generate_json(descriptor_set: &[u8], out_dir: &Path) -> Result<(), Box<dyn Error>> {
    let mut json = pbjson_build::Builder::new();
    json.register_descriptors(descriptor_set)?.btree_map(["."]);
    for (proto, rust) in OURS {
        json.extern_path(proto, rust).exclude([proto]);
    }
    json.build(&JSON_PACKAGES)?;

    for file in JSON_FILES {
        let path = out_dir.join(file);
        let mut text = fs::read_to_string(&path)?;
        for (theirs, ours) in JSON_CALLS {
            text = text.replace(theirs, ours);
        }
        fs::write(&path, text)?;
    }
    Ok(())
}
