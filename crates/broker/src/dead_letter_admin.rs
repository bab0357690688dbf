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
use crate::audit::Auditor;
use crate::catalogue::Catalogue;
use crate::changed::{Changed, ChangedList};
use crate::handled_letters::HandledLetters;
use crate::registry::Registry;
use crate::runtime::LogAccess;

/// Finds, replays and deletes dead letters.
pub(crate) struct DeadLetterAdmin {
    access: LogAccess,
    auditor: Auditor,
    registry: Arc<Registry>,
    catalogue: Arc<Catalogue>,
    progress: Arc<dyn ProgressStore>,
    changed: Arc<Changed>,
    /// Dead letter topics whose letters were handled since the last checkpoint.
    changed_letters: Arc<ChangedList<HandledLetters>>,
    replays: Replays,
}

impl DeadLetterAdmin {
    pub(crate) fn new(
        access: LogAccess,
        auditor: Auditor,
        registry: Arc<Registry>,
        catalogue: Arc<Catalogue>,
        progress: Arc<dyn ProgressStore>,
        changed: Arc<Changed>,
        changed_letters: Arc<ChangedList<HandledLetters>>,
    ) -> Self {
        let replays = Replays::default();
        Self { access, auditor, registry, catalogue, progress, changed, changed_letters, replays }
    }
}
