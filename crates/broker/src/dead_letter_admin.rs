//! What operators do with dead letters: list them, replay them, delete them. What they have handled
//! is recorded next to the topic, in `handled_letters`.

mod counter;
mod letters;
mod removal;
mod replay;
mod replays;
mod run;

use std::sync::Arc;

pub(crate) use self::counter::{Counter, letters_waiting};
pub use self::letters::{
    FoundLetter, LetterPage, LetterPlace, LetterQuery, LetterState, LettersWanted,
};
pub use self::replay::ReplayRequest;
use self::replays::Replays;
use crate::audit::Auditor;
use crate::catalogue::Catalogue;
use crate::courier::Courier;
use crate::registry::Registry;
use crate::runtime::NodeAccess;

/// Finds, replays and deletes dead letters.
pub(crate) struct DeadLetterAdmin {
    access: NodeAccess,
    auditor: Auditor,
    registry: Arc<Registry>,
    catalogue: Arc<Catalogue>,
    courier: Arc<Courier>,
    replays: Replays,
}

impl DeadLetterAdmin {
    pub(crate) fn new(
        access: NodeAccess,
        auditor: Auditor,
        registry: Arc<Registry>,
        catalogue: Arc<Catalogue>,
        courier: Arc<Courier>,
    ) -> Self {
        Self { access, auditor, registry, catalogue, courier, replays: Replays::default() }
    }
}
