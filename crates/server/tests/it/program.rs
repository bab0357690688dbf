//! The built program: settings, first screen, refusals, signals, verify.

use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use serde_json::json;
use tempfile::TempDir;

use crate::built::{Running, postrider, run, text, unchanged};
use crate::rig::call;

fn stderr(output: &Output) -> String {
    text(&output.stderr)
}

fn stdout(output: &Output) -> String {
    text(&output.stdout)
}

/// A server process.
pub(crate) struct Process {
    running: Running,
    pub(crate) address: SocketAddr,
}

impl Process {
    /// Starts it and returns once it says where it listens.
    fn start(folder: &Path, more: &[&str]) -> Self {
        Self::start_on("127.0.0.1:0", folder, more)
    }

    fn start_on(listen: &str, folder: &Path, more: &[&str]) -> Self {
        Self::spawn(postrider(&[]), listen, folder, more)
    }

    /// `command` runs the program and lacks its arguments.
    pub(crate) fn spawn(mut command: Command, listen: &str, folder: &Path, more: &[&str]) -> Self {
        command.args(["serve", "--listen", listen, "--data-dir"]);
        command.arg(folder.join("data")).args(more).stderr(Stdio::piped());
        unchanged(&mut command);
        let mut running = Running::start(command);
        let address = running.read_address();
        Self { running, address }
    }

