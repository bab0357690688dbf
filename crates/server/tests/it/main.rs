//! The whole server over real sockets, on each engine.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that meets the unexpected shall fail and say where"
)]

mod attempts;
mod backups;
mod browsers;
#[path = "../built/mod.rs"]
mod built;
mod ending_streams;
mod exactly_once;
mod hostile;
mod lanes;
mod letters;
mod live;
mod live_grpc;
mod live_interest;
mod live_rig;
mod live_streams;
mod masks;
mod memory;
mod messages;
mod metrics;
mod missing;
mod network_faults;
mod packed;
mod program;
mod proxy;
mod push_settings;
mod rest;
mod rest_bad_input;
mod rig;
mod schemas;
mod seeking;
mod settings;
mod simulated;
mod stalled_streams;
mod stopping;
mod streams;
mod topics;
mod unread;
