//! Tries many seeds, and tells of the first that fails as shortly as it can.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use parking_lot::Mutex;
use storage::planted::Planted;
use testkit::seed::VARIABLE;

use crate::checks::{Promise, Violation};
use crate::history::Entry;
use crate::scenario::{Kind, Scenario};
use crate::shrink::shrink;
use crate::world;

/// One seed in so many is run twice: both runs must be the same.
const TWICE_ONE_IN: u64 = 20;
/// The most entries of a history that are told.
const TOLD_MAX: usize = 400;

/// A seed that fails.
pub struct Finding {
    /// The seed.
    pub seed: u64,
    /// The promise that it breaks first.
    pub violation: Violation,
    /// The scenario, shortened.
    pub scenario: Scenario,
    /// What came of that.
    pub history: Vec<Entry>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, violation, scenario, history } = self;
        writeln!(f, "{violation}")?;
        writeln!(f, "replay: {VARIABLE}={seed} ({:?})", scenario.kind)?;
        let wanted = scenario.subscriptions.iter().filter(|one| !one.is_left_out);
        wanted.into_iter().try_for_each(|one| writeln!(f, "  {one:?}"))?;
        writeln!(f, "{} steps:", scenario.steps.len())?;
        scenario.steps.iter().try_for_each(|step| writeln!(f, "  {step:?}"))?;
        // It begins with what it is about, such as `sub-1:` or `topics/extra-3`.
        let subject = violation.what.split([':', ' ']).next().unwrap_or_default();
        let subject = subject.rsplit('/').next().unwrap_or_default();
        let of_it = scenario.subscriptions.iter().find(|one| &*one.id == subject);
        let topic = of_it.map_or(subject, |one| &*one.topic);
        let (ids, mut calls) = ([subject, topic, "undertaker"], BTreeSet::new());
        let told: Vec<_> =
            history.iter().filter(|entry| entry.event.is_about(&ids, &mut calls)).collect();
        writeln!(f, "what is known of {subject}, the last {TOLD_MAX} entries:")?;
        let from = told.len().saturating_sub(TOLD_MAX);
        told[from..].iter().try_for_each(|entry| writeln!(f, "  {entry}"))
    }
}

/// Tries all `seeds`, on as many threads as the machine has processors, and shortens the first that
/// fails.
pub fn explore(kind: Kind, seeds: Range<u64>, planted: Planted) -> Option<Finding> {
    let (seed, violation) = find(kind, seeds, planted)?;
    let scenario = Scenario::draw(kind, seed).with(planted);
    if violation.what.starts_with(DIFFERS) {
        return Some(Finding { seed, violation, scenario, history: Vec::new() });
    }
    let (scenario, violation) = shrink(&scenario, &violation, |shorter| run(shorter).violations);
    let history = run(&scenario).history;
    Some(Finding { seed, violation, scenario, history })
}

/// The first of `seeds` that fails, and how.
pub fn find(kind: Kind, seeds: Range<u64>, planted: Planted) -> Option<(u64, Violation)> {
    let (next, found) = (AtomicU64::new(seeds.start), Mutex::new(None::<(u64, Violation)>));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= seeds.end || found.lock().is_some() {
                        return;
                    }
                    if let Some(violation) = try_seed(kind, seed, planted) {
                        let mut found = found.lock();
                        if found.as_ref().is_none_or(|(other, _)| *other > seed) {
                            *found = Some((seed, violation));
                        }
                    }
                }
            });
        }
    });
    found.into_inner()
}

/// The first promise that a seed breaks.
fn try_seed(kind: Kind, seed: u64, planted: Planted) -> Option<Violation> {
    let scenario = Scenario::draw(kind, seed).with(planted);
    let outcome = run(&scenario);
    match outcome.violations.first() {
        Some(violation) => Some(violation.clone()),
        None if seed.is_multiple_of(TWICE_ONE_IN) => differs(&scenario, &outcome),
        None => None,
    }
}

const DIFFERS: &str = "two runs differ";

/// Runs it once more: nothing may be different.
fn differs(scenario: &Scenario, first: &world::Outcome) -> Option<Violation> {
    let again = run(scenario);
    let pairs = first.history.iter().zip(&again.history);
    let other = pairs.into_iter().find(|(one, other)| one != other);
    let what = match other {
        Some((one, other)) => format!("{DIFFERS}:\n{one}\n{other}"),
        None if first.trace != again.trace => format!("{DIFFERS} in what they do"),
        None => return None,
    };
    Some(Violation { promise: Promise::L1, what })
}

/// A panic anywhere is a finding too.
fn run(scenario: &Scenario) -> world::Outcome {
    let outcome = catch_unwind(AssertUnwindSafe(|| world::run(scenario)));
    outcome.unwrap_or_else(|panic| world::Outcome {
        history: Vec::new(),
        violations: vec![Violation { promise: Promise::L1, what: panicked(&*panic) }],
        trace: 0,
        polls: 0,
        time: std::time::Duration::ZERO,
    })
}

fn panicked(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?");
    format!("panicked: {text}")
}
