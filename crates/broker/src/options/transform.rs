//! How message transforms are run.

use transforms::Program;

/// How message transforms are run.
#[derive(Clone, Debug)]
pub struct TransformOptions {
    /// The program that helper processes are.
    pub program: Program,
    /// How many helpers there are, and what waits for them.
    pub workers: transforms::Options,
}
