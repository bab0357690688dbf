//! `postrider verify`.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::{Failure, print, print_json};
use crate::engine::{self, Report};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider verify --data-dir ./postrider-data
  postrider verify --data-dir ./postrider-data --json

Each fault is one line: file, byte offset, what is wrong. Nothing is repaired.";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The folder to check, not in use by a server
    #[arg(long, value_name = "FOLDER", default_value = "./postrider-data")]
    data_dir: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let folder = &arguments.data_dir;
    let report = match engine::verify(folder) {
        Ok(report) => report,
        Err(storage::Error::NotFound) => {
            return Err(Failure::failed(format!("there is no store in {}", folder.display())));
        }
        Err(error) => return Err(Failure::failed(error)),
    };
    if arguments.json {
        print_json(&as_json(&report))?;
    } else {
        print(&describe(&report))?;
    }
    match report.faults.len() {
        0 => Ok(()),
        1 => Err(Failure::failed(format!("1 fault in {}", folder.display()))),
        faults => Err(Failure::failed(format!("{faults} faults in {}", folder.display()))),
    }
}

fn as_json(report: &Report) -> Value {
    let faults: Vec<Value> = report
        .faults
        .iter()
        .map(|fault| {
            let file = fault.file.display().to_string();
            json!({"file": file, "offset": fault.offset, "problem": fault.what.to_string()})
        })
        .collect();
    json!({
        "files": report.files, "groups": report.groups, "segments": report.segments,
        "records": report.records, "bytes": report.bytes, "tornBytes": report.torn_bytes,
        "faults": faults,
    })
}

fn describe(report: &Report) -> String {
    let mut text = format!(
        "{} log files with {} commits, {} segments, {} records, {} bytes\n",
        report.files, report.groups, report.segments, report.records, report.bytes
    );
    if report.torn_bytes > 0 {
        let torn = report.torn_bytes;
        text.push_str(&format!("{torn} bytes of an unfinished commit, which is not a fault\n"));
    }
    for fault in &report.faults {
        let file = fault.file.display();
        text.push_str(&format!("{file}: byte {}: {}\n", fault.offset, fault.what));
    }
    if report.faults.is_empty() {
        text.push_str("no faults\n");
    }
    text
}
