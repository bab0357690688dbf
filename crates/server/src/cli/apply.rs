//! `postrider apply`.

use std::collections::BTreeSet;
use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;

use clap::Args;
use domain::Invalid;
use domain::setting::{Document, Resource, Setting, camel};
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::client::{At, Client, Problem, query};
use super::names::path;
use super::setup::{Schema, Setup, Wanted, all_in, subscription_from, topic_from};
use super::table::plain;
use super::{Failure, ask, print, print_json, warn};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider apply -f setup.toml --dry-run       show what would change
  postrider apply -f setup.toml                 show it, ask, and do it
  postrider apply -f setup.toml --yes --prune   also delete what the file does not name
  postrider export --project demo > setup.toml  a file to start from

A setup file has [[schemas]], [[topics]] and [[subscriptions]] with the keys of the server's
configuration file. A setting it does not give is put to its default. Lines begin with + for what is
created, ~ for what is changed, - for what is deleted.";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The setup file
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// Do it without asking
    #[arg(long, short)]
    yes: bool,
    /// Delete schemas, topics and subscriptions the file does not name, in the projects it names
    #[arg(long)]
    prune: bool,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    at: At,
}

/// One thing to do.
#[derive(Debug)]
struct Step {
    sign: char,
    kind: &'static str,
    name: String,
    /// Which fields change, and how.
    fields: Vec<String>,
    call: Call,
}

/// The call that does it.
#[derive(Debug)]
struct Call {
    verb: Method,
    path: String,
    body: Option<Value>,
}

impl Step {
    fn told(&self) -> String {
        let mut text = format!("{} {} {}\n", self.sign, self.kind, self.name);
        for field in &self.fields {
            text.push_str(&format!("    {field}\n"));
        }
        text
    }

    fn shown(&self) -> Value {
        let action = match self.sign {
            '+' => "create",
            '~' => "change",
            _ => "delete",
        };
        json!({"action": action, "kind": self.kind, "name": self.name, "fields": self.fields})
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let at = &arguments.at;
    let setup = Setup::read(&arguments.file, at)?;
    let client = Client::new(at)?;
    let mut steps = plan(&client, &setup)?;
    if arguments.prune {
        steps.extend(prune(&client, &setup, at)?);
    }
    if !at.json {
        let text: String = steps.iter().map(Step::told).collect();
        print(if text.is_empty() { "nothing to do\n" } else { &text })?;
    }
    let is_done = !arguments.dry_run && !steps.is_empty();
    if is_done {
        if !arguments.yes {
            confirm(steps.len())?;
        }
        for step in &steps {
            take(&client, step)?;
        }
    }
    if at.json {
        let steps: Vec<Value> = steps.iter().map(Step::shown).collect();
        return print_json(&json!({"steps": steps, "applied": is_done}));
    }
    if is_done { print(&format!("done: {} steps\n", steps.len())) } else { Ok(()) }
}

fn confirm(count: usize) -> Result<(), Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage("nothing was changed: give --yes to do it without being asked"));
    }
    ask(&format!("Do these {count} steps? [y/N] "));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::failed(format!("cannot read the answer: {error}")))?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::failed("not confirmed; nothing was changed")),
    }
}

fn take(client: &Client, step: &Step) -> Result<(), Failure> {
    let Call { verb, path, body } = &step.call;
    let answer = client.call(verb.clone(), path, body.as_ref()).map_err(|problem| {
        let failure = client.failure(problem);
        let problem = format!("{} {}: {}", step.kind, step.name, failure.problem);
        Failure { problem, ..failure }
    })?;
    for warning in answer["warnings"].as_array().into_iter().flatten() {
        warn(&format!("{}: {}", step.name, plain(warning)));
    }
    Ok(())
}

/// What creates and changes what is named: schemas, then the topics that need them, then the
/// subscriptions that need those.
fn plan(client: &Client, setup: &Setup) -> Result<Vec<Step>, Failure> {
    let mut steps = Vec::new();
    for schema in &setup.schemas {
        let there = found(client, &schema.name)?;
        steps.extend(plan_schema(schema, there.as_ref()));
    }
    for topic in &setup.topics {
        steps.extend(plan_one("topic", topic, found(client, &topic.name)?.as_ref(), topic_from)?);
    }
    for one in &setup.subscriptions {
        let there = found(client, &one.name)?;
        let topic = there.as_ref().map(|there| plain(&there["topic"]));
        if let Some(topic) = topic.filter(|topic| *topic != one.topic) {
            return Err(Failure::failed(format!(
                "{}: topic is {topic}, wanted {}; it cannot be changed after creation: delete the \
                 subscription first",
                one.name, one.topic
            )));
        }
        steps.extend(plan_one("subscription", one, there.as_ref(), subscription_from)?);
    }
    Ok(steps)
}

/// What there is under this name.
fn found(client: &Client, name: &str) -> Result<Option<Value>, Failure> {
    match client.call(Method::GET, &path(name), None) {
        Ok(there) => Ok(Some(there)),
        Err(Problem::Refused { code: StatusCode::NOT_FOUND, message: Some(_) }) => Ok(None),
        Err(problem) => Err(client.failure(problem)),
    }
}

