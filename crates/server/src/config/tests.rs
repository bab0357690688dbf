use std::io::Write;

use tempfile::NamedTempFile;
use toml::Value;

use super::*;

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn load_file(text: &str) -> Result<Loaded, Error> {
    let file = file(text);
    load(Sources { file: Some(file.path().to_owned()), ..Sources::default() })
}

fn load_environment(pairs: &[(&str, &str)]) -> Result<Loaded, Error> {
    let environment = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    load(Sources { file: Some(file("").path().to_owned()), environment, ..Sources::default() })
}

fn problem(text: &str) -> String {
    load_file(text).unwrap_err().to_string()
}

#[test]
fn the_built_in_file_is_complete_and_valid() {
    let config = load_file("").unwrap().config;
    assert_eq!(config.listen.to_string(), "127.0.0.1:8085");
    assert_eq!(config.data_dir, PathBuf::from("./postrider-data"));
    assert_eq!(config.engine, Engine::Disk);
    assert_eq!(config.shutdown_grace, Duration::from_secs(5));
    assert_eq!(config.storage.durability, Durability::Fsync);
    assert_eq!(config.storage.progress_flush, Duration::from_secs(5));
    assert_eq!(config.storage.wal_max, 1 << 30);
    assert_eq!(config.storage.tail_memory, 32 << 20);
    assert_eq!(config.dead_letter.retention, Duration::from_secs(14 * 86_400));
    assert_eq!(config.limits.connections_max, 1_000);
    assert_eq!(config.metrics.subscriptions_max, 500);
    assert_eq!((config.log.service.as_str(), config.log.env.as_str()), ("postrider", ""));
    assert_eq!(config.log.failures_per_second, 100);
    assert!(config.topics.is_empty() && config.subscriptions.is_empty());
}

#[test]
fn alerts_are_watched_for_unless_they_are_turned_off() {
    let options = |text: &str| load_file(text).unwrap().config.alerts.options();
    let usual = options("").unwrap();
    assert_eq!((usual.interval, usual.endpoint), (Duration::from_secs(15), None));
    assert!(options("[alerts]\nenabled = false\n").is_none());
    let pushed = options("[alerts]\nwebhook = \"https://example.com/bell\"\n").unwrap();
    assert_eq!(pushed.endpoint.unwrap().text(), "https://example.com/bell");
    for bad in ["webhook = \"bell\"", "interval = \"99ms\"", "interval = \"2h\""] {
        let key = bad.split(' ').next().unwrap();
        assert!(problem(&format!("[alerts]\n{bad}\n")).contains(&format!("alerts.{key}")), "{bad}");
    }
    let alerts = "alerts = { fifo_blocked = \"off\", oldest_unacked_age = { warning = \"1h\" } }";
    let subscription = "[[subscriptions]]\nname = \"projects/p/subscriptions/sub\"\n\
                        topic = \"projects/p/topics/orders\"\n";
    let config = load_file(&format!("{subscription}{alerts}\n")).unwrap().config;
    assert_eq!(config.subscriptions[0].alerts.adjusted().count(), 2);
    let bad = problem(&format!("{subscription}alerts = {{ colour = \"off\" }}\n"));
    assert!(bad.contains("alerts.colour"), "{bad}");
}

#[test]
fn the_examples_in_the_built_in_file_are_valid() {
    let start = DEFAULTS.find("# [[topics]]").unwrap();
    let examples: String = DEFAULTS[start..]
        .lines()
        .filter(|line| !line.contains("# instead of "))
        .map(|line| line.trim_start_matches("# ").to_owned() + "\n")
        .collect();
    let examples = examples.replace("\n#\n", "\n\n");
    let config = load_file(&examples).unwrap().config;
    assert_eq!(config.topics[0].name.id(), "orders");
    assert_eq!(config.topics[0].message_retention, Some(Duration::from_secs(86_400)));
    let subscription = &config.subscriptions[0];
    assert_eq!(subscription.name.id(), "billing");
    assert_eq!(subscription.metadata["owner"], "Ann");
    assert_eq!(subscription.expiration, Some(Duration::from_secs(31 * 86_400)));
}

