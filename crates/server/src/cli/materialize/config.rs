//! The file of `postrider materialize`. Unknown keys are refused with their place.

use std::path::{Path, PathBuf};

use consumer::router::Router;
use consumer::router::settings::{Dedupe, RouteSettings, duration};
use consumer::rules::Poison;
use consumer::{GOOGLE, Secret, Settings, firestore, pull, push};
use serde::Deserialize;

use crate::cli::Failure;

/// A file is read whole.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// Where a server is asked, unless the file says it.
const LOCAL: &str = "http://127.0.0.1:8085";
/// The word for Google's own server.
const GOOGLE_WORD: &str = "google";
/// The keys that Google signs tokens with.
const GOOGLE_KEYS: &str = "https://www.googleapis.com/oauth2/v3/certs";

/// What the file says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    source: Source,
    firestore: Firestore,
    #[serde(default)]
    consumer: Consumer,
    visibility: Option<Visibility>,
    observe: Option<Observe>,
    #[serde(default)]
    dedupe: Dedupe,
    #[serde(default)]
    route: Vec<RouteSettings>,
}

/// Where messages come from.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "way", rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Source {
    /// They are pulled from a subscription.
    Pull(PullSource),
    /// They come as HTTP requests.
    Push(PushSource),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PullSource {
    /// `http://host:port`, or `google`.
    #[serde(default = "local")]
    pub(super) server: String,
    /// The full name.
    pub(super) subscription: String,
    /// Messages on lease, at most.
    outstanding: Option<usize>,
    /// Messages handled at the same time, at most.
    handlers: Option<usize>,
    /// How long a lease lasts.
    ack_deadline: Option<String>,
}

