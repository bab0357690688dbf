//! What the process takes up of its machine.

use std::path::Path;

/// Files looked at, at most, to learn how much the data folder takes up.
const FILES_MAX: usize = 100_000;

/// Bytes in which the system counts a file's space.
const BLOCK: u64 = 512;

/// Space on the disk of the data folder, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct DiskSpace {
    pub(super) used: u64,
    pub(super) free: u64,
    pub(super) total: u64,
}

/// Memory that is in use, in bytes; `None` where the system does not tell.
pub(super) fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Looks at the folder and its disk. Blocks.
pub(super) fn disk_space(folder: &Path) -> Option<DiskSpace> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    let mut files_left = FILES_MAX;
    Some(DiskSpace {
        used: used(folder, &mut files_left),
        free: disk.f_bavail * disk.f_frsize,
        total: disk.f_blocks * disk.f_frsize,
    })
}

/// What the files in a folder take up. Those that vanish meanwhile count for nothing.
fn used(folder: &Path, files_left: &mut usize) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let mut bytes = 0;
    for entry in entries.flatten() {
        if *files_left == 0 {
            break;
        }
        *files_left -= 1;
        let Ok(about) = entry.metadata() else { continue };
        bytes += std::os::unix::fs::MetadataExt::blocks(&about) * BLOCK;
        if about.is_dir() {
            bytes += used(&entry.path(), files_left);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_a_folder_and_below_it_are_added_up() {
        let folder = tempfile::TempDir::new().unwrap();
        let empty = disk_space(folder.path()).unwrap();
        std::fs::create_dir(folder.path().join("below")).unwrap();
        std::fs::write(folder.path().join("below/file"), vec![1; 100_000]).unwrap();
        let full = disk_space(folder.path()).unwrap();
        assert!(full.used >= empty.used + 100_000, "{full:?}");
        assert!(full.free <= full.total && full.total > 0);
        assert!(resident_bytes().unwrap() > 100_000);
    }
}