#[test]
fn unknown_keys_are_refused_with_their_path_and_the_nearest_known_key() {
    let error = problem("[storage]\ndurabilty = \"os\"\n");
    assert!(error.contains("unknown key storage.durabilty"), "{error}");
    assert!(error.contains("did you mean storage.durability?"), "{error}");
    assert!(problem("colour = 1\n").ends_with("unknown key colour"));
    assert!(problem("[sotrage]\n").contains("unknown key sotrage"));
    assert!(problem("listen.port = 1\n").contains("unknown key listen.port"));
    let error = problem("[[topics]]\nname = \"projects/p/topics/abc\"\nlabel = {}\n");
    assert!(error.contains("unknown key topics[0].label (did you mean labels?)"), "{error}");
}

#[test]
fn a_known_section_may_be_empty() {
    assert!(load_file("[storage]\n[log]\n").is_ok());
}

#[test]
fn wrong_values_name_key_and_source() {
    for (text, key) in [
        ("listen = 8085\n", "listen"),
        ("listen = \"8085\"\n", "listen"),
        ("engine = \"tape\"\n", "engine"),
        ("shutdown_grace = \"5\"\n", "shutdown_grace"),
        ("shutdown_grace = 5\n", "shutdown_grace"),
        ("[storage]\nwal_max = \"1G\"\n", "storage.wal_max"),
        ("[storage]\nwal_segment = \"1KiB\"\n", "storage.wal_segment"),
        ("[storage]\nwal_segment = \"2GiB\"\n", "storage.wal_segment"),
        ("[storage]\nwal_max = \"65MiB\"\n", "storage.wal_max"),
        ("[storage]\nprogress_flush = \"0s\"\n", "storage.progress_flush"),
        ("[limits]\nconnections_max = 0\n", "limits.connections_max"),
        ("[limits]\nconnections_max = \"many\"\n", "limits.connections_max"),
        ("[limits]\nconnections_max = -1\n", "limits.connections_max"),
        ("[log]\nlevel = \"loud\"\n", "log.level"),
    ] {
        let error = problem(text);
        assert!(error.starts_with(&format!("{key} (from /")), "{text}: {error}");
    }
}

#[test]
fn bad_resources_name_entry_and_field() {
    let error = problem("[[topics]]\nname = \"orders\"\n");
    assert!(error.contains("topics[0].name"), "{error}");
    let text = "[[subscriptions]]\nname = \"projects/p/subscriptions/sub\"\n\
                topic = \"projects/p/topics/abc\"\nack_deadline = \"5s\"\n";
    let error = problem(text);
    assert!(error.contains("subscriptions[0].ack_deadline_seconds"), "{error}");
    let error = problem("[[subscriptions]]\nname = \"projects/p/subscriptions/sub\"\n");
    assert!(error.contains("topic"), "{error}");
}

#[test]
fn broken_toml_says_where() {
    let error = problem("listen = \n");
    assert!(error.contains("line 1"), "{error}");
    let missing = Sources { file: Some(PathBuf::from("/no/such/file")), ..Sources::default() };
    assert!(load(missing).unwrap_err().to_string().starts_with("cannot read /no/such/file"));
}

#[test]
fn the_environment_overrides_the_file_and_flags_override_both() {
    let file = file("shutdown_grace = \"1s\"\nengine = \"memory\"\n[log]\nlevel = \"warn\"\n");
    let loaded = load(Sources {
        file: Some(file.path().to_owned()),
        environment: vec![
            ("POSTRIDER_SHUTDOWN_GRACE".to_owned(), "2s".to_owned()),
            ("POSTRIDER_LIMITS_CONNECTIONS_MAX".to_owned(), "7".to_owned()),
            ("HOME".to_owned(), "/".to_owned()),
        ],
        flags: vec![("engine", Value::String("disk".to_owned()), "--engine")],
    })
    .unwrap();
    assert_eq!(loaded.config.shutdown_grace, Duration::from_secs(2));
    assert_eq!(loaded.config.limits.connections_max, 7);
    assert_eq!(loaded.config.engine, Engine::Disk);
    assert_eq!(loaded.config.log.level, Level::Warn);
    assert!(loaded.merged.warnings.is_empty());
    let shown = loaded.merged.show();
    assert!(shown.contains("shutdown_grace = \"2s\"  # POSTRIDER_SHUTDOWN_GRACE\n"), "{shown}");
    assert!(shown.contains("engine = \"disk\"  # --engine\n"), "{shown}");
    assert!(shown.contains("storage.durability = \"fsync\"\n"), "{shown}");
}

