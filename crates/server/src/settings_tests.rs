//! The tables of settings: in the documentation, and everywhere else by one entry.

use std::path::Path;

use domain::setting::{Change, Document, Flag, Form, Label, Resource, Set, Setting, camel, read};
use domain::{Subscription, Timestamp, Topic, drift, subscription, topic};
use serde_json::{Map, Value, json};

use crate::cli::changes::Changes;
use crate::cli::client::At;
use crate::cli::settings::{Given, tell_all, with_flags};
use crate::config::resources;
use crate::rest::{show_ours, take_with};

/// The settings as a table of the documentation.
fn table<S: Resource>(settings: &[Setting<S>]) -> String {
    let mut text = "| Setting | Value | Default | Label | Configuration | Flag | Meaning |\n\
                    |---|---|---|---|---|---|---|\n"
        .to_owned();
    let code = |text: &str| match text {
        "" => String::new(),
        text => format!("`{text}`"),
    };
    for setting in settings {
        let flags = setting.flag.iter().chain(setting.parts.iter().filter_map(|p| p.flag.as_ref()));
        let flags: Vec<String> = flags.map(|flag| format!("`--{}`", flag.name)).collect();
        let parts = setting.parts.iter().filter(|part| !part.help.is_empty());
        let parts: Vec<String> =
            parts.map(|part| format!("`{}`: {}", camel(part.name), part.help)).collect();
        let fixed = if setting.is_fixed { ". Decided at creation" } else { "" };
        let meaning = match parts.is_empty() {
            true => format!("{}{fixed}", setting.help),
            false => format!("{}{fixed}. {}", setting.help, parts.join("; ")),
        };
        text.push_str(&format!(
            "| `{}` | {} | {} | {} | {} | {} | {} |\n",
            camel(setting.path),
            setting.form.described(),
            setting.default,
            code(setting.label.map_or("", |label| label.name)),
            code(setting.config),
            flags.join(", "),
            meaning.replace('|', "\\|"),
        ));
    }
    text
}

#[test]
fn the_documentation_lists_every_setting() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.md");
    let mut document = std::fs::read_to_string(&file).unwrap();
    for (kind, made) in
        [("topic", table(topic::SETTINGS)), ("subscription", table(subscription::SETTINGS))]
    {
        let begin = format!(
            "<!-- The table of {kind} settings is written by a test: \
             POSTRIDER_WRITE_DOCS=1 cargo test -p postrider settings -->\n"
        );
        let end = "<!-- The table ends here. -->\n";
        let (before, rest) = document.split_once(&begin).unwrap();
        let (listed, after) = rest.split_once(end).unwrap();
        if std::env::var_os("POSTRIDER_WRITE_DOCS").is_some() {
            document = format!("{before}{begin}{made}{end}{after}");
            std::fs::write(&file, &document).unwrap();
            continue;
        }
        assert!(
            listed == made,
            "docs/api.md does not list the settings of a {kind} there are; write it anew with \
             POSTRIDER_WRITE_DOCS=1 cargo test -p postrider settings"
        );
    }
}

#[test]
fn names_are_given_once() {
    given_once(topic::SETTINGS);
    given_once(subscription::SETTINGS);
}

fn given_once<S: Resource>(table: &'static [Setting<S>]) {
    let names = |name: fn(&Setting<S>) -> Vec<&'static str>| {
        let mut all: Vec<&str> = table.iter().flat_map(name).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "{all:?}");
    };
    names(|one| vec![one.path]);
    names(|one| one.label.map(|label| label.name).into_iter().collect());
    names(|one| Some(one.config).filter(|key| !key.is_empty()).into_iter().collect());
    names(|one| {
        let parts = one.parts.iter().filter_map(|part| part.flag);
        one.flag.into_iter().chain(parts).map(|flag| flag.name).collect()
    });
}

/// A resource that can keep a value where no setting has one.
trait Tried: Resource {
    fn turn(&mut self, is_on: bool);

    fn is_on(&self) -> bool;
}

impl Tried for Subscription {
    fn turn(&mut self, is_on: bool) {
        self.metadata.retain(|key, _| key != "trial");
        self.metadata.extend(is_on.then(|| ("trial".to_owned(), "on".to_owned())));
    }

    fn is_on(&self) -> bool {
        self.metadata.contains_key("trial")
    }
}

impl Tried for Topic {
    fn turn(&mut self, is_on: bool) {
        self.labels.retain(|key, _| key != "trial");
        self.labels.extend(is_on.then(|| ("trial".to_owned(), "on".to_owned())));
    }

    fn is_on(&self) -> bool {
        self.labels.contains_key("trial")
    }
}

