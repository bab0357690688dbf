//! What is kept of a subscription.

use domain::{Progress, ProgressChange};

/// Any bytes as a progress, as a change of one, and as the index of a segment.
pub(super) fn progress(input: &[u8]) -> String {
    let mut said = String::new();
    match Progress::decode(input) {
        Ok(progress) => {
            let mut again = Vec::new();
            progress.encode(&mut again);
            assert_eq!(Progress::decode(&again).as_ref(), Ok(&progress), "written and read");
            assert!(!progress.is_acked(progress.cursor()), "the cursor is not acked");
            assert!(progress.next_unacked(progress.cursor()) == progress.cursor());
            said.push_str("a progress");
        }
        Err(malformed) => said.push_str(&malformed.to_string()),
    }
    match ProgressChange::decode(input) {
        Ok(change) => {
            let mut again = Vec::new();
            change.encode(&mut again);
            assert_eq!(ProgressChange::decode(&again), Ok(change), "written and read");
            said.push_str(", a change");
        }
        Err(malformed) => said.push_str(&malformed.to_string()),
    }
    said + &storage::disk::fuzzing::segment_index(input)
}
