//! The history of attempts: what was sent when, and what came of it.
