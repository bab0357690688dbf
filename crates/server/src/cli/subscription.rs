//! `postrider subscription`.

mod describe;
mod standard;

use clap::{Args, Subcommand};
use domain::subscription::SETTINGS;
use serde_json::{Value, json};

use standard::Scaffold;

use super::changes::Changes;
use super::client::{At, Client};
use super::create::{self, Created};
use super::names::Name;
use super::settings::{Given, Settings};
use super::table::{Table, fact, plain};
use super::topic::{all_of, delete_all, tell};
use super::{EXIT_CODES, Failure, attempts, lane, print, print_json};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider subscription create billing --topic orders --project demo
  postrider subscription create billing --topic orders --standard
  postrider subscription create billing --topic orders --if-not-exists
  postrider subscription create hooks --topic orders --endpoint http://localhost:9000/ --ordering
  postrider subscription create ledger --topic orders --fifo --max-attempts 10 --poison halt
  postrider subscription list --topic orders
  postrider subscription describe billing --json
  postrider subscription update billing --ack-deadline 60s --paused
  postrider subscription update hooks --endpoint none
  postrider subscription delete billing

--standard sets up what most people need: a dead letter topic NAME.dlq with a subscription of the
same name, 5 attempts, waits of 10 s to 600 s between them, and for pull an ack deadline of 60 s.
Other flags override it.";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Create a subscription.
    Create(Box<Create>),
    /// List the subscriptions of a project.
    #[command(visible_alias = "ls")]
    List(List),
    /// Show a subscription's settings and its saved cursor.
    #[command(visible_alias = "show")]
    Describe(Named),
    /// Change a subscription; anything not named stays the same.
    Update(Box<Update>),
    /// Delete subscriptions and their backlog.
    #[command(visible_alias = "rm")]
    Delete(Delete),
    /// Create a new signing secret; the previous one stays valid for a day.
    RotateSecret(Named),
    /// As postrider lane.
    #[command(after_help = format!("{}\n\n{EXIT_CODES}", lane::EXAMPLES))]
    Lanes(lane::Lanes),
    /// As postrider attempts.
    #[command(after_help = format!("{}\n\n{EXIT_CODES}", attempts::EXAMPLES))]
    Attempts(attempts::Arguments),
}

#[derive(Debug, Args)]
pub(super) struct Create {
    /// The subscription
    name: String,
    /// The topic whose messages it gets
    #[arg(long)]
    topic: String,
    /// Use the recommended setup: dead letters, 5 attempts, waits in between
    #[arg(long)]
    standard: bool,
    /// Succeed without changes if it already exists
    #[arg(long)]
    if_not_exists: bool,
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    settings: Settings<domain::Subscription, true>,
}

#[derive(Debug, Args)]
pub(super) struct List {
    /// Only those of this topic
    #[arg(long)]
    topic: Option<String>,
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Args)]
pub(super) struct Named {
    /// The subscription
    name: String,
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Args)]
pub(super) struct Update {
    /// The subscription
    name: String,
    /// A label to remove; can be repeated
    #[arg(long = "remove-label", value_name = "KEY")]
    removed: Vec<String>,
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    settings: Settings<domain::Subscription, false>,
}

#[derive(Debug, Args)]
pub(super) struct Delete {
    /// The subscriptions
    #[arg(required = true)]
    names: Vec<String>,
    #[command(flatten)]
    at: At,
}

pub(super) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Create(arguments) => make(arguments),
        Command::List(arguments) => list(arguments),
        Command::Describe(arguments) => describe::run(&arguments.name, &arguments.at),
        Command::Update(arguments) => update(arguments),
        Command::Delete(arguments) => delete_all(&arguments.at, &arguments.names, At::subscription),
        Command::RotateSecret(arguments) => rotate_secret(arguments),
        Command::Lanes(arguments) => lane::run_lanes(arguments),
        Command::Attempts(arguments) => attempts::run(arguments),
    }
}

fn make(arguments: &Create) -> Result<(), Failure> {
    let at = &arguments.at;
    let name = at.subscription(&arguments.name)?;
    let client = Client::new(at)?;
    let mut changes = Changes::new(Value::Null);
    changes.set("topic", at.topic(&arguments.topic)?.as_str().into());
    let given = &arguments.settings.given;
    let letters = match arguments.standard {
        true => standard::apply(&name, given, &mut changes),
        false => None,
    };
    given.apply(SETTINGS, at, &mut changes, client.wall())?;
    let may_exist = arguments.if_not_exists;
    let created = make_with(&client, &name, &changes.body(), letters.as_ref(), may_exist)?;
    let (answer, done) = created.told();
    tell_all(at, answer, done, &name)
}

/// Makes the subscription `name` on `topic` as `--standard` does.
pub(super) fn make_standard(client: &Client, name: &Name, topic: &Name) -> Result<(), Failure> {
    let mut changes = Changes::new(Value::Null);
    changes.set("topic", topic.as_str().into());
    let letters = standard::apply(name, &Given::default(), &mut changes);
    make_with(client, name, &changes.body(), letters.as_ref(), false).map(|_| ())
}

