//! Turns `proto/` into Rust: messages, gRPC clients and servers, JSON, and the descriptor set.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;
use prost_types::{DescriptorProto, FileDescriptorSet};

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
    count_requests(&files, &out_dir)?;

    // Reflection has no use for comments.
    for file in &mut files.file {
        file.source_code_info = None;
    }
    let descriptor_set = files.encode_to_vec();
    fs::write(out_dir.join("descriptor_set.bin"), &descriptor_set)?;
    generate_json(&descriptor_set, &out_dir)
}

/// The files that hold services.
const SERVICE_FILES: [&str; 3] =
    ["google.iam.v1.rs", "google.pubsub.v1.rs", "postrider.live.v1.rs"];

/// Lets services use the codec that counts requests before it builds them, and says what their
/// requests are made of.
fn count_requests(files: &FileDescriptorSet, out_dir: &Path) -> Result<(), Box<dyn Error>> {
    for file in SERVICE_FILES {
        let path = out_dir.join(file);
        let text = with_counting_servers(&fs::read_to_string(&path)?);
        fs::write(&path, text)?;
    }
    let mut shapes = BTreeMap::new();
    for file in &files.file {
        for message in &file.message_type {
            add_shape(&mut shapes, &format!(".{}", file.package()), message);
        }
    }
    let place = |name: &str| shapes.keys().position(|other| other == name);
    let mut text = "static SHAPES: &[&[(u64, usize)]] = &[\n".to_owned();
    for fields in shapes.values() {
        let fields = fields.iter().filter_map(|(number, name)| Some((number, place(name)?)));
        text.push_str(&format!("    &{:?},\n", fields.collect::<Vec<_>>()));
    }
    text.push_str("];\n");
    fs::write(out_dir.join("shapes.rs"), text)?;

    let services = files.file.iter().flat_map(|file| &file.service);
    let asked: BTreeSet<&str> =
        services.flat_map(|service| &service.method).map(|method| method.input_type()).collect();
    let mut text = String::new();
    for name in asked {
        let path = name.replace('.', "::");
        let shape = place(name).ok_or_else(|| format!("{name} is not defined"))?;
        text.push_str(&format!("impl Asked for generated{path} {{\n"));
        text.push_str(&format!("    const SHAPE: usize = {shape};\n}}\n"));
    }
    Ok(fs::write(out_dir.join("asked.rs"), text)?)
}

/// What a message's fields are that are messages: by their numbers, the names of what they hold.
type Shape = Vec<(i32, String)>;

fn add_shape(shapes: &mut BTreeMap<String, Shape>, scope: &str, message: &DescriptorProto) {
    let name = format!("{scope}.{}", message.name());
    for inner in &message.nested_type {
        add_shape(shapes, &name, inner);
    }
    let fields = message.field.iter().filter(|field| field.type_name().starts_with('.'));
    let fields = fields.map(|field| (field.number(), field.type_name().to_owned()));
    shapes.insert(name, fields.collect());
}

fn with_counting_servers(text: &str) -> String {
    let mut is_server = false;
    let lines = text.lines().map(|line| {
        if line.starts_with("pub mod ") {
            is_server = line.contains("_server {");
        }
        match is_server {
            true => line.replace("tonic_prost::ProstCodec", "crate::codec::Counting"),
            false => line.to_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
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
