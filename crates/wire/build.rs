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

/// Types written by hand in `src/`, which code is not generated for.
const OURS: [(&str, &str); 2] = [
    (".google.protobuf", "crate::protobuf"),
    (".google.pubsub.v1.ReceivedMessage", "crate::ReceivedMessage"),
];

/// Where the generated messages are, for servers, which are generated apart.
const MESSAGES: [(&str, &str); 4] = [
    (".google.iam.v1", "crate::google::iam::v1"),
    (".google.pubsub.v1", "crate::google::pubsub::v1"),
    (".google.type", "crate::google::r#type"),
    (".postrider.live.v1", "crate::postrider::live::v1"),
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let out_dir = PathBuf::from(std::env::var("OUT_DIR")?);

    let mut files = protox::compile(PROTOS, ["proto"])?;
    messages_and_clients(files.clone())?;
    servers(files.clone(), &out_dir.join("servers"))?;
    count_requests(&files, &out_dir)?;

    // Reflection has no use for comments.
    for file in &mut files.file {
        file.source_code_info = None;
    }
    let descriptor_set = files.encode_to_vec();
    fs::write(out_dir.join("descriptor_set.bin"), &descriptor_set)?;
    generate_json(&descriptor_set)
}

fn messages_and_clients(files: FileDescriptorSet) -> Result<(), Box<dyn Error>> {
    let mut builder = tonic_prost_build::configure()
        .build_server(false)
        .compile_well_known_types(true)
        .btree_map(".")
        .bytes(".");
    for (proto, rust) in OURS {
        builder = builder.extern_path(proto, rust);
    }
    Ok(builder.compile_fds(files)?)
}

/// Servers use the codec that counts requests before it builds them, clients the usual one; the
/// generator has one codec at a time.
fn servers(files: FileDescriptorSet, out_dir: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(out_dir)?;
    let mut builder = tonic_prost_build::configure()
        .build_client(false)
        .codec_path("crate::codec::Counting")
        .compile_well_known_types(true)
        .out_dir(out_dir);
    for (proto, rust) in OURS.into_iter().chain(MESSAGES) {
        builder = builder.extern_path(proto, rust);
    }
    Ok(builder.compile_fds(files)?)
}

/// Says what the requests of services are made of.
fn count_requests(files: &FileDescriptorSet, out_dir: &Path) -> Result<(), Box<dyn Error>> {
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

fn generate_json(descriptor_set: &[u8]) -> Result<(), Box<dyn Error>> {
    let mut json = pbjson_build::Builder::new();
    json.register_descriptors(descriptor_set)?.btree_map(["."]);
    for (proto, rust) in OURS {
        json.extern_path(proto, rust).exclude([proto]);
    }
    Ok(json.build(&JSON_PACKAGES)?)
}