fn local() -> String {
    LOCAL.to_owned()
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PushSource {
    /// The address to listen on.
    pub(super) listen: String,
    /// The path that messages are posted to.
    path: Option<String>,
    /// Whether the subscription has a dead letter policy: only then poison is answered 400.
    pub(super) dead_letter_policy: bool,
    /// The full name of the subscription, for messages that do not say theirs.
    pub(super) subscription: Option<String>,
    /// Whether requests are wrapped; none = either way, and wrapped where they must be signed.
    form: Option<FormWord>,
    /// Secrets, one of which requests must be signed with.
    #[serde(default)]
    secrets: Vec<String>,
    /// The token that requests must carry; none = it is not looked at.
    oidc: Option<OidcSource>,
    /// Requests at the same time, at most.
    requests: Option<usize>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FormWord {
    Wrapped,
    Unwrapped,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OidcSource {
    /// Whom tokens must be meant for.
    audience: String,
    /// The account they must be of; none = any.
    email: Option<String>,
    /// Where the keys are that sign tokens.
    #[serde(default = "google_keys")]
    keys: String,
}

fn google_keys() -> String {
    GOOGLE_KEYS.to_owned()
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Firestore {
    project: Option<String>,
    database: Option<String>,
    emulator: Option<String>,
    key_file: Option<PathBuf>,
    call_timeout: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Consumer {
    service: Option<String>,
    environment: Option<String>,
    poison: Option<PoisonWord>,
    audit: Option<PathBuf>,
    handle_timeout: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PoisonWord {
    Forward,
    Ack,
    Nack,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Visibility {
    collection: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Observe {
    listen: String,
}

/// The file, checked.
#[derive(Debug)]
pub(super) struct Config {
    pub(super) source: Source,
    pub(super) firestore: firestore::Options,
    pub(super) settings: Settings,
    /// The collection for records of deliveries.
    pub(super) visibility: Option<String>,
    /// Where metrics and health are shown.
    pub(super) observe: Option<String>,
    pub(super) router: Router,
}

/// Reads and checks a file; what is wrong names the file, and the place or the field.
pub(super) fn load(path: &Path) -> Result<Config, Failure> {
    let wrong = |problem: String| Failure::usage(format!("{}: {problem}", path.display()));
    let size = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(wrong(format!("{size} bytes, at most {FILE_BYTES_MAX} are read")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    parse(&text).map_err(wrong)
}

fn parse(text: &str) -> Result<Config, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    let router = Router::new(file.route, &file.dedupe).map_err(|error| error.to_string())?;
    Ok(Config {
        source: file.source,
        firestore: file.firestore.options()?,
        settings: file.consumer.settings()?,
        visibility: file.visibility.map(|visibility| visibility.collection),
        observe: file.observe.map(|observe| observe.listen),
        router,
    })
}

impl PullSource {
    /// The address of the server.
    pub(super) fn address(&self) -> &str {
        if self.is_google() { GOOGLE } else { &self.server }
    }

    pub(super) fn is_google(&self) -> bool {
        self.server == GOOGLE_WORD
    }

    pub(super) fn options(&self) -> Result<pull::Options, String> {
        let mut options = pull::Options::default();
        options.outstanding_messages_max =
            self.outstanding.unwrap_or(options.outstanding_messages_max);
        options.handlers_max = self.handlers.unwrap_or(options.handlers_max);
        if let Some(text) = &self.ack_deadline {
            options.ack_deadline = time("source.ack_deadline", text)?;
        }
        Ok(options)
    }
}

impl PushSource {
    pub(super) fn options(&self) -> Result<push::Options, String> {
        let mut options = push::Options::default();
        if let Some(path) = &self.path {
            options.path.clone_from(path);
        }
        options.oidc = self.oidc.clone().map(|oidc| push::Oidc {
            audience: oidc.audience,
            email: oidc.email,
            issuer: None,
            keys: push::Keys::Url(oidc.keys),
        });
        options.form = match self.form {
            Some(FormWord::Wrapped) => push::Form::Wrapped,
            Some(FormWord::Unwrapped) => push::Form::Unwrapped,
            None => options.form,
        };
        options.requests_max = self.requests.unwrap_or(options.requests_max);
        for (number, secret) in self.secrets.iter().enumerate() {
            let secret = Secret::parse(&format!("source.secrets[{number}]"), secret);
            options.secrets.push(secret.map_err(|error| error.to_string())?);
        }
        Ok(options)
    }
}

impl Firestore {
    fn options(self) -> Result<firestore::Options, String> {
        let timeout = self.call_timeout.as_deref();
        let timeout = timeout.map(|text| time("firestore.call_timeout", text)).transpose()?;
        Ok(firestore::Options {
            project: self.project,
            database: self.database,
            emulator: self.emulator,
            key_file: self.key_file,
            call_timeout: timeout,
        })
    }
}

impl Consumer {
    fn settings(self) -> Result<Settings, String> {
        let service = self.service.unwrap_or_else(|| "postrider-materialize".to_owned());
        let mut settings = Settings::new(service, env!("CARGO_PKG_VERSION"));
        if let Some(environment) = self.environment {
            settings.environment = environment;
        }
        if let Some(text) = &self.handle_timeout {
            settings.handle_timeout = time("consumer.handle_timeout", text)?;
        }
        settings.poison = match self.poison {
            None | Some(PoisonWord::Forward) => Poison::Forward,
            Some(PoisonWord::Ack) => Poison::Ack,
            Some(PoisonWord::Nack) => Poison::Nack,
        };
        settings.audit = self.audit;
        Ok(settings)
    }
}

fn time(field: &str, text: &str) -> Result<std::time::Duration, String> {
    duration(field, text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/materialize/routes.toml"
    ));

    #[test]
    fn the_shipped_example_is_sound() {
        let config = parse(EXAMPLE).unwrap();
        let names: Vec<_> = config.router.names().collect();
        assert_eq!(names, ["system_events", "ingest_heartbeats"]);
        let Source::Pull(pull) = &config.source else { panic!("{:?}", config.source) };
        assert_eq!(pull.address(), "http://127.0.0.1:8085");
    }

    #[test]
    fn what_the_example_leaves_out_can_be_set() {
        let text = EXAMPLE.replace("# [", "[").replace("# collection", "collection");
        let text = text.replace("# listen", "listen");
        let config = parse(&text).unwrap();
        assert_eq!(config.visibility.as_deref(), Some("ops_deliveries"));
        assert_eq!(config.observe.as_deref(), Some("127.0.0.1:9091"));
        let more = "[consumer]\npoison = \"nack\"\nhandle_timeout = \"5s\"\n[source]\nhandlers = 7";
        let config = parse(&text.replacen("[source]", more, 1)).unwrap();
        assert_eq!(config.settings.poison, Poison::Nack);
        assert_eq!(config.settings.handle_timeout.as_secs(), 5);
        let Source::Pull(pull) = &config.source else { panic!("{:?}", config.source) };
        assert_eq!(pull.options().unwrap().handlers_max, 7);
    }

    #[test]
    fn push_is_a_source_too() {
        let (before, rest) = EXAMPLE.split_once("way = \"pull\"").unwrap();
        let (_, after) = rest.split_once("[firestore]").unwrap();
        let source = "way = \"push\"\nlisten = \"127.0.0.1:0\"\ndead_letter_policy = true\n";
        let text = format!("{before}{source}[firestore]{after}");
        let Source::Push(source) = parse(&text).unwrap().source else { panic!() };
        assert_eq!(source.options().unwrap().path, "/pubsub/push");
        let oidc = "dead_letter_policy = true\noidc = { audience = \"https://me\" }\n";
        let checked = text.replace("dead_letter_policy = true\n", oidc);
        let Source::Push(source) = parse(&checked).unwrap().source else { panic!() };
        let oidc = source.options().unwrap().oidc.unwrap();
        assert_eq!(oidc.audience, "https://me");
        assert!(matches!(oidc.keys, push::Keys::Url(keys) if keys == GOOGLE_KEYS));
        let text = text.replace("dead_letter_policy = true\n", "");
        assert!(parse(&text).unwrap_err().contains("dead_letter_policy"));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (from, to, said) in [
            ("way = \"pull\"", "way = \"carry\"", "carry"),
            ("[firestore]", "[firestore]\ncolour = 1", "colour"),
            ("[firestore]", "[firestore]\ncall_timeout = \"soon\"", "firestore.call_timeout"),
            ("collection = \"ops_services\"", "collection = \"a/b\"", "route[0].collection"),
            ("kind = \"merge\"", "kind = \"append\"", "line "),
        ] {
            let error = parse(&EXAMPLE.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(said), "{to}: {error}");
        }
    }
}
