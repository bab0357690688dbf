//! Runs the plan of a seed, and finds a short one that fails too.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::steps::{Plan, Step};
use crate::world::World;

/// Steps of one run.
pub(crate) const STEPS: usize = 400;

/// Most runs spent on making a failing one shorter.
const SHORTENING_RUNS_MAX: usize = 3_000;

/// Where and how a run failed.
#[derive(Clone, Default)]
pub(crate) struct Failure {
    pub(crate) place: String,
    pub(crate) said: String,
}

thread_local! {
    static FAILURE: RefCell<Failure> = RefCell::default();
    static STORY: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Runs the plan of `seed`; panics with a short list of steps that fail.
pub(crate) fn run_seed(seed: u64) {
    let plan = Plan::from_seed(seed, STEPS);
    let Err(failure) = run(&plan) else { return };
    let short = shortened(&plan, &failure.place);
    STORY.set(Some(Vec::new()));
    let again = run(&short).err().map(|failure| failure.said).unwrap_or_default();
    let story = STORY.take().unwrap_or_default();
    panic!(
        "TEST_SEED={seed} fails at {}: {}\n\
         run it alone with `cargo xtask sim --seed {seed}`\n\
         filter {}, indexed_max {}, remembered_max {}, read_max {}; these steps are enough:\n\
         {}\nwith: {again}",
        failure.place,
        failure.said,
        short.filter,
        short.indexed_max,
        short.remembered_max,
        short.read_max,
        story.join("\n"),
    );
}

/// Everything that happens when the plan of `seed` is run, line by line.
pub(crate) fn story_of(seed: u64) -> Vec<String> {
    STORY.set(Some(Vec::new()));
    let outcome = run(&Plan::from_seed(seed, STEPS));
    let mut story = STORY.take().unwrap_or_default();
    story.extend(outcome.err().map(|failure| format!("{}: {}", failure.place, failure.said)));
    story
}

/// Adds a line to the story of a run, if somebody wants to read it.
pub(crate) fn tell(line: impl FnOnce() -> String) {
    STORY.with_borrow_mut(|story| {
        if let Some(story) = story {
            story.push(line());
        }
    });
}

/// Runs a plan to its end and drains what is left; says what went wrong, if anything did.
pub(crate) fn run(plan: &Plan) -> Result<(), Failure> {
    listen();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(plan);
        plan.steps.iter().for_each(|step| world.step(step));
        world.drain();
    }));
    outcome.map_err(|_| FAILURE.with_borrow(Failure::clone))
}

/// Keeps what a panic says to itself instead of printing it, on threads that run plans.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let said = info.payload_as_str().unwrap_or("a panic without words").to_owned();
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            if place.contains("run.rs") {
                before(info);
            }
            FAILURE.set(Failure { place, said });
        }));
    });
}

/// Leaves out steps, and publishes less, as long as what is left fails at the same place.
fn shortened(plan: &Plan, place: &str) -> Plan {
    let mut short = plan.clone();
    let mut runs = 0;
    let mut keep_if_it_fails = |short: &mut Plan, steps: Vec<Step>| {
        runs += 1;
        let candidate = Plan { steps, ..short.clone() };
        let fails = runs <= SHORTENING_RUNS_MAX
            && run(&candidate).is_err_and(|failure| failure.place == place);
        if fails {
            *short = candidate;
        }
        fails
    };
    let mut chunk = short.steps.len() / 2;
    while chunk > 0 {
        let mut at = 0;
        let mut is_shorter = false;
        while at < short.steps.len() {
            let kept = without(&short.steps, at, chunk);
            if keep_if_it_fails(&mut short, kept) {
                is_shorter = true;
            } else {
                at += chunk;
            }
        }
        if !is_shorter || chunk > 1 {
            chunk /= 2;
        }
    }
    for at in 0..short.steps.len() {
        let mut steps = short.steps.clone();
        if let Step::Publish { count, .. } = &mut steps[at] {
            *count = 1;
            keep_if_it_fails(&mut short, steps);
        }
    }
    short
}

fn without(steps: &[Step], at: usize, chunk: usize) -> Vec<Step> {
    let behind = steps.iter().skip(at + chunk);
    steps.iter().take(at).chain(behind).cloned().collect()
}