    /// The most memory that it has used so far, in bytes.
    pub(crate) fn memory_max(&self) -> u64 {
        let path = format!("/proc/{}/status", self.running.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
        kilobytes * 1024
    }

    fn signal(&self, signal: Signal) {
        self.running.signal(signal);
    }

    /// Waits for the end; returns the exit code, the screen and the log.
    fn end(self) -> (Option<i32>, String, String) {
        let mut running = self.running;
        let mut screen = std::mem::take(&mut running.screen);
        running.stdout.take().unwrap().read_to_string(&mut screen).unwrap();
        let mut log = String::new();
        running.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (running.child.wait().unwrap().code(), screen, log)
    }
}

#[tokio::test]
async fn the_first_screen_says_where_and_what_and_a_signal_ends_it_well() {
    for signal in [Signal::TERM, Signal::INT] {
        let folder = TempDir::new().unwrap();
        let process = Process::start(folder.path(), &[]);
        let address = process.address;
        assert_eq!(call(address, "GET", "/healthz", "").await.code.as_u16(), 200);
        process.signal(signal);
        let (code, screen, log) = process.end();
        assert_eq!(code, Some(0), "{log}");
        let data = folder.path().join("data");
        assert!(screen.starts_with("Postrider 0."), "{screen}");
        assert!(screen.contains(&format!("\nListening   {address}\n")), "{screen}");
        assert!(screen.contains(&format!("\nData        {} (disk, fsync)\n", data.display())));
        assert!(screen.contains(&format!("export PUBSUB_EMULATOR_HOST={address}\n")), "{screen}");
        assert!(screen.contains("SIGTERM"), "{screen}");
        for line in log.lines() {
            let parsed: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(parsed["level"].is_string(), "{line}");
        }
    }
}

#[tokio::test]
async fn secrets_outlive_a_restart_and_are_never_logged() {
    const SECRET: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    let folder = TempDir::new().unwrap();
    let start = || {
        let mut command = postrider(&[]);
        command.env("POSTRIDER_LOG_LEVEL", "debug");
        Process::spawn(command, "127.0.0.1:0", folder.path(), &[])
    };
    let process = start();
    call(process.address, "PUT", "/v1/projects/p/topics/orders", "").await.ok();
    let subscription = "/v1/projects/p/subscriptions/billing";
    let body = json!({
        "topic": "projects/p/topics/orders",
        "pushConfig": {"pushEndpoint": "http://ann:hush@127.0.0.1:9/push"},
        "postrider": {"signing": {"secret": format!("whsec_{SECRET}")}},
    });
    call(process.address, "PUT", subscription, body.to_string()).await.ok();
    let rotate = format!("{subscription}:rotateSecret");
    let rotated = call(process.address, "POST", &rotate, "{}").await.ok();
    let made = rotated["secret"].as_str().unwrap().strip_prefix("whsec_").unwrap().to_owned();
    process.signal(Signal::KILL);
    let (_, _, first_log) = process.end();

    let process = start();
    let shown = call(process.address, "GET", subscription, "").await;
    let signing = &shown.ok()["postrider"]["signing"];
    assert_eq!(*signing, json!({"previousValidUntil": rotated["previousValidUntil"]}));
    let bad = json!({"secret": format!("whsec_{SECRET}!")}).to_string();
    call(process.address, "POST", &rotate, bad).await.refused(400, "INVALID_ARGUMENT");
    process.signal(Signal::TERM);
    let (_, screen, second_log) = process.end();
    assert!(!second_log.is_empty());
    for hidden in [SECRET, made.as_str(), "whsec_", "hush"] {
        for place in [&first_log, &screen, &second_log, &shown.text] {
            let is_endpoint = hidden == "hush" && std::ptr::eq(place, &shown.text);
            assert!(is_endpoint || !place.contains(hidden), "{hidden}: {place}");
        }
    }
}

#[tokio::test]
async fn what_was_answered_is_there_after_a_restart() {
    let folder = TempDir::new().unwrap();
    let process = Process::start(folder.path(), &[]);
    let topic = "/v1/projects/p/topics/orders";
    let body = json!({"messageRetentionDuration": "600s"}).to_string();
    call(process.address, "PUT", topic, body).await.ok();
    let body = json!({"messages": [{"data": "aGk="}]}).to_string();
    call(process.address, "POST", &format!("{topic}:publish"), body).await.ok();
    process.signal(Signal::KILL);
    process.end();
    let process = Process::start(folder.path(), &[]);
    let body = json!({"topic": "projects/p/topics/orders", "postrider": {"start": "earliest"}});
    let subscription = "/v1/projects/p/subscriptions/billing";
    call(process.address, "PUT", subscription, body.to_string()).await.ok();
    let body = json!({"maxMessages": 1}).to_string();
    let pulled = call(process.address, "POST", &format!("{subscription}:pull"), body).await.ok();
    assert_eq!(pulled["receivedMessages"][0]["message"]["data"], json!("aGk="));
    process.signal(Signal::TERM);
    let (code, screen, _) = process.end();
    assert_eq!(code, Some(0));
    assert!(screen.contains("\nRecovered   1 records"), "{screen}");
}

#[test]
fn a_second_process_on_the_folder_is_refused() {
    let folder = TempDir::new().unwrap();
    let process = Process::start(folder.path(), &[]);
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let second = run(&["serve", "--listen", "127.0.0.1:0", "--data-dir", data]);
    assert_eq!(second.status.code(), Some(1));
    assert!(stderr(&second).contains(data), "{}", stderr(&second));
    assert!(stderr(&second).contains("in use"), "{}", stderr(&second));
    assert!(second.stdout.is_empty(), "nothing is shown before it really serves");
    let verify = run(&["verify", "--data-dir", data]);
    assert_eq!(verify.status.code(), Some(1));
    assert!(stderr(&verify).contains("in use"), "{}", stderr(&verify));
    process.signal(Signal::TERM);
    assert_eq!(process.end().0, Some(0));
}

#[test]
fn a_port_in_use_is_refused_and_leaves_no_folder() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let refused = run(&["serve", "--listen", &address, "--data-dir", data.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains(&address), "{}", stderr(&refused));
    assert!(!data.exists());
}

#[test]
fn wrong_settings_are_refused_with_code_2_and_leave_no_folder() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let data_text = data.to_str().unwrap();
    for (text, name) in [
        ("[storage]\nprogres_flush = \"1s\"\n", "storage.progres_flush"),
        ("shutdown_grace = \"soon\"\n", "shutdown_grace"),
        ("this is not toml", "postrider.toml"),
        ("[[topics]]\nname = \"orders\"\n", "topics[0].name"),
    ] {
        let file = folder.path().join("postrider.toml");
        std::fs::write(&file, text).unwrap();
        let file = file.to_str().unwrap();
        let refused = run(&["serve", "--config", file, "--data-dir", data_text]);
        assert_eq!(refused.status.code(), Some(2), "{text}");
        assert!(stderr(&refused).contains(name), "{}", stderr(&refused));
    }
    let refused = run(&["serve", "--listen", "0.0.0.0:0", "--data-dir", data_text]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("--insecure"), "{}", stderr(&refused));
    let refused = run(&["serve", "--config", "/no/such/file.toml", "--data-dir", data_text]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(!data.exists());
}

#[test]
fn an_address_for_others_is_fine_when_meant() {
    let folder = TempDir::new().unwrap();
    let process = Process::start_on("0.0.0.0:0", folder.path(), &["--insecure"]);
    process.signal(Signal::TERM);
    let (code, screen, _) = process.end();
    assert_eq!(code, Some(0));
    assert!(screen.contains("PUBSUB_EMULATOR_HOST=127.0.0.1:"), "{screen}");
}

#[tokio::test]
async fn resources_of_the_settings_are_made_once() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("postrider.toml");
    let text = "[[topics]]\nname = \"projects/p/topics/orders\"\nlabels = { team = \"blue\" }\n\
                [[subscriptions]]\nname = \"projects/p/subscriptions/billing\"\n\
                topic = \"projects/p/topics/orders\"\nack_deadline = \"42s\"\n";
    std::fs::write(&file, text).unwrap();
    let file_text = file.to_str().unwrap();
    for _ in 0..2 {
        let process = Process::start(folder.path(), &["--config", file_text]);
        let topic = call(process.address, "GET", "/v1/projects/p/topics/orders", "").await.ok();
        assert_eq!(topic["labels"], json!({"team": "blue"}));
        let path = "/v1/projects/p/subscriptions/billing";
        let subscription = call(process.address, "GET", path, "").await.ok();
        assert_eq!(subscription["ackDeadlineSeconds"], json!(42));
        process.signal(Signal::TERM);
        let (code, screen, _) = process.end();
        assert_eq!(code, Some(0));
        assert!(screen.contains(&format!("\nSettings    {file_text}\n")), "{screen}");
    }
    let orphan = "[[subscriptions]]\nname = \"projects/p/subscriptions/orphan\"\n\
                  topic = \"projects/p/topics/missing\"\n";
    let unknown = "[[topics]]\nname = \"projects/p/topics/held\"\nschema_settings = \
                   { schema = \"projects/p/schemas/missing\", encoding = \"JSON\" }\n";
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    for (text, named) in [
        (orphan, "projects/p/topics/missing"),
        (unknown, "schema_settings.schema: schema projects/p/schemas/missing not found"),
    ] {
        std::fs::write(&file, text).unwrap();
        let refused =
            run(&["serve", "--listen=127.0.0.1:0", "--config", file_text, "--data-dir", data]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(stderr(&refused).contains(named), "{}", stderr(&refused));
    }
}

#[tokio::test]
async fn verify_says_whether_a_folder_is_sound() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let data_text = data.to_str().unwrap();
    let none = run(&["verify", "--data-dir", data_text]);
    assert_eq!(none.status.code(), Some(1));
    assert!(stderr(&none).contains("no store"), "{}", stderr(&none));