/// Makes a subscription and, before it, the dead letter topic it needs. Where the server says no,
/// everything is as before.
fn make_with(
    client: &Client,
    name: &Name,
    body: &Value,
    letters: Option<&Name>,
    may_exist: bool,
) -> Result<Created, Failure> {
    let scaffold = match letters {
        Some(topic) => Scaffold::raise(client, topic)?,
        None => Scaffold::default(),
    };
    let created = create::create(client, name, body, may_exist);
    match &created {
        Ok(Created::There(_)) => scaffold.take_down(client),
        Ok(Created::Made(_)) => scaffold.tell(),
        Err(problem) => scaffold.settle(client, problem),
    }
    created.map_err(|problem| create::failure(client, problem))
}

/// What was done, and what the answer says beside: a secret that is shown once.
fn tell_all(at: &At, answer: &Value, done: &str, name: &Name) -> Result<(), Failure> {
    tell(at, answer, done, name)?;
    match answer.pointer("/postrider/signing/secret") {
        Some(secret) if !at.json => {
            let mut text = String::new();
            fact(&mut text, "Signing secret", &format!("{} (shown only now)", plain(secret)));
            print(&text)
        }
        _ => Ok(()),
    }
}

fn update(arguments: &Update) -> Result<(), Failure> {
    let at = &arguments.at;
    let name = at.subscription(&arguments.name)?;
    let client = Client::new(at)?;
    let mut changes = Changes::new(client.get(&name.path())?);
    arguments.settings.given.apply(SETTINGS, at, &mut changes, client.wall())?;
    for key in &arguments.removed {
        changes.remove("labels", key);
    }
    if changes.is_empty() {
        return Err(Failure::usage("nothing to change: see postrider subscription update --help"));
    }
    let changed = client.patch(&name.path(), &changes.request("subscription"))?;
    tell_all(at, &changed, "changed", &name)
}

fn list(arguments: &List) -> Result<(), Failure> {
    let at = &arguments.at;
    let mut subscriptions = all_of(&Client::new(at)?, at, "subscriptions")?;
    if let Some(topic) = &arguments.topic {
        let topic = at.topic(topic)?;
        subscriptions.retain(|subscription| subscription["topic"] == topic.as_str());
    }
    if at.json {
        return print_json(&json!({ "subscriptions": subscriptions }));
    }
    print(&table(&subscriptions))
}

fn table(subscriptions: &[Value]) -> String {
    let mut table = Table::new(&["SUBSCRIPTION", "TOPIC", "ORDER", "DEAD LETTERS", "DELIVERY"]);
    for one in subscriptions {
        let delivery = match one.pointer("/pushConfig/pushEndpoint") {
            Some(endpoint) => format!("push {}", plain(endpoint)),
            None => "pull".to_owned(),
        };
        let paused = one.pointer("/postrider/paused") == Some(&json!(true));
        let delivery = if paused { format!("{delivery} (paused)") } else { delivery };
        table.line([
            plain(&one["name"]),
            plain(&one["topic"]),
            order(one),
            plain(&one["deadLetterPolicy"]["deadLetterTopic"]),
            delivery,
        ]);
    }
    table.text("no subscriptions")
}

fn order(subscription: &Value) -> String {
    if subscription.pointer("/postrider/fifo") == Some(&json!(true)) {
        return "fifo".to_owned();
    }
    match subscription.pointer("/postrider/laneBy") {
        Some(attribute) => format!("by {}", plain(attribute)),
        None if subscription["enableMessageOrdering"] == true => "by key".to_owned(),
        None => String::new(),
    }
}

fn rotate_secret(arguments: &Named) -> Result<(), Failure> {
    let name = arguments.at.subscription(&arguments.name)?;
    let client = Client::new(&arguments.at)?;
    let of = super::client::Ours::Of(&name);
    let path = format!("{}:rotateSecret", name.path());
    let answer = client.post_ours("signing secrets", of, &path, &json!({}))?;
    if arguments.at.json {
        return print_json(&answer);
    }
    let mut text = String::new();
    fact(&mut text, "Signing secret", &format!("{} (shown only now)", plain(&answer["secret"])));
    fact(&mut text, "Earlier until", &plain(&answer["previousValidUntil"]));
    print(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriptions_are_listed_with_their_order_and_delivery() {
        let subscriptions = [
            json!({
                "name": "s1", "topic": "t", "enableMessageOrdering": true,
                "pushConfig": {"pushEndpoint": "http://h/"}, "postrider": {"paused": true},
                "deadLetterPolicy": {"deadLetterTopic": "dead"},
            }),
            json!({"name": "s2", "topic": "t", "pushConfig": {}, "postrider": {"fifo": true}}),
            json!({"name": "s3", "topic": "t", "postrider": {"laneBy": "customer"}}),
        ];
        let text = table(&subscriptions);
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["s1", "t", "by", "key", "dead", "push", "http://h/", "(paused)"]);
        assert_eq!(lines[2], ["s2", "t", "fifo", "-", "pull"]);
        assert_eq!(lines[3], ["s3", "t", "by", "customer", "-", "pull"]);
        assert_eq!(table(&[]), "no subscriptions\n");
    }
}
