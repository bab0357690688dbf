//! The settings of a topic or a subscription as flags, alike for making and changing one, and as
//! they are told. The table of settings says which there are.

use std::marker::PhantomData;

use clap::builder::{PossibleValuesParser, ValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use domain::Timestamp;
use domain::setting::{Flag, Form, Resource, Setting, camel};
use serde_json::{Map, Value, json};

use super::Failure;
use super::changes::Changes;
use super::client::At;
use super::table::{fact, plain};
use super::transform::read_files;
use super::values::{duration, object, pair, seconds, span, time};

/// A flag of a setting, or of a part of one.
struct Flagged<S: Resource> {
    flag: Flag,
    form: Form,
    help: &'static str,
    setting: &'static Setting<S>,
    /// The part's name, if it is one.
    part: Option<&'static str>,
}

impl<S: Resource> Flagged<S> {
    /// All flags of `table`, in its order.
    fn all(table: &'static [Setting<S>]) -> impl Iterator<Item = Self> {
        table.iter().flat_map(|setting| {
            let whole = setting.flag.map(|flag| Self {
                flag,
                form: setting.form,
                help: setting.help,
                setting,
                part: None,
            });
            let parts = setting.parts.iter().filter_map(move |part| {
                let (form, help) = (part.form, part.help);
                Some(Self { flag: part.flag?, form, help, setting, part: Some(part.name) })
            });
            whole.into_iter().chain(parts)
        })
    }

    /// Where the request has it.
    fn path(&self) -> String {
        let setting = camel(self.setting.path);
        match self.part {
            Some(part) => format!("{setting}.{}", camel(part)),
            None => setting,
        }
    }

    /// Whether it is given without a value: it is on, or it is not given.
    fn is_bare(&self) -> bool {
        let is_decided_once = self.setting.is_fixed || self.part.is_some();
        match self.form {
            Form::Switch => is_decided_once,
            Form::Object => self.flag.value.is_empty(),
            _ => false,
        }
    }

    /// The flag, of a command that makes a resource or changes one.
    fn arg(&self, is_new: bool) -> Arg {
        let arg = Arg::new(self.flag.name).long(self.flag.name).help(self.help_text());
        let arg = match self.heading() {
            Some(heading) => arg.help_heading(heading),
            None => arg,
        };
        let arg = match self.flag {
            // What removes a setting needs nothing beside it.
            Flag { needs: "", .. } => arg,
            Flag { none, .. } if !is_new && !none.is_empty() => arg,
            Flag { needs, .. } => arg.requires(needs),
        };
        let arg = match self.flag.excludes {
            "" => arg,
            other => arg.conflicts_with(other),
        };
        if self.is_bare() {
            return arg.action(ArgAction::SetTrue);
        }
        let arg = arg.value_name(self.value_name()).value_parser(self.parser());
        match self.form {
            Form::Switch | Form::Object => arg.num_args(0..=1).default_missing_value("true"),
            Form::Pairs | Form::Functions => arg.action(ArgAction::Append),
            Form::Word(_) => arg.ignore_case(true),
            _ => arg,
        }
    }

    fn help_text(&self) -> String {
        let more = match (self.form, self.flag.none) {
            (Form::Pairs, _) => "; can be repeated".to_owned(),
            (Form::Functions, none) => format!("; can be repeated, {none} removes all"),
            (Form::Object, _) if !self.is_bare() => "; false turns it off".to_owned(),
            (_, "") => String::new(),
            (_, none) => format!("; {none} removes it"),
        };
        format!("{}{more}", self.help)
    }

    fn heading(&self) -> Option<&'static str> {
        match self.setting.path {
            _ if self.setting.is_ours() => Some("Only with Postrider"),
            path if path.starts_with("push_config.") => Some("Push"),
            _ => None,
        }
    }

    fn value_name(&self) -> &'static str {
        match (self.flag.value, self.form) {
            ("", Form::Switch) => "BOOL",
            ("", Form::Number) => "NUMBER",
            ("", Form::Seconds | Form::Time | Form::TimeOrNever) => "DURATION",
            ("", Form::Pairs) => "KEY=VALUE",
            ("", _) => "VALUE",
            (name, _) => name,
        }
    }

    fn parser(&self) -> ValueParser {
        match self.form {
            Form::Switch | Form::Object => value_parser!(bool),
            Form::Number => value_parser!(u32).into(),
            Form::Seconds | Form::Time if self.flag.none.is_empty() => ValueParser::new(duration),
            Form::Word(words) => PossibleValuesParser::new(words).into(),
            Form::Pairs => ValueParser::new(pair),
            _ => ValueParser::string(),
        }
    }

    /// The value that a flag's text stands for.
    fn value(&self, text: &str, at: &At, now: Timestamp) -> Result<Value, Failure> {
        let flag = format!("--{}", self.flag.name);
        let wrong = |problem: String| Failure::usage(format!("{flag}: {problem}"));
        Ok(match self.form {
            Form::Switch => (text == "true").into(),
            Form::Object => {
                if text == "true" {
                    json!({})
                } else {
                    Value::Null
                }
            }
            Form::Number => text.parse::<u32>().map_err(|error| wrong(error.to_string()))?.into(),
            Form::Seconds => duration(text).map_err(wrong)?.as_secs().into(),
            Form::Time => seconds(duration(text).map_err(wrong)?).into(),
            Form::TimeOrNever if text == "never" => json!({}),
            Form::TimeOrNever => json!({"ttl": seconds(duration(text).map_err(wrong)?)}),
            Form::Times => waits(text).map_err(wrong)?,
            Form::Topic => at.topic(text)?.as_str().into(),
            Form::Schema => at.schema(text)?.as_str().into(),
            Form::Word(words) => {
                let word = words.iter().find(|word| word.eq_ignore_ascii_case(text));
                (*word.unwrap_or(&text)).into()
            }
            Form::Start => start(text, now)?,
            _ => text.into(),
        })
    }
}