    let process = Process::start(folder.path(), &[]);
    let topic = "/v1/projects/p/topics/orders";
    call(process.address, "PUT", topic, "{}").await.ok();
    for _ in 0..3 {
        let body = json!({"messages": [{"data": "cG9zdHJpZGVy"}]}).to_string();
        call(process.address, "POST", &format!("{topic}:publish"), body).await.ok();
    }
    process.signal(Signal::KILL);
    process.end();
    let sound = run(&["verify", "--data-dir", data_text]);
    assert_eq!(sound.status.code(), Some(0), "{}{}", stdout(&sound), stderr(&sound));
    assert!(stdout(&sound).contains("no faults"), "{}", stdout(&sound));

    let log = std::fs::read_dir(data.join("wal")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&log).unwrap();
    let place = bytes.windows(9).position(|window| window == b"postrider").unwrap();
    bytes[place] ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    let broken = run(&["verify", "--data-dir", data_text]);
    assert_eq!(broken.status.code(), Some(1));
    assert!(stdout(&broken).contains(log.to_str().unwrap()), "{}", stdout(&broken));
    assert!(stderr(&broken).contains("fault"), "{}", stderr(&broken));
    let refused = run(&["serve", "--listen", "127.0.0.1:0", "--data-dir", data_text]);
    assert_eq!(refused.status.code(), Some(1), "a damaged store must not be served");
    assert_eq!(std::fs::read(&log).unwrap(), bytes, "nothing is cut or repaired");
}

