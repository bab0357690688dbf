//! Shortens a scenario that fails, as long as it fails in the same way.

use crate::checks::{Promise, Violation};
use crate::scenario::Scenario;

/// The most runs that shrinking may take.
const RUNS_MAX: usize = 300;

/// The shortest scenario found that still breaks the same promise, with how it breaks it.
pub fn shrink(
    scenario: &Scenario,
    violation: &Violation,
    mut violations: impl FnMut(&Scenario) -> Vec<Violation>,
) -> (Scenario, Violation) {
    let mut best = (scenario.clone(), violation.clone());
    let mut runs = 0;
    let promise = violation.promise;
    let mut size = scenario.steps.len().div_ceil(2).max(1);
    while runs < RUNS_MAX {
        let mut at = 0;
        let mut has_shrunk = false;
        while at < best.0.steps.len() && runs < RUNS_MAX {
            runs += 1;
            let mut shorter = best.0.clone();
            let end = (at + size).min(shorter.steps.len());
            shorter.steps.drain(at..end);
            match same(violations(&shorter), promise) {
                Some(violation) => {
                    best = (shorter, violation);
                    has_shrunk = true;
                }
                None => at += size,
            }
        }
        if size == 1 && !has_shrunk {
            break;
        }
        size = (size / 2).max(1);
    }
    drop_subscriptions(&mut best, promise, &mut violations);
    best
}

/// Subscriptions that have nothing to do with it.
fn drop_subscriptions(
    best: &mut (Scenario, Violation),
    promise: Promise,
    violations: &mut impl FnMut(&Scenario) -> Vec<Violation>,
) {
    for at in (0..best.0.subscriptions.len().saturating_sub(1)).rev() {
        let mut shorter = best.0.clone();
        // The others keep their places, which steps name.
        shorter.subscriptions[at].consumers.clear();
        shorter.subscriptions[at].is_left_out = true;
        if let Some(violation) = same(violations(&shorter), promise) {
            *best = (shorter, violation);
        }
    }
}

fn same(violations: Vec<Violation>, promise: Promise) -> Option<Violation> {
    violations.into_iter().find(|violation| violation.promise == promise)
}
