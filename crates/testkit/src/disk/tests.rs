//! The simulated disk does what it says.

use super::*;

fn read(disk: &SimDisk, name: &str) -> Vec<u8> {
    disk.files().get(name).map(|bytes| bytes.to_vec()).unwrap_or_default()
}

/// A file with a durable name and `abcd` synced.
fn prepared() -> (SimDisk, Arc<dyn File>) {
    let disk = SimDisk::new();
    let file = disk.create("wal/1").unwrap();
    file.write_at(b"abcd", 0).unwrap();
    file.sync().unwrap();
    disk.sync_folder("wal").unwrap();
    (disk, file)
}

#[test]
fn a_power_cut_loses_what_was_not_synced() {
    let (disk, file) = prepared();
    file.write_at(b"XY", 1).unwrap();
    file.write_at(b"tail", 4).unwrap();
    assert_eq!(read(&disk, "wal/1"), b"aXYdtail");
    assert_eq!(read(&disk.power_cut(), "wal/1"), b"abcd");
    assert_eq!(read(&disk.power_cut_with(Cut::LosesNothing), "wal/1"), b"aXYdtail");
    let torn = disk.power_cut_with(Cut::Prefix { whole: 1, torn: 2 });
    assert_eq!(read(&torn, "wal/1"), b"aXYdta");
    assert_eq!(disk.unsynced(), [2, 4]);
    file.sync().unwrap();
    assert_eq!(read(&disk.power_cut(), "wal/1"), b"aXYdtail");
}

#[test]
fn a_name_is_durable_only_after_its_folder_is_synced() {
    let (disk, _file) = prepared();
    disk.create("free/2").unwrap().sync().unwrap();
    disk.rename("wal/1", "free/1").unwrap();
    let names = |disk: &SimDisk| disk.files().into_keys().collect::<Vec<_>>();
    assert_eq!(names(&disk), ["free/1", "free/2"]);
    assert_eq!(names(&disk.power_cut()), ["wal/1"]);
    disk.sync_folder("wal").unwrap();
    assert_eq!(names(&disk.power_cut()), ["free/1"], "a rename is one step; free/2 was not synced");
    disk.sync_folder("free").unwrap();
    disk.remove("free/2").unwrap();
    assert_eq!(names(&disk.power_cut()), ["free/1", "free/2"]);
    assert_eq!(disk.list("free").unwrap(), ["1"]);
    assert!(disk.list("nothing").unwrap().is_empty());
}

#[test]
fn a_failed_sync_loses_its_writes_for_good() {
    let (disk, file) = prepared();
    disk.fail(Fault { on: Some(Call::Sync), nth: 1, effect: Effect::Fail(Errno::Io) });
    file.write_at(b"lost", 0).unwrap();
    assert!(file.sync().is_err());
    assert_eq!(read(&disk, "wal/1"), b"lost", "the cache still shows it");
    file.sync().unwrap();
    assert_eq!(read(&disk.power_cut(), "wal/1"), b"abcd");
    assert_eq!(read(&disk.power_cut_with(Cut::LosesNothing), "wal/1"), b"lost");
}

#[test]
fn the_nth_call_fails_and_does_nothing() {
    let (disk, file) = prepared();
    let before = disk.calls();
    disk.fail(Fault { on: None, nth: 2, effect: Effect::Fail(Errno::NoSpace) });
    file.write_at(b"1", 0).unwrap();
    let error = file.write_at(b"2", 0).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    file.write_at(b"3", 3).unwrap();
    assert_eq!(read(&disk, "wal/1"), b"1bc3");
    assert_eq!(disk.calls(), before + 3);
    let failed: Vec<_> = disk.trace().into_iter().filter(|traced| traced.failed).collect();
    assert_eq!(failed.len(), 1);
    assert_eq!((failed[0].call, failed[0].number), (Call::Write, before + 2));
}

#[test]
fn a_write_can_be_torn() {
    let (disk, file) = prepared();
    disk.fail(Fault { on: Some(Call::Write), nth: 1, effect: Effect::Tear(2) });
    assert!(file.write_at(b"WXYZ", 0).is_err());
    assert_eq!(read(&disk, "wal/1"), b"WXcd");
}

#[test]
fn power_off_stays_off_until_healed() {
    let (disk, file) = prepared();
    disk.fail(Fault { on: None, nth: 1, effect: Effect::PowerOff });
    assert!(file.len().is_err());
    assert!(file.write_at(b"x", 0).is_err());
    assert!(disk.list("wal").is_err());
    assert!(disk.is_off());
    disk.heal();
    assert_eq!(file.len().unwrap(), 4);
}

#[test]
fn a_full_disk_refuses_growth_but_not_overwriting() {
    let (disk, file) = prepared();
    disk.set_capacity(Some(10));
    file.allocate(10).unwrap();
    file.write_at(b"0123456789", 0).unwrap();
    let full = |result: io::Result<()>| result.unwrap_err().kind() == io::ErrorKind::StorageFull;
    assert!(full(file.write_at(b"x", 10)));
    assert!(full(disk.create("wal/2").unwrap().allocate(1)));
    disk.remove("wal/1").unwrap();
    assert_eq!(disk.used(), 0);
    disk.open("wal/2").unwrap().allocate(10).unwrap();
}

#[test]
fn random_cuts_repeat_from_their_seed_and_differ_between_seeds() {
    let (disk, file) = prepared();
    file.write_at(&[7; 4_096], 0).unwrap();
    let cut = |seed| read(&disk.power_cut_with(Cut::Random(seed)), "wal/1");
    let ways: std::collections::BTreeSet<_> = (0..50).map(cut).collect();
    assert!(ways.len() > 10);
    assert_eq!(cut(3), cut(3));
}

#[test]
fn held_syncs_wait_until_released() {
    let (disk, file) = prepared();
    disk.hold_syncs("wal/");
    file.write_at(b"XXXX", 0).unwrap();
    let synced = std::thread::spawn(move || file.sync());
    disk.wait_for_held_sync();
    assert_eq!(read(&disk.power_cut(), "wal/1"), b"abcd");
    disk.release();
    synced.join().unwrap().unwrap();
    assert_eq!(read(&disk.power_cut(), "wal/1"), b"XXXX");
}

#[test]
fn a_fork_goes_its_own_way() {
    let (disk, file) = prepared();
    file.write_at(b"new", 0).unwrap();
    let fork = disk.fork();
    file.sync().unwrap();
    assert_eq!(read(&fork.power_cut(), "wal/1"), b"abcd");
    disk.flip("wal/1", 0, 0);
    assert_eq!(read(&disk, "wal/1"), b"oewd");
    assert_eq!(read(&fork, "wal/1"), b"newd");
}

#[test]
fn an_observer_sees_each_call_before_its_effect() {
    let (disk, file) = prepared();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    disk.observe(move |disk, traced| notes.lock().push((traced.call, read(disk, "wal/1"))));
    file.write_at(b"new!", 0).unwrap();
    file.sync().unwrap();
    disk.observe_no_more();
    file.len().unwrap();
    let expected = [(Call::Write, b"abcd".to_vec()), (Call::Sync, b"new!".to_vec())];
    assert_eq!(*seen.lock(), expected);
}
