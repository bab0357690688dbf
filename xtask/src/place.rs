//! Where things are: the workspace, the target folder, the built programs.

use std::path::{Path, PathBuf};

/// The workspace's root folder.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// Where the end-to-end tests keep what they installed and what they write.
pub(crate) fn e2e() -> PathBuf {
    target().join("e2e")
}

/// A program of this workspace, as the dev profile builds it.
pub(crate) fn built(name: &str) -> PathBuf {
    target().join("debug").join(name)
}
