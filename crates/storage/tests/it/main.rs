//! The engines against their promises, and the disk engine against what disks do.
#![expect(clippy::expect_used, reason = "helpers of tests may fail like tests")]

mod attempts;
mod backups;
mod bed;
mod bounds;
mod database_copies;
mod disk;
mod failing_calls;
mod film;
mod flipped_bits;
mod flipped_database;
mod full_disk;
mod generations;
mod golden;
mod group_commit;
mod history;
mod memory;
mod moving;
mod owner;
mod power_cuts;
mod random_lives;
mod reading;
mod script;
mod shared_memory;
mod simulated;
mod unsynced;