/// What was given of the settings, flag by flag.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given(Vec<(&'static str, Vec<String>)>);

impl Given {
    /// Whether a flag was given, and not just to put its setting back to the default.
    pub(super) fn has(&self, flag: &str) -> bool {
        self.text(flag).is_some_and(|text| flag == "dead-letter-topic" || text != "none")
    }

    /// What `matches` hold of the flags that `with_flags` added.
    pub(crate) fn read<S: Resource>(
        table: &'static [Setting<S>],
        matches: &ArgMatches,
        is_new: bool,
    ) -> Self {
        let mut given = Self::default();
        for flagged in Flagged::all(table).filter(|one| is_new || !one.setting.is_fixed) {
            let name = flagged.flag.name;
            if matches.value_source(name) != Some(ValueSource::CommandLine) {
                continue;
            }
            let texts = match flagged.is_bare() {
                true => vec!["true".to_owned()],
                false => {
                    let raw = matches.get_raw(name).into_iter().flatten();
                    raw.map(|text| text.to_string_lossy().into_owned()).collect()
                }
            };
            given.0.push((name, texts));
        }
        given
    }

    fn text(&self, flag: &str) -> Option<&str> {
        let (_, texts) = self.0.iter().find(|(name, _)| *name == flag)?;
        texts.last().map(String::as_str)
    }

    /// Puts down what was given of `table`.
    pub(crate) fn apply<S: Resource>(
        &self,
        table: &'static [Setting<S>],
        at: &At,
        changes: &mut Changes,
        now: Timestamp,
    ) -> Result<(), Failure> {
        for flagged in Flagged::all(table) {
            match self.0.iter().find(|(name, _)| *name == flagged.flag.name) {
                // It has two places, which depend on the others.
                Some(_) if flagged.flag.name == ATTEMPTS => {}
                Some((_, texts)) => apply(&flagged, texts, at, changes, now)?,
                None => {}
            }
        }
        self.apply_attempts(changes)
    }

    /// How often a message is tried is a field of Google's where there is a dead letter topic, and
    /// ours where there is none.
    fn apply_attempts(&self, changes: &mut Changes) -> Result<(), Failure> {
        let Some(text) = self.text(ATTEMPTS) else { return Ok(()) };
        let attempts: u32 =
            text.parse().map_err(|error| Failure::usage(format!("--{ATTEMPTS}: {error}")))?;
        let is_google =
            self.text("dead-letter-topic") != Some("none") && changes.has_dead_letters();
        if is_google {
            changes.set("deadLetterPolicy.maxDeliveryAttempts", attempts.into());
        }
        // Where both are set they must say the same.
        if !is_google || changes.is_now("/postrider/maxAttempts") {
            changes.set("postrider.maxAttempts", attempts.into());
        }
        Ok(())
    }
}

const ATTEMPTS: &str = "max-attempts";

fn apply<S: Resource>(
    flagged: &Flagged<S>,
    texts: &[String],
    at: &At,
    changes: &mut Changes,
    now: Timestamp,
) -> Result<(), Failure> {
    let path = flagged.path();
    let pairs = || texts.iter().filter_map(|text| pair(text).ok());
    let last = texts.last().map_or("", String::as_str);
    if !flagged.flag.none.is_empty() && last == flagged.flag.none {
        clear(flagged, changes);
    } else if flagged.form == Form::Pairs && flagged.setting.is_in_our_object() {
        changes.set(&path, object(&pairs().collect::<Vec<_>>()));
    } else if flagged.form == Form::Pairs {
        pairs().for_each(|(key, value)| changes.set(&format!("{path}.{key}"), value.into()));
    } else if flagged.form == Form::Functions {
        changes.set(&path, read_files(texts)?.into());
    } else {
        changes.set(&path, flagged.value(last, at, now)?);
    }
    Ok(())
}

