//! The machine that figures were measured on.

use std::fs::read_to_string;
use std::path::Path;

use serde::Serialize;

/// What a figure depends on besides the program.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) kernel: String,
    pub(crate) file_system: String,
}

impl Machine {
    /// This machine, with the file system of a folder. What cannot be read is `unknown`.
    pub(crate) fn describe(folder: &Path) -> Self {
        let file = |path: &str| read_to_string(path).unwrap_or_default();
        Self {
            processor: field(&file("/proc/cpuinfo"), "model name"),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: memory_bytes(&file("/proc/meminfo")),
            kernel: file("/proc/sys/kernel/osrelease").trim().to_owned(),
            file_system: file_system(&file("/proc/self/mounts"), folder),
        }
    }
}

fn field(text: &str, name: &str) -> String {
    let line = text.lines().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line.split_once(':'));
    value.map_or("unknown", |(_, value)| value.trim()).to_owned()
}

fn memory_bytes(meminfo: &str) -> u64 {
    let kib = field(meminfo, "MemTotal");
    kib.trim_end_matches(" kB").parse().map_or(0, |kib: u64| kib * 1024)
}

/// The type of the longest mount point that the folder lies below.
fn file_system(mounts: &str, folder: &Path) -> String {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let below = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (point, kind) = (words.next()?, words.next()?);
        folder.starts_with(point).then_some((point.len(), kind))
    });
    // Of two mounts on one point the later one counts.
    below.max_by_key(|(length, _)| *length).map_or("unknown", |(_, kind)| kind).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_names_the_file_system() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /run tmpfs rw 0 0\n";
        assert_eq!(file_system(mounts, Path::new("/run/nowhere/at/all")), "tmpfs");
        assert_eq!(file_system(mounts, Path::new("/nowhere/at/all")), "ext4");
    }

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(memory_bytes("MemTotal:       2048 kB\nMemFree: 1 kB\n"), 2 << 20);
    }
}
