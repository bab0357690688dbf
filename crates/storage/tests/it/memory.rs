//! The memory engine runs the conformance suite.

use storage::conformance;

#[tokio::test]
async fn memory_keeps_every_live_promise() {
    let broken = conformance::run_live(async || storage::memory::open()).await;
    assert!(broken.is_empty(), "{broken:#?}");
}
