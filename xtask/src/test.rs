//! `cargo xtask test`: every test, from unit tests to the built program killed under load.

use std::fs;
use std::process::Command;
use std::thread;

use anyhow::{Result, anyhow, bail, ensure};

use crate::count::{Format, count};
use crate::process::{Said, cargo, command, exists, run_and_keep};
use crate::stages::{Count, Stages};
use crate::{examples, fuzz, place, process, setup};

/// Power cuts of the built program in the test command.
const POWER_CUTS: &str = "20";
/// Rounds of kill -9 in the test command, by program. Those under push load are among the Python
/// tests.
const KILL_ROUNDS: [(&str, &str); 2] = [("rounds.py", "100"), ("pull_rounds.py", "60")];
/// Python tests at a time, on any machine: they spend their time on deadlines and backoffs.
const PYTHON_WORKERS: &str = "4";
/// Every program of such rounds.
const KILL_PROGRAMS: [&str; 3] = ["rounds.py", "pull_rounds.py", "push_rounds.py"];

type Stage = (&'static str, fn() -> Result<Count>);

/// In this order. What later stages stand on comes first.
const STAGES: [Stage; 10] = [
    ("setup", || setup::run_all().map(|()| Count::ONE)),
    ("build", build),
    ("unit", unit),
    ("descriptors", descriptors),
    ("python", python),
    ("node", node),
    ("examples", examples::run_all),
    ("kill", || kill_rounds(&KILL_ROUNDS, None)),
    ("power", || power_cuts(POWER_CUTS)),
    ("bench", bench),
];

/// Stages without which the later ones make no sense.
const FOUNDATIONS: [&str; 2] = ["setup", "build"];

/// The command: all stages, or only those named.
pub(crate) fn run(only: &[String]) -> Result<()> {
    for name in only {
        ensure!(
            STAGES.iter().any(|(stage, _)| stage == name),
            "there is no stage {name:?}; see `cargo xtask help`"
        );
    }
    let mut stages = Stages::default();
    for (name, stage) in STAGES {
        if !only.is_empty() && !only.iter().any(|wanted| wanted == name) {
            continue;
        }
        if !stages.run(name, stage) && FOUNDATIONS.contains(&name) {
            break;
        }
    }
    stages.finish()
}

/// `cargo xtask soak`.
pub(crate) fn soak(minutes: &str) -> Result<()> {
    let mut stages = Stages::default();
    if stages.run("setup", || setup::run_all().map(|()| Count::ONE)) && stages.run("build", build) {
        stages.run("soak", || {
            let words = ["tests/e2e/soak/soak.py", "--minutes", minutes];
            counted(&mut python_command(&words), Format::Pytest)
        });
    }
    stages.finish()
}

/// `cargo xtask kill`.
pub(crate) fn kill(rounds: &str, seed: Option<&str>) -> Result<()> {
    let mut stages = Stages::default();
    if stages.run("setup", || setup::run_all().map(|()| Count::ONE)) && stages.run("build", build) {
        stages.run("kill", || kill_rounds(&KILL_PROGRAMS.map(|program| (program, rounds)), seed));
    }
    stages.finish()
}

/// `cargo xtask power`.
pub(crate) fn power(rounds: &str) -> Result<()> {
    let mut stages = Stages::default();
    if stages.run("setup", || setup::run_all().map(|()| Count::ONE)) && stages.run("build", build) {
        stages.run("power", || power_cuts(rounds));
    }
    stages.finish()
}

/// What `cargo xtask sim` is asked for; nothing at all means seeds and cases, `SIMULATED` each.
#[derive(Default)]
pub(crate) struct Simulation {
    /// How many seeds the model of delivery is run from.
    pub(crate) seeds: Option<String>,
    /// The one seed it is run from.
    pub(crate) seed: Option<String>,
    /// How many cases the property and fault tests try.
    pub(crate) cases: Option<String>,
    /// How many pairs of a filter and a message the index is compared with.
    pub(crate) pairs: Option<String>,
    /// For how long each fuzz target runs.
    pub(crate) fuzz_seconds: Option<String>,
}

/// Seeds and cases where none are asked for.
const SIMULATED: &str = "20000";
/// Seeds of the whole program, of each kind, where none are asked for.
const WHOLE_SEEDS: &str = "10000";
/// Pairs where none are asked for.
const PAIRS: &str = "10000000";
/// Seconds for each fuzz target where nothing is asked for.
const FUZZ_SECONDS: &str = "60";

/// `cargo xtask sim`. A seed that fails is printed, with the steps that fail and how to run it
/// alone.
pub(crate) fn simulate(mut asked: Simulation) -> Result<()> {
    let Simulation { seeds, seed, cases, pairs, fuzz_seconds } = &asked;
    if [seeds, seed, cases, pairs, fuzz_seconds].into_iter().all(Option::is_none) {
        asked.seeds = Some(SIMULATED.to_owned());
        asked.cases = Some(SIMULATED.to_owned());
        asked.pairs = Some(PAIRS.to_owned());
        asked.fuzz_seconds = Some(FUZZ_SECONDS.to_owned());
    }
    let mut stages = Stages::default();
    for (variable, value) in [("MODEL_SEEDS", asked.seeds), ("TEST_SEED", asked.seed)] {
        if let Some(value) = value {
            stages.run("model", || {
                let words = ["test", "-p", "postrider-domain", "--test", "model"];
                counted(cargo(&words).env(variable, value), Format::CargoTest)
            });
        }
    }
    if let Some(cases) = asked.cases {
        stages.run("properties", || {
            let words = ["test", "-p", "postrider-domain", "-p", "postrider-storage"];
            counted(cargo(&words).env("PROPTEST_CASES", cases), Format::CargoTest)
        });
    }
    if let Some(pairs) = asked.pairs {
        stages.run("matching", || {
            let words = ["test", "-p", "postrider-domain", "--test", "live", "index"];
            counted(cargo(&words).env("MATCHING_PAIRS", pairs), Format::CargoTest)
        });
    }
    if let Some(seconds) = asked.fuzz_seconds {
        stages.run("fuzz", || fuzz::run_all(&seconds, None));
    }
    stages.finish()
}

/// `cargo xtask sim --cluster`: the whole program, from many seeds or from one.
pub(crate) fn simulate_whole(seeds: Option<String>, seed: Option<String>) -> Result<()> {
    let (variable, value) = match seed {
        Some(seed) => ("TEST_SEED", seed),
        None => ("SIM_SEEDS", seeds.unwrap_or_else(|| WHOLE_SEEDS.to_owned())),
    };
    let mut stages = Stages::default();
    stages.run("simulation", || {
        let words = ["test", "-p", "postrider-simulation", "--test", "seeds", "--", "--nocapture"];
        counted(cargo(&words).env(variable, value), Format::CargoTest)
    });
    stages.finish()
}

/// `cargo xtask fuzz`.
pub(crate) fn fuzz(seconds: &str, target: Option<&str>) -> Result<()> {
    let mut stages = Stages::default();
    stages.run("fuzz", || fuzz::run_all(seconds, target));
    stages.finish()
}

/// Everything once, in the one profile that all stages use.
fn build() -> Result<Count> {
    process::run(&mut cargo(&["build", "--workspace", "--all-targets"]))?;
    Ok(Count::ONE)
}

fn unit() -> Result<Count> {
    if exists("cargo-nextest", &["nextest", "--version"]) {
        let words = ["nextest", "run", "--workspace", "--no-fail-fast", "--status-level", "fail"];
        // Twice as many at a time as the machine has processors: half of the time they wait.
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads = (2 * cores).to_string();
        return counted(cargo(&words).args(["--test-threads", &threads]), Format::Nextest);
    }
    let words = ["test", "--workspace", "--all-targets", "--no-fail-fast", "--quiet"];
    counted(&mut cargo(&words), Format::CargoTest)
}

fn descriptors() -> Result<Count> {
    let files = ["descriptors.bin", "rest.json"].map(|name| place::e2e().join(name));
    // As it was built with the rest: built alone, its dependencies would have other features.
    let example = place::built("examples").join("descriptor_set");
    process::run(Command::new(example).args(&files))?;
    process::run(python_command(&["tests/e2e/descriptors/compare.py"]).args(&files))?;
    Ok(Count::ONE)
}

fn python() -> Result<Count> {
    let temporary = place::e2e().join("pytest");
    // The longest first: nobody waits for it at the end.
    let folders = ["tests/e2e/soak", "tests/e2e/kill", "tests/e2e/python"];
    let mut pytest = python_command(&["-m", "pytest"]);
    pytest.args(folders);
    // The tests of a file share a server.
    pytest.args(["-n", PYTHON_WORKERS, "--dist", "loadfile", "--no-loadscope-reorder"]);
    pytest.args(["-c", "tests/e2e/python/pytest.ini", "--rootdir", "tests/e2e", "--basetemp"]);
    let count = counted(pytest.arg(&temporary), Format::Pytest)?;
    if count.failed == 0 {
        fs::remove_dir_all(&temporary)?;
    }
    Ok(count)
}

fn node() -> Result<Count> {
    let folder = place::root().join("tests/e2e/node");
    let mut files: Vec<_> = fs::read_dir(&folder)?
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .map(|file| file.path())
        .filter(|path| path.to_string_lossy().ends_with(".test.js"))
        .collect();
    files.sort();
    ensure!(!files.is_empty(), "no tests in {}", folder.display());
    let mut command = command("node", &["--test"]);
    command.args(files).env("NODE_PATH", setup::node_modules());
    counted(&mut for_e2e(command), Format::Node)
}

/// Runs the programs for as many rounds each, all at the same time, since they wait for the moments
/// of their kills more than they work; those that passed and failed in all.
fn kill_rounds(programs: &[(&str, &str)], seed: Option<&str>) -> Result<Count> {
    let run = |program: &str, rounds: &str| {
        let path = format!("tests/e2e/kill/{program}");
        let mut command = python_command(&[&path, "--rounds", rounds]);
        if let Some(seed) = seed {
            command.args(["--seed", seed]);
        }
        counted(&mut command, Format::Pytest)
    };
    let counts: Vec<Result<Count>> = thread::scope(|scope| {
        let start = |&(program, rounds)| scope.spawn(move || run(program, rounds));
        let running: Vec<_> = programs.iter().map(start).collect();
        let end = |running: thread::ScopedJoinHandle<'_, Result<Count>>| running.join();
        let broken = |_| Err(anyhow!("a thread of the kill rounds panicked"));
        running.into_iter().map(|running| end(running).unwrap_or_else(broken)).collect()
    });
    let mut total = Count::default();
    for count in counts {
        let count = count?;
        total.passed += count.passed;
        total.failed += count.failed;
    }
    Ok(total)
}

/// Only who may mount a file system can do this.
fn power_cuts(rounds: &str) -> Result<Count> {
    if !may_mount() {
        println!("skipped: this user may not mount a file system of his own");
        return Ok(Count::default());
    }
    let mut command = python_command(&["tests/e2e/kill/power.py", "--rounds", rounds]);
    counted(&mut command, Format::Pytest)
}

fn may_mount() -> bool {
    let is_root = process::read(Command::new("id").arg("-u")).is_ok_and(|user| user.trim() == "0");
    is_root && std::path::Path::new("/dev/fuse").exists()
}

fn bench() -> Result<Count> {
    let mut command = command(place::built("postrider-bench"), &["--quick", "--server"]);
    process::run(command.arg(place::built("postrider")))?;
    Ok(Count::ONE)
}

fn python_command(words: &[&str]) -> Command {
    for_e2e(command(setup::python(), words))
}

/// What every end-to-end test gets to know.
fn for_e2e(mut command: Command) -> Command {
    command
        .env("E2E_PROGRAM", place::built("postrider"))
        .env("E2E_FOLDER", place::e2e().join("run"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env_remove("PUBSUB_EMULATOR_HOST");
    command
}

fn counted(command: &mut Command, format: Format) -> Result<Count> {
    let said: Said = run_and_keep(command)?;
    let count = count(&said, format);
    if count == Count::default() && said.success && !matches!(format, Format::CargoTest) {
        bail!("no test was run");
    }
    Ok(count)
}