/// Puts the setting back to its default. Without an endpoint nothing is left of a push config.
fn clear<S: Resource>(flagged: &Flagged<S>, changes: &mut Changes) {
    match flagged.setting.path {
        "push_config.push_endpoint" => changes.set("pushConfig", json!({})),
        path if flagged.setting.is_in_our_object() => changes.set(&camel(path), Value::Null),
        // Without its first part nothing is left of an object.
        path => match flagged.part.filter(|part| !is_first(flagged.setting, part)) {
            Some(part) => changes.remove(&camel(path), &camel(part)),
            None => changes.clear(&camel(path)),
        },
    }
}

fn is_first<S: Resource>(setting: &Setting<S>, part: &str) -> bool {
    setting.parts.first().is_some_and(|first| first.name == part)
}

/// `command` with the flags of `table`.
pub(crate) fn with_flags<S: Resource>(
    table: &'static [Setting<S>],
    command: Command,
    is_new: bool,
) -> Command {
    let flags = Flagged::all(table).filter(|one| is_new || !one.setting.is_fixed);
    flags.fold(command, |command, flagged| command.arg(flagged.arg(is_new)))
}

/// The flags of the settings of an `S`: all of them for one that `IS_NEW`, else those that can be
/// changed.
#[derive(Clone, Debug)]
pub(super) struct Settings<S, const IS_NEW: bool> {
    pub(super) given: Given,
    kind: PhantomData<S>,
}