fn plan_schema(schema: &Schema, there: Option<&Value>) -> Option<Step> {
    let body = json!({"type": schema.kind, "definition": schema.definition});
    let (sign, fields, path, body) = match there {
        None => {
            let (collection, id) = schema.name.rsplit_once('/').unwrap_or_default();
            let query = query(&[("schemaId", id)]);
            ('+', Vec::new(), format!("{}{query}", path(collection)), body)
        }
        Some(there) if plain(&there["definition"]) == schema.definition => return None,
        Some(_) => {
            let fields = vec!["definition: a new revision".to_owned()];
            ('~', fields, format!("{}:commit", path(&schema.name)), json!({ "schema": body }))
        }
    };
    let call = Call { verb: Method::POST, path, body: Some(body) };
    Some(Step { sign, kind: "schema", name: schema.name.clone(), fields, call })
}

fn plan_one<S: Resource>(
    kind: &'static str,
    wanted: &Wanted<S>,
    there: Option<&Value>,
    read: fn(&Value) -> Result<S, Invalid>,
) -> Result<Option<Step>, Failure> {
    let name = wanted.name.clone();
    let path = path(&name);
    let Some(there) = there else {
        let mut body = wanted.document.clone();
        if !wanted.topic.is_empty() {
            body.put("topic", wanted.topic.as_str().into());
        }
        let body = Some(Value::Object(body.0));
        let call = Call { verb: Method::PUT, path, body };
        return Ok(Some(Step { sign: '+', kind, name, fields: Vec::new(), call }));
    };
    let is = read(there).map_err(|invalid| Failure::failed(format!("{name}: {invalid}")))?;
    let differing = differences(wanted, &is)?;
    if differing.is_empty() {
        return Ok(None);
    }
    let fields = differing.iter().map(|setting| change_told(setting, &is, &wanted.settings));
    let fields = fields.collect();
    let body = Some(update(kind, &differing, &wanted.settings));
    let call = Call { verb: Method::PATCH, path, body };
    Ok(Some(Step { sign: '~', kind, name, fields, call }))
}

/// The settings that are to be changed. What cannot be is refused, if the file gives it.
fn differences<S: Resource>(
    wanted: &Wanted<S>,
    is: &S,
) -> Result<Vec<&'static Setting<S>>, Failure> {
    let mut differing = Vec::new();
    for setting in S::table().iter().filter(|one| !one.config.is_empty() && !one.is_input_only) {
        if (setting.show)(&wanted.settings) == (setting.show)(is) {
            continue;
        }
        if !setting.is_fixed {
            differing.push(setting);
        } else if wanted.document.get(setting.path).is_some() {
            return Err(Failure::failed(format!(
                "{}: {}; it cannot be changed after creation: delete it first, or take {} out of \
                 the file",
                wanted.name,
                change_told(setting, is, &wanted.settings),
                setting.config
            )));
        }
    }
    Ok(differing)
}

/// `message_retention: 10m -> 24h`.
fn change_told<S: Resource>(setting: &Setting<S>, is: &S, wanted: &S) -> String {
    if setting.is_secret {
        return setting.config.to_owned();
    }
    let told = |one: &S| match (setting.show)(one) {
        Value::Null => setting.default.to_owned(),
        value => setting.form.brief(&value).unwrap_or_else(|| plain(&value)),
    };
    format!("{}: {} -> {}", setting.config, told(is), told(wanted))
}

/// The update that makes the settings as they are wanted.
fn update<S: Resource>(kind: &str, differing: &[&Setting<S>], wanted: &S) -> Value {
    let mut body = Document::default();
    let mut mask: BTreeSet<String> = BTreeSet::new();
    for setting in differing {
        // A push config is changed as a whole: its parts are nothing without an endpoint.
        let whole = setting.path.split_once('.').filter(|(object, _)| *object != "postrider");
        let path = whole.map_or(setting.path, |(object, _)| object);
        let shown = S::table().iter().find(|one| one.path == path);
        if let Some(shown) = shown.filter(|_| mask.insert(camel(path))) {
            body.put(path, (shown.show)(wanted));
        }
    }
    let mask: Vec<String> = mask.into_iter().collect();
    let mut request = Map::new();
    request.insert(kind.to_owned(), Value::Object(body.0));
    request.insert("updateMask".to_owned(), mask.join(",").into());
    Value::Object(request)
}

