//! What operators do with dead letters: list them, replay them, delete them. What they have handled
//! is recorded next to the topic, in `handled_letters`.

mod counter;
mod letters;
mod removal;
mod replay;
mod replays;
mod run;

use std::sync::Arc;

use storage::ProgressStore;

pub(crate) use self::counter::{Counter, letters_waiting};
pub use self::letters::{
    FoundLetter, LetterPage, LetterPlace, LetterQuery, LetterState, LettersWanted,
};
pub use self::replay::ReplayRequest;
use self::replays::Replays;
use crate::catalogue::Catalogue;
use crate::registry::Registry;
use crate::runtime::Runtime;

/// Finds, replays and deletes dead letters.
pub(crate) struct DeadLetterAdmin {
    runtime: Arc<Runtime>,
    registry: Arc<Registry>,
    catalogue: Arc<Catalogue>,
    progress: Arc<dyn ProgressStore>,
    replays: Replays,
}

impl DeadLetterAdmin {
    pub(crate) fn new(
        runtime: Arc<Runtime>,
        registry: Arc<Registry>,
        catalogue: Arc<Catalogue>,
        progress: Arc<dyn ProgressStore>,
    ) -> Self {
        Self { runtime, registry, catalogue, progress, replays: Replays::default() }
    }
}