/// The program's table with a setting that nothing but this entry knows.
fn with_trial<S: Tried>() -> &'static [Setting<S>] {
    let mut table: Vec<Setting<S>> = S::table().to_vec();
    table.push(Setting {
        path: "postrider.trial_run",
        form: Form::Switch,
        label: Some(Label::new("postrider-trial-run")),
        config: "trial_run",
        flag: Some(Flag::new("trial-run")),
        default: "false",
        title: "Trial run",
        help: "Nobody gets anything",
        set: Set::Alone(|one, field, value| {
            one.turn(read::switch(field, value)?.unwrap_or_default());
            Ok(())
        }),
        show: |one| one.is_on().into(),
        ..Setting::NONE
    });
    table.leak()
}

fn plain<S: Resource>() -> S {
    S::scratch().unwrap()
}

#[test]
fn a_setting_that_is_added_to_a_table_can_be_given_in_every_way() {
    can_be_given::<Topic>();
    can_be_given::<Subscription>();
}

fn can_be_given<S: Tried>() {
    let table = with_trial::<S>();
    let made = |document: &Document| Change::with(table).created(document)?.apply(&plain());
    // REST, in both cases of its name.
    for name in ["trialRun", "trial_run"] {
        let mut given = json!({"postrider": {name: true}});
        assert!(made(&take_with(table, "", &mut given).unwrap()).unwrap().is_on());
    }
    let mut wrong = json!({"postrider": {"trialRun": 5}});
    assert_eq!(take_with(table, "", &mut wrong).unwrap_err().field, "postrider.trialRun");
    // A label.
    let mut labelled = Document::default();
    labelled.put("labels", json!({"postrider-trial-run": "true"}));
    assert!(made(&labelled).unwrap().is_on());
    labelled.put("postrider.trial_run", json!(false));
    assert_eq!(made(&labelled).unwrap_err().field, r#"labels["postrider-trial-run"]"#);
    // The configuration file.
    let keys = Map::from_iter([("trial_run".to_owned(), json!(true))]);
    assert!(made(&resources::document(table, &keys).unwrap()).unwrap().is_on());
    // The command line.
    let command = with_flags(table, clap::Command::new("create"), true);
    assert!(command.clone().render_help().to_string().contains("Nobody gets anything"));
    let matches = command.try_get_matches_from(["create", "--trial-run"]).unwrap();
    let mut changes = Changes::new(Value::Null);
    let given = Given::read(table, &matches, true);
    given.apply(table, &At::default(), &mut changes, Timestamp(0)).unwrap_or_else(|_| panic!());
    assert_eq!(changes.body(), json!({"postrider": {"trialRun": true}}));
}

#[test]
fn a_setting_that_is_added_to_a_table_is_changed_shown_and_documented() {
    is_changed_shown_and_documented::<Topic>();
    is_changed_shown_and_documented::<Subscription>();
}

fn is_changed_shown_and_documented<S: Tried>() {
    let table = with_trial::<S>();
    let mut on = Document::default();
    on.put("postrider.trial_run", json!(true));
    // Update masks, by name and as part of our object.
    for path in ["postrider.trial_run", "postrider.trialRun", "postrider"] {
        let mut change = Change::with(table);
        change.name(&on, path).unwrap();
        let after = change.apply(&plain()).unwrap();
        assert!(after.is_on(), "{path}");
        let mut back = Change::with(table);
        back.name(&Document::default(), "postrider.trial_run").unwrap();
        assert!(!back.apply(&after).unwrap().is_on());
    }
    let after = Change::with(table).created(&on).unwrap().apply(&plain()).unwrap();
    // What is shown, over REST, to people, and as a difference from what is declared.
    let mut shown = Document::default();
    show_ours(table, &after, &mut shown);
    assert_eq!(shown.get("postrider.trial_run"), Some(&json!(true)));
    let mut told = String::new();
    tell_all(table, &Value::Object(shown.0), &mut told);
    assert!(told.contains("Trial run        true\n"), "{told}");
    let found = drift::by(table, &plain(), &after);
    assert!(found.iter().any(|one| one.to_string() == "trial_run is true, declared false"));
    // A label that is there follows.
    let mut labelled = after;
    labelled.labels_mut().insert("postrider-trial-run".to_owned(), "true".to_owned());
    let mut off = Change::with(table);
    off.name(&Document::default(), "postrider.trial_run").unwrap();
    assert_eq!(off.apply(&labelled).unwrap().labels()["postrider-trial-run"], "false");
    // The documentation.
    let line = "| `postrider.trialRun` | `true`, `false` | false | `postrider-trial-run` \
                | `trial_run` | `--trial-run` | Nobody gets anything |\n";
    assert!(self::table(table).contains(line), "{}", self::table(table));
}
