//! The table of settings: in the documentation, and everywhere else by one entry.

use std::path::Path;

use domain::setting::{Document, Flag, Form, Set, camel};
use domain::subscription::{Change, Entry, SETTINGS};
use domain::{Subscription, SubscriptionName, Timestamp, TopicName, drift};
use serde_json::{Map, Value, json};

use crate::cli::client::At;
use crate::cli::subscription::changes::Changes;
use crate::cli::subscription::settings::{Given, with_flags};
use crate::config::resources;
use crate::rest::{show_ours, take_with};

const BEGIN: &str = "<!-- The table is written by a test: \
                     POSTRIDER_WRITE_DOCS=1 cargo test -p postrider settings -->\n";
const END: &str = "<!-- The table ends here. -->\n";

/// The settings as a table of the documentation.
fn table(settings: &[Entry]) -> String {
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
            code(setting.label.unwrap_or_default()),
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
    let document = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = document.split_once(BEGIN).unwrap();
    let (listed, after) = rest.split_once(END).unwrap();
    let made = table(SETTINGS);
    if std::env::var_os("POSTRIDER_WRITE_DOCS").is_some() {
        std::fs::write(&file, format!("{before}{BEGIN}{made}{END}{after}")).unwrap();
        return;
    }
    assert!(
        listed == made,
        "docs/api.md does not list the settings there are; write it anew with \
         POSTRIDER_WRITE_DOCS=1 cargo test -p postrider settings"
    );
}

#[test]
fn names_are_given_once() {
    let names = |name: fn(&Entry) -> Vec<&'static str>| {
        let mut all: Vec<&str> = SETTINGS.iter().flat_map(name).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "{all:?}");
    };
    names(|one| vec![one.path]);
    names(|one| one.label.into_iter().collect());
    names(|one| Some(one.config).filter(|key| !key.is_empty()).into_iter().collect());
    names(|one| {
        let parts = one.parts.iter().filter_map(|part| part.flag);
        one.flag.into_iter().chain(parts).map(|flag| flag.name).collect()
    });
}

/// A setting that nothing but this entry knows. Its value is kept where no other setting is.
const TRIAL: Entry = Entry {
    path: "postrider.trial_run",
    form: Form::Switch,
    label: Some("postrider-trial-run"),
    config: "trial_run",
    flag: Some(Flag::new("trial-run")),
    default: "false",
    title: "Trial run",
    help: "Nobody gets anything",
    set: Set::Alone(|one, field, value| {
        let given = domain::setting::read::switch(field, value)?.unwrap_or_default();
        one.metadata.retain(|key, _| key != "trial");
        one.metadata.extend(given.then(|| ("trial".to_owned(), "on".to_owned())));
        Ok(())
    }),
    show: |one| one.metadata.contains_key("trial").into(),
    ..Entry::NONE
};

fn with_trial() -> &'static [Entry] {
    let mut table: Vec<Entry> = SETTINGS.to_vec();
    table.push(TRIAL);
    table.leak()
}

fn plain() -> Subscription {
    Subscription::new(
        SubscriptionName::parse("name", "projects/p/subscriptions/billing").unwrap(),
        TopicName::parse("topic", "projects/p/topics/orders").unwrap(),
    )
}

fn is_on(subscription: &Subscription) -> bool {
    subscription.metadata.contains_key("trial")
}

#[test]
fn a_setting_that_is_added_to_the_table_can_be_given_in_every_way() {
    let table = with_trial();
    let made = |document: &Document| Change::with(table).created(document)?.apply(&plain());
    // REST, in both cases of its name.
    for name in ["trialRun", "trial_run"] {
        let mut given = json!({"postrider": {name: true}});
        assert!(is_on(&made(&take_with(table, "", &mut given).unwrap()).unwrap()));
    }
    let mut wrong = json!({"postrider": {"trialRun": 5}});
    assert_eq!(take_with(table, "", &mut wrong).unwrap_err().field, "postrider.trialRun");
    // A label.
    let mut labelled = Document::default();
    labelled.put("labels", json!({"postrider-trial-run": "true"}));
    assert!(is_on(&made(&labelled).unwrap()));
    labelled.put("postrider.trial_run", json!(false));
    assert_eq!(made(&labelled).unwrap_err().field, r#"labels["postrider-trial-run"]"#);
    // The configuration file.
    let keys = Map::from_iter([("trial_run".to_owned(), json!(true))]);
    assert!(is_on(&made(&resources::document(table, &keys).unwrap()).unwrap()));
    // The command line.
    let command = with_flags(table, clap::Command::new("create"), true);
    assert!(command.clone().render_help().to_string().contains("Nobody gets anything"));
    let matches = command.try_get_matches_from(["create", "--trial-run"]).unwrap();
    let mut changes = Changes::new(Value::Null);
    let given = Given::read(table, &matches, true);
    given
        .apply_with(table, &At::default(), &mut changes, Timestamp(0))
        .unwrap_or_else(|_| panic!());
    assert_eq!(changes.body(), json!({"postrider": {"trialRun": true}}));
}

#[test]
fn a_setting_that_is_added_to_the_table_is_changed_shown_and_documented() {
    let table = with_trial();
    let mut on = Document::default();
    on.put("postrider.trial_run", json!(true));
    // Update masks, by name and as part of our object.
    for path in ["postrider.trial_run", "postrider.trialRun", "postrider"] {
        let mut change = Change::with(table);
        change.name(&on, path).unwrap();
        let after = change.apply(&plain()).unwrap();
        assert!(is_on(&after), "{path}");
        let mut back = Change::with(table);
        back.name(&Document::default(), "postrider.trial_run").unwrap();
        assert!(!is_on(&back.apply(&after).unwrap()));
    }
    let after = Change::with(table).created(&on).unwrap().apply(&plain()).unwrap();
    // What is shown, over REST and as a difference from what is declared.
    let mut shown = Document::default();
    show_ours(table, &after, None, Timestamp(0), &mut shown);
    assert_eq!(shown.get("postrider.trial_run"), Some(&json!(true)));
    let found = drift::of_subscription_by(table, &plain(), &after);
    assert!(found.iter().any(|one| one.to_string() == "trial_run is true, declared false"));
    // A label that is there follows.
    let labels = [("postrider-trial-run".to_owned(), "true".to_owned())].into();
    let labelled = Subscription { labels, ..after };
    let mut off = Change::with(table);
    off.name(&Document::default(), "postrider.trial_run").unwrap();
    assert_eq!(off.apply(&labelled).unwrap().labels["postrider-trial-run"], "false");
    // The documentation.
    let line = "| `postrider.trialRun` | `true`, `false` | false | `postrider-trial-run` \
                | `trial_run` | `--trial-run` | Nobody gets anything |\n";
    assert!(self::table(table).contains(line), "{}", self::table(table));
}