/// What deletes all that is not named: subscriptions, then topics, then schemas.
fn prune(client: &Client, setup: &Setup, at: &At) -> Result<Vec<Step>, Failure> {
    let schemas = setup.schemas.iter().map(|one| one.name.as_str());
    let topics = setup.topics.iter().map(|one| one.name.as_str());
    let subscriptions = setup.subscriptions.iter().map(|one| one.name.as_str());
    let named: BTreeSet<&str> = schemas.chain(topics).chain(subscriptions).collect();
    let project = |name: &&str| name.split('/').take(2).collect::<Vec<_>>().join("/");
    let mut projects: BTreeSet<String> = named.iter().map(project).collect();
    if at.project.is_some() {
        projects.insert(at.project()?);
    }
    let mut steps = Vec::new();
    for (collection, kind) in
        [("subscriptions", "subscription"), ("topics", "topic"), ("schemas", "schema")]
    {
        for project in &projects {
            let there = all_in(client, project, collection)?;
            let names = there.iter().filter_map(|one| one["name"].as_str());
            for name in names.filter(|name| !named.contains(name)) {
                let call = Call { verb: Method::DELETE, path: path(name), body: None };
                let name = name.to_owned();
                steps.push(Step { sign: '-', kind, name, fields: Vec::new(), call });
            }
        }
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use domain::{Subscription, Topic};

    use super::*;
    use crate::config::resources::{subscription_of, topic_of};

    const TOPIC: &str = "projects/p/topics/orders";
    const NAME: &str = "projects/p/subscriptions/billing";

    fn document(value: Value) -> Document {
        Document(value.as_object().cloned().unwrap())
    }

    fn wanted(value: Value) -> Wanted<Subscription> {
        let document = document(value);
        let settings = subscription_of(NAME, TOPIC, &document).unwrap();
        Wanted { name: NAME.to_owned(), topic: TOPIC.to_owned(), document, settings }
    }

    fn there(mut value: Value) -> Value {
        value["name"] = json!(NAME);
        value["topic"] = json!(TOPIC);
        value
    }

    fn planned(given: Value, is: Value) -> Result<Option<Step>, String> {
        let planned = plan_one("subscription", &wanted(given), Some(&there(is)), subscription_from);
        planned.map_err(|failure| failure.problem)
    }

    #[test]
    fn what_is_missing_is_created_with_what_is_given() {
        let given = json!({"ackDeadlineSeconds": 60});
        let step = plan_one("subscription", &wanted(given), None, subscription_from).unwrap();
        let step = step.unwrap();
        assert_eq!(step.told(), format!("+ subscription {NAME}\n"));
        let body = json!({"ackDeadlineSeconds": 60, "topic": TOPIC});
        assert_eq!((step.call.verb, step.call.body), (Method::PUT, Some(body)));
    }

    #[test]
    fn what_differs_is_changed_and_nothing_else() {
        let is = json!({
            "ackDeadlineSeconds": 60, "messageRetentionDuration": "600s", "state": "ACTIVE",
            "pushConfig": {"pushEndpoint": "http://h/", "attributes": {"x-goog-version": "v1"}},
            "postrider": {"fifo": true, "start": "earliest", "method": "POST"},
        });
        let same = json!({
            "ackDeadlineSeconds": 60, "messageRetentionDuration": "600s",
            "pushConfig": {"pushEndpoint": "http://h/"}, "postrider": {"fifo": true},
        });
        assert!(planned(same, is.clone()).unwrap().is_none(), "the start is not given");
        let step = planned(json!({"ackDeadlineSeconds": 60}), is).unwrap().unwrap();
        let told = step.told();
        assert!(told.contains("~ subscription"), "{told}");
        assert!(told.contains("    message_retention: 10m -> 168h\n"), "{told}");
        assert!(told.contains("    push_endpoint\n"), "{told}");
        let body = step.call.body.unwrap();
        let mask = "messageRetentionDuration,postrider.fifo,postrider.method,pushConfig";
        assert_eq!(body["updateMask"], mask, "{body}");
        assert_eq!(body["subscription"]["pushConfig"], json!({}));
        assert_eq!(body["subscription"]["postrider"]["fifo"], false);
    }

    #[test]
    fn what_cannot_be_changed_is_refused_before_anything_is_done() {
        let given = json!({"filter": "attributes:kind"});
        let problem = planned(given, json!({})).unwrap_err();
        assert!(problem.contains("filter") && problem.contains("cannot be changed"), "{problem}");
    }

    #[test]
    fn topics_and_schemas_are_planned_alike() {
        let document =
            document(json!({"messageRetentionDuration": "86400s", "tags": {"1/a": "b"}}));
        let settings: Topic = topic_of(TOPIC, &document).unwrap();
        let topic = Wanted { name: TOPIC.to_owned(), topic: String::new(), document, settings };
        let shown = json!({"name": TOPIC, "messageRetentionDuration": "86400s"});
        let step = plan_one("topic", &topic, Some(&shown), topic_from).unwrap();
        assert!(step.is_none(), "tags are never shown");
        let schema = Schema {
            name: "projects/p/schemas/order".to_owned(),
            kind: "AVRO".to_owned(),
            definition: "\"string\"".to_owned(),
        };
        let made = plan_schema(&schema, None).unwrap();
        assert_eq!(made.call.path, "/v1/projects/p/schemas?schemaId=order");
        let same = json!({"definition": "\"string\""});
        assert!(plan_schema(&schema, Some(&same)).is_none());
        let other = plan_schema(&schema, Some(&json!({"definition": "\"int\""}))).unwrap();
        assert!(other.call.path.ends_with("order:commit") && other.sign == '~');
    }
}
