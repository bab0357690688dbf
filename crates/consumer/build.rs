//! Turns `proto/` into Rust: Firestore's messages, its client, and a server for the fake.

use std::error::Error;

const PROTOS: [&str; 1] = ["google/firestore/v1/firestore.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(PROTOS, ["proto"])?;
    tonic_prost_build::configure().btree_map(".").bytes(".").compile_fds(files)?;
    Ok(())
}