impl<S: Resource, const IS_NEW: bool> Args for Settings<S, IS_NEW> {
    fn augment_args(command: Command) -> Command {
        with_flags(S::table(), command, IS_NEW)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<S: Resource, const IS_NEW: bool> FromArgMatches for Settings<S, IS_NEW> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self { given: Given::read(S::table(), matches, IS_NEW), kind: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Adds what an answer has of the settings of `table`, one fact each.
pub(crate) fn tell_all<S: Resource>(table: &[Setting<S>], answer: &Value, text: &mut String) {
    for setting in table {
        let place = format!("/{}", camel(setting.path).replace('.', "/"));
        tell(text, setting.title, answer.pointer(&place), setting.form, setting.unit);
        for part in setting.parts {
            let value = answer.pointer(&format!("{place}/{}", camel(part.name)));
            tell(text, part.title, value, part.form, part.unit);
        }
    }
}

/// Adds one setting, if it has a title and a value.
fn tell(text: &mut String, title: &str, value: Option<&Value>, form: Form, unit: &str) {
    let Some(value) = value.filter(|_| !title.is_empty()) else { return };
    // An object without fields is a setting that is on and has nothing more to say.
    let is_on = value.as_object().is_some_and(Map::is_empty);
    let shown = if is_on { "yes".to_owned() } else { plain(value) };
    let shown = match form {
        Form::Time => span(&shown),
        Form::Seconds => format!("{shown}s"),
        _ => format!("{shown}{unit}"),
    };
    fact(text, title, &shown);
}

/// `5s,5m,30m`.
fn waits(text: &str) -> Result<Value, String> {
    let waits: Result<Vec<String>, String> =
        text.split(',').map(|wait| duration(wait).map(|_| wait.trim().to_owned())).collect();
    waits.map(Value::from)
}

/// Where a subscription starts, in our words.
fn start(text: &str, now: Timestamp) -> Result<Value, Failure> {
    match text {
        "latest" | "earliest" => Ok(text.into()),
        _ => match text.parse::<u64>() {
            Ok(offset) => Ok(json!({ "offset": offset })),
            Err(_) => Ok(json!({"time": time("--start", text, now)?})),
        },
    }
}

#[cfg(test)]
mod tests {
    use domain::Subscription;
    use domain::subscription::SETTINGS;

    use super::*;
    use crate::cli::parsing::parse;

    fn applied(current: Value, words: &str) -> Result<Value, String> {
        let words = std::iter::once("x").chain(words.split_whitespace());
        let settings: Settings<Subscription, true> =
            parse(words).map_err(|error| error.to_string())?;
        let at = At { project: Some("p".to_owned()), ..At::default() };
        let mut changes = Changes::new(current);
        let given = settings.given.apply(SETTINGS, &at, &mut changes, Timestamp(0));
        given.map_err(|failure| failure.problem)?;
        Ok(changes.request("subscription"))
    }

    fn made(words: &str) -> Value {
        applied(Value::Null, words).unwrap()["subscription"].clone()
    }

    #[test]
    fn googles_settings_become_googles_fields_and_no_others() {
        let words = "--ack-deadline 60 --retention 1d --retain-acked --expires-after never \
                     --exactly-once --label a=b --min-backoff 500ms --max-backoff 10m \
                     --dead-letter-topic dead --max-attempts 7 --endpoint http://h/ \
                     --no-wrapper --write-metadata --oidc-account a@b --oidc-audience me";
        let expected = json!({
            "ackDeadlineSeconds": 60, "messageRetentionDuration": "86400s",
            "retainAckedMessages": true, "expirationPolicy": {}, "labels": {"a": "b"},
            "enableExactlyOnceDelivery": true,
            "retryPolicy": {"minimumBackoff": "0.500s", "maximumBackoff": "600s"},
            "deadLetterPolicy": {
                "deadLetterTopic": "projects/p/topics/dead", "maxDeliveryAttempts": 7,
            },
            "pushConfig": {
                "pushEndpoint": "http://h/", "noWrapper": {"writeMetadata": true},
                "oidcToken": {"serviceAccountEmail": "a@b", "audience": "me"},
            },
        });
        assert_eq!(made(words), expected);
        assert_eq!(made(""), json!({}));
    }

    #[test]
    fn settings_of_ours_are_in_our_object() {
        let words = "--fifo --poison halt --paused false --description d --metadata k=v \
                     --backoff 5s,5m --timeout 5 --header x-a=b --method PUT --sign --batch 9 \
                     --rate-limit 3 --max-attempts 2 --lane-by none";
        let expected = json!({
            "postrider": {
                "fifo": true, "poison": "halt", "paused": false, "description": "d",
                "metadata": {"k": "v"}, "backoff": ["5s", "5m"], "headers": {"x-a": "b"},
                "method": "PUT", "signing": {}, "batch": {"messages": 9}, "rateLimit": 3,
                "maxAttempts": 2, "laneBy": null,
            },
            "pushConfig": {"timeoutSeconds": 5},
        });
        assert_eq!(made(words), expected);
        let ended = made("--sign false --batch 0 --rate-limit 0 --backoff none");
        let nothing = json!({"signing": null, "batch": null, "rateLimit": null, "backoff": null});
        assert_eq!(ended["postrider"], nothing);
    }

    #[test]
    fn an_update_goes_over_what_is_there() {
        let current = json!({
            "deadLetterPolicy": {"deadLetterTopic": "t", "maxDeliveryAttempts": 5},
            "pushConfig": {"pushEndpoint": "http://h/", "timeoutSeconds": 5},
        });
        let changed = applied(current.clone(), "--max-attempts 9 --endpoint http://i/").unwrap();
        let expected = json!({
            "subscription": {
                "deadLetterPolicy": {"deadLetterTopic": "t", "maxDeliveryAttempts": 9},
                "pushConfig": {"pushEndpoint": "http://i/", "timeoutSeconds": 5},
            },
            "updateMask": "pushConfig,deadLetterPolicy",
        });
        assert_eq!(changed, expected);
        let mut both = current.clone();
        both["postrider"] = json!({"maxAttempts": 5});
        let changed = applied(both, "--max-attempts 9").unwrap();
        assert_eq!(changed["updateMask"], "deadLetterPolicy,postrider.maxAttempts");
        let ended = applied(current, "--dead-letter-topic none --endpoint none").unwrap();
        let expected = json!({
            "subscription": {"pushConfig": {}}, "updateMask": "deadLetterPolicy,pushConfig",
        });
        assert_eq!(ended, expected);
    }

    #[test]
    fn mistakes_name_their_flag() {
        for (words, flag) in [
            ("--expires-after soon", "--expires-after"),
            ("--backoff 5s,soon", "--backoff"),
            ("--poison sometimes", "--poison"),
            ("--ack-deadline soon", "--ack-deadline"),
            ("--write-metadata", "--no-wrapper"),
            ("--label x", "--label"),
        ] {
            let problem = applied(Value::Null, words).unwrap_err();
            assert!(problem.contains(flag), "{problem}");
        }
    }

    #[test]
    fn starts_are_words_offsets_and_times() {
        let now = Timestamp(3_600_000_000);
        let read = |text| start(text, now).ok();
        assert_eq!(read("earliest"), Some(json!("earliest")));
        assert_eq!(read("17"), Some(json!({"offset": 17})));
        assert_eq!(read("1h"), Some(json!({"time": "1970-01-01T00:00:00Z"})));
        assert_eq!(read("middle"), None);
    }
}
