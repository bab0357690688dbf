//! How message transforms are run.

use broker::TransformOptions;
use serde::Deserialize;
use transforms::{Options, Program};

use super::Checked;

/// The argument with which the program starts itself to run transforms.
pub const HELPER: &str = "transform-helper";

/// How message transforms are run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transforms {
    /// Whether they are.
    pub enabled: bool,
    /// Helper processes, at most; 0 = by the number of cores.
    pub processes_max: usize,
}

impl Transforms {
    pub(super) fn check(&self) -> Checked {
        if matches!(self.processes_max, 0 | 2..=64) {
            return Ok(());
        }
        let problem = format!("{} is not allowed: 0, or 2 to 64", self.processes_max);
        Err(("transforms.processes_max", problem))
    }

    /// What the broker is told.
    pub(crate) fn options(&self) -> Option<TransformOptions> {
        if !self.enabled {
            return None;
        }
        let program = Program::itself(HELPER).inspect_err(|error| {
            tracing::warn!(%error, "cannot find this program's file, so transforms are refused");
        });
        let mut workers = Options::default();
        if self.processes_max > 0 {
            workers.threads = self.processes_max;
        }
        program.ok().map(|program| TransformOptions { program, workers })
    }
}