#[tokio::test]
async fn a_subscription_is_described_for_people_and_programs() {
    let folder = TempDir::new().unwrap();
    let process = Process::start(folder.path(), &["--engine", "memory"]);
    call(process.address, "PUT", "/v1/projects/p/topics/orders", "{}").await.ok();
    let name = "projects/p/subscriptions/billing";
    let body = json!({"topic": "projects/p/topics/orders", "postrider": {"description": "who"}});
    call(process.address, "PUT", &format!("/v1/{name}"), body.to_string()).await.ok();
    let server = format!("http://{}", process.address);
    let told = run(&["subscription", "describe", name, "--server", &server]);
    assert_eq!(told.status.code(), Some(0), "{}", stderr(&told));
    for part in [name, "projects/p/topics/orders", "who", "Cursor"] {
        assert!(stdout(&told).contains(part), "{}", stdout(&told));
    }
    let told = run(&["subscription", "describe", name, "--server", &server, "--json"]);
    let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(told["subscription"]["name"], json!(name));
    assert!(told["cursor"]["offset"].is_u64());
    let missing =
        run(&["subscription", "describe", "projects/p/subscriptions/none", "--server", &server]);
    assert_eq!(missing.status.code(), Some(3));
    assert!(stderr(&missing).contains("not found"), "{}", stderr(&missing));
    let wrong = run(&["subscription", "describe", "billing", "--server", &server]);
    assert_eq!(wrong.status.code(), Some(2));
}

/// A write beyond `RLIMIT_FSIZE` fails on every file system, for every user. It also sends a
/// signal that would end the process, so the server is started with that signal ignored.
#[tokio::test]
async fn a_failed_log_ends_the_program_with_a_failure() {
    let folder = TempDir::new().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_postrider")]);
    command.env("POSTRIDER_SHUTDOWN_GRACE", "100ms");
    let process = Process::spawn(command, "127.0.0.1:0", folder.path(), &[]);
    let topic = "/v1/projects/p/topics/orders";
    call(process.address, "PUT", topic, "{}").await.ok();
    let body = json!({"messages": [{"data": "aGk="}]}).to_string();
    let path = format!("{topic}:publish");
    call(process.address, "POST", &path, body.clone()).await.ok();

    let none = Rlimit { current: Some(0), maximum: Some(0) };
    prlimit(Some(Pid::from_child(&process.running.child)), Resource::Fsize, none).unwrap();
    let answer = call(process.address, "POST", &path, body).await;
    answer.refused(503, "UNAVAILABLE");
    let (code, _, log) = process.end();
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("the log failed"), "{log}");

    // What was answered is there; what was not may be there or not.
    let process = Process::start(folder.path(), &[]);
    call(process.address, "GET", topic, "").await.ok();
}

#[test]
fn settings_can_be_looked_at() {
    let folder = TempDir::new().unwrap();
    let default = run(&["config", "show", "--default"]);
    assert_eq!(stdout(&default), include_str!("../../config.default.toml"));
    let file = folder.path().join("postrider.toml");
    std::fs::write(&file, "shutdown_grace = \"7s\"\n").unwrap();
    let shown = postrider(&["config", "show", "--config", file.to_str().unwrap()])
        .env("POSTRIDER_LOG_LEVEL", "warn")
        .env("POSTRIDER_LGO_LEVEL", "warn")
        .output()
        .unwrap();
    let text = stdout(&shown);
    assert!(text.contains("shutdown_grace = \"7s\"  # "), "{text}");
    assert!(text.contains("log.level = \"warn\"  # POSTRIDER_LOG_LEVEL"), "{text}");
    assert!(text.contains("did you mean POSTRIDER_LOG_LEVEL?"), "{text}");
}

#[test]
fn help_has_examples_and_exit_codes() {
    for arguments in [&["--help"][..], &["serve", "--help"], &["verify", "--help"]] {
        let help = run(arguments);
        assert_eq!(help.status.code(), Some(0));
        assert!(stdout(&help).contains("Example"), "{}", stdout(&help));
        assert!(stdout(&help).contains("Exit codes:"), "{}", stdout(&help));
    }
    assert_eq!(run(&["fly"]).status.code(), Some(2));
}