#[test]
fn a_file_must_be_right_even_where_a_flag_overrides_it() {
    let file = file("listen = 5\n");
    let flags = vec![("listen", Value::String("127.0.0.1:0".to_owned()), "--listen")];
    let sources = Sources { file: Some(file.path().to_owned()), flags, ..Sources::default() };
    assert!(load(sources).unwrap_err().to_string().starts_with("listen (from /"));
}

#[test]
fn unknown_variables_are_a_warning_and_wrong_ones_an_error() {
    let loaded = load_environment(&[("POSTRIDER_STORAGE_WAL_MX", "1GiB")]).unwrap();
    assert_eq!(loaded.merged.warnings.len(), 1);
    assert!(loaded.merged.warnings[0].contains("did you mean POSTRIDER_STORAGE_WAL_MAX?"));
    let error = load_environment(&[("POSTRIDER_INSECURE", "maybe")]).unwrap_err().to_string();
    assert!(error.starts_with("insecure (from POSTRIDER_INSECURE)"), "{error}");
    let error = load_environment(&[("POSTRIDER_LIMITS_CONNECTIONS_MAX", "x")]).unwrap_err();
    assert!(error.to_string().contains("limits.connections_max"), "{error}");
    for name in ["POSTRIDER_CONFIG", "POSTRIDER_SERVER", "POSTRIDER_PROJECT"] {
        assert!(load_environment(&[(name, "x")]).unwrap().merged.warnings.is_empty(), "{name}");
    }
}

#[test]
fn dead_letters_are_kept_between_ten_minutes_and_a_year() {
    for good in ["10m", "14d", "366d"] {
        assert!(load_file(&format!("[dead_letter]\nretention = \"{good}\"\n")).is_ok(), "{good}");
    }
    for bad in ["9m", "367d", "0s"] {
        let error = problem(&format!("[dead_letter]\nretention = \"{bad}\"\n"));
        assert!(error.contains("dead_letter.retention"), "{error}");
    }
}

#[test]
fn addresses_others_can_reach_need_insecure() {
    for reachable in ["0.0.0.0:8085", "192.168.0.1:8085", "[::]:8085"] {
        let error = problem(&format!("listen = \"{reachable}\"\n"));
        assert!(error.contains("--insecure"), "{error}");
        assert!(load_file(&format!("listen = \"{reachable}\"\ninsecure = true\n")).is_ok());
    }
    for loopback in ["127.0.0.1:0", "127.9.9.9:1", "[::1]:8085", "localhost:8085"] {
        assert!(load_file(&format!("listen = \"{loopback}\"\n")).is_ok(), "{loopback}");
    }
}

#[test]
fn what_lines_and_metrics_say_of_the_server_is_bounded() {
    let config = load_file("[log]\nservice = \"hub\"\nenv = \"prod\"").unwrap().config;
    assert_eq!((config.log.service.as_str(), config.log.env.as_str()), ("hub", "prod"));
    let long = format!("[log]\nenv = {:?}", "x".repeat(257));
    assert!(problem(&long).contains("log.env"));
    assert!(problem("[log]\nservice = \"a\\nb\"").contains("log.service"));
    assert!(problem("[metrics]\nsubscriptions_max = 10001").contains("metrics.subscriptions_max"));
}

/// The examples of the documentation, and the commented one of the manual, are files that load.
#[test]
fn what_the_documents_show_can_be_declared() {
    let document = include_str!("../../../../docs/operating/configure.md");
    let examples = document.split("```toml\n").skip(1);
    let examples = examples.filter_map(|rest| rest.split_once("```").map(|(text, _)| text));
    let declared = examples.filter(|text| text.contains("[[subscriptions]]"));
    let mut count = 0;
    for text in declared {
        load_file(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        count += 1;
    }
    assert!(count > 0, "there is no example");
    let (_, manual) = super::DEFAULTS.split_once("# [[subscriptions]]").unwrap();
    let listed = |key: &str| manual.lines().any(|line| line.starts_with(&format!("# {key} = ")));
    for key in domain::subscription::SETTINGS.iter().map(|setting| setting.config) {
        assert!(key.is_empty() || listed(key), "{key} is not in config.default.toml");
    }
}
