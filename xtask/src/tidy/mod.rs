//! `cargo xtask tidy`: house rules that no other tool checks.

mod citations;
mod dependencies;
mod documents;
mod layers;
mod leftovers;
mod source;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::place;

/// Folders that hold nothing written by hand.
const SKIPPED: [&str; 6] = ["target", ".git", "node_modules", "fixtures", "__pycache__", "proto"];
const TEXT: [&str; 9] = ["rs", "toml", "md", "py", "js", "json", "txt", "ini", "proto"];

/// One text file of the repository.
struct File {
    /// Relative to the root, with forward slashes.
    path: String,
    text: String,
}

/// Runs every rule; each fault is a line, and any fault is an error.
pub(crate) fn run() -> Result<()> {
    let files = read_all()?;
    let mut faults = Vec::new();
    source::check(&files, &mut faults);
    words::check(&files, &mut faults);
    leftovers::check(&files, &mut faults);
    documents::check(&files, &mut faults);
    citations::check(&files, &mut faults);
    layers::check(&files, &mut faults);
    dependencies::check(&files, &mut faults)?;
    for fault in &faults {
        println!("{fault}");
    }
    if !faults.is_empty() {
        bail!("tidy found {} faults", faults.len());
    }
    println!("{} files are tidy", files.len());
    Ok(())
}

fn read_all() -> Result<Vec<File>> {
    let root = place::root();
    let mut paths = Vec::new();
    walk(&root, &mut paths)?;
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path)?;
        let path = path.strip_prefix(&root)?.to_string_lossy().replace('\\', "/");
        files.push(File { path, text });
    }
    Ok(files)
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            let data = name.starts_with("postrider-data");
            if !SKIPPED.contains(&name.as_str()) && !data {
                walk(&path, found)?;
            }
        } else if is_text(&path) || name == "run" {
            found.push(path);
        }
    }
    Ok(())
}

fn is_text(path: &Path) -> bool {
    path.extension().is_some_and(|extension| TEXT.iter().any(|text| extension == *text))
}
