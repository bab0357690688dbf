//! `postrider schema`.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::client::{At, Client, query};
use super::names::{Name, path};
use super::publish::read_file;
use super::table::{Table, fact, plain};
use super::topic::{LIST_MAX, PAGE_SIZE, all_of, delete_all, tell};
use super::{Failure, print, print_json};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider schema validate --file order.avsc
  postrider schema create order --file order.avsc --project demo
  postrider topic create orders --schema order --encoding json
  postrider schema validate order --message order.json
  postrider schema commit order --file order.avsc
  postrider schema list --json
  postrider schema describe order
  postrider schema revisions order
  postrider schema rollback order 0a1b2c3d
  postrider schema delete-revision order@0a1b2c3d
  postrider schema validate-message order --message order.json
  postrider schema delete order";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Create a schema from a definition.
    Create(Defined),
    /// List the schemas of a project.
    #[command(visible_alias = "ls")]
    List(List),
    /// Show a schema, its revisions and its newest definition; name@revision shows an older one.
    #[command(visible_aliases = ["show", "get"])]
    Describe(Named),
    /// List the revisions of a schema, the newest first.
    Revisions(Named),
    /// Add a revision to a schema.
    Commit(Defined),
    /// Make an older revision the newest again, as a new revision.
    Rollback(Rollback),
    /// Delete one revision of a schema; not its only one.
    DeleteRevision(Named),
    /// Delete schemas; topics that use them accept no more messages.
    #[command(visible_alias = "rm")]
    Delete(Delete),
    /// Check a definition, or a message against a schema; nothing is stored.
    Validate(Validate),
    /// Check a message against a schema; nothing is stored.
    ValidateMessage(ValidateMessage),
}

#[derive(Debug, Args)]
pub(super) struct Defined {
    /// The schema
    name: String,
    /// The file with the definition
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// Its language [default: by file extension: .proto, or else Avro]
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<Kind>,
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Args)]
pub(super) struct Named {
    /// The schema, or one revision of it as name@revision
    name: String,
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Args)]
pub(super) struct Rollback {
    /// The schema
    name: String,
    /// The revision to go back to
    revision: String,
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Args)]
pub(super) struct ValidateMessage {
    /// The schema to check the message against
    name: String,
    /// The file with the message
    #[arg(long, value_name = "FILE")]
    message: PathBuf,
    /// How the message is encoded
    #[arg(long, default_value = "json")]
    encoding: Encoding,
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Args)]
pub(super) struct Delete {
    /// The schemas
    #[arg(required = true)]
    names: Vec<String>,
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Args)]
pub(super) struct Validate {
    /// The schema to check the message against
    #[arg(requires = "message", conflicts_with = "file", required_unless_present = "file")]
    name: Option<String>,
    /// A file with a definition to use instead
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The definition's language [default: by file extension: .proto, or else Avro]
    #[arg(long = "type", value_name = "TYPE", requires = "file")]
    kind: Option<Kind>,
    /// The file with the message
    #[arg(long, value_name = "FILE")]
    message: Option<PathBuf>,
    /// How the message is encoded
    #[arg(long, default_value = "json")]
    encoding: Encoding,
    #[command(flatten)]
    at: At,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Kind {
    /// Apache Avro.
    Avro,
    /// Protocol Buffers.
    Protobuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Encoding {
    /// As JSON.
    Json,
    /// In the schema language's own binary form.
    Binary,
}

impl Encoding {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Binary => "BINARY",
        }
    }
}

pub(super) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Create(arguments) => make(arguments),
        Command::List(arguments) => list(arguments),
        Command::Describe(arguments) => describe(arguments),
        Command::Revisions(arguments) => list_revisions(arguments),
        Command::Commit(arguments) => commit(arguments),
        Command::Rollback(arguments) => roll_back(arguments),
        Command::DeleteRevision(arguments) => delete_revision(arguments),
        Command::Delete(arguments) => delete_all(&arguments.at, &arguments.names, At::schema),
        Command::Validate(arguments) => validate(arguments),
        Command::ValidateMessage(arguments) => validate(&Validate {
            name: Some(arguments.name.clone()),
            file: None,
            kind: None,
            message: Some(arguments.message.clone()),
            encoding: arguments.encoding,
            at: arguments.at.clone(),
        }),
    }
}

/// The definition in a file, as the API has it.
fn definition(file: &Path, kind: Option<Kind>) -> Result<Value, Failure> {
    let is_proto = file.extension().is_some_and(|ending| ending == "proto");
    let kind = match kind {
        Some(Kind::Protobuf) => "PROTOCOL_BUFFER",
        Some(Kind::Avro) => "AVRO",
        None if is_proto => "PROTOCOL_BUFFER",
        None => "AVRO",
    };
    let text = String::from_utf8(read_file(file)?);
    let text = text.map_err(|_| Failure::failed(format!("{} is not text", file.display())))?;
    Ok(json!({"type": kind, "definition": text}))
}

fn make(arguments: &Defined) -> Result<(), Failure> {
    let name = arguments.at.schema(&arguments.name)?;
    let schema = definition(&arguments.file, arguments.kind)?;
    let client = Client::new(&arguments.at)?;
    let collection = name.as_str().rsplit_once('/').map_or("", |(collection, _)| collection);
    let query = query(&[("schemaId", name.id())]);
    let made = client.post(&format!("{}{query}", path(collection)), &schema)?;
    tell(&arguments.at, &made, "made", &name)
}

fn commit(arguments: &Defined) -> Result<(), Failure> {
    let name = arguments.at.schema(&arguments.name)?;
    let schema = definition(&arguments.file, arguments.kind)?;
    let client = Client::new(&arguments.at)?;
    let made = client.post(&format!("{}:commit", name.path()), &json!({ "schema": schema }))?;
    let done = format!("made revision {} of", plain(&made["revisionId"]));
    tell(&arguments.at, &made, &done, &name)
}

fn list(arguments: &List) -> Result<(), Failure> {
    let client = Client::new(&arguments.at)?;
    let schemas = all_of(&client, &arguments.at, "schemas")?;
    if arguments.at.json {
        return print_json(&json!({ "schemas": schemas }));
    }
    print(&table(&schemas))
}

fn table(schemas: &[Value]) -> String {
    let mut table = Table::new(&["SCHEMA", "TYPE", "REVISION", "MADE"]);
    for schema in schemas {
        let cells = ["name", "type", "revisionId", "revisionCreateTime"];
        table.line(cells.map(|cell| plain(&schema[cell])));
    }
    table.text("no schemas")
}

fn describe(arguments: &Named) -> Result<(), Failure> {
    let name = arguments.at.schema(&arguments.name)?;
    let client = Client::new(&arguments.at)?;
    let schema = client.get(&name.path())?;
    let revisions = revisions_of(&client, &name)?;
    if arguments.at.json {
        return print_json(&json!({"schema": schema, "revisions": revisions}));
    }
    print(&description(&schema, &revisions))
}

/// All revisions of a schema, the newest first.
fn revisions_of(client: &Client, name: &Name) -> Result<Vec<Value>, Failure> {
    let whole = path(name.as_str().split('@').next().unwrap_or_default());
    client.pages("schemas", LIST_MAX, |client, left, token| {
        let size = left.min(PAGE_SIZE).to_string();
        let query = query(&[("pageSize", &size), ("pageToken", token)]);
        client.get(&format!("{whole}:listRevisions{query}"))
    })
}

fn list_revisions(arguments: &Named) -> Result<(), Failure> {
    let name = arguments.at.schema(&arguments.name)?;
    let revisions = revisions_of(&Client::new(&arguments.at)?, &name)?;
    if arguments.at.json {
        return print_json(&json!({ "revisions": revisions }));
    }
    let mut table = Table::new(&["REVISION", "MADE"]);
    for revision in &revisions {
        table.line(["revisionId", "revisionCreateTime"].map(|cell| plain(&revision[cell])));
    }
    print(&table.text("no revisions"))
}

fn roll_back(arguments: &Rollback) -> Result<(), Failure> {
    let name = arguments.at.schema(&arguments.name)?;
    let body = json!({"revisionId": arguments.revision});
    let made = Client::new(&arguments.at)?.post(&format!("{}:rollback", name.path()), &body)?;
    let done = format!("made revision {} of", plain(&made["revisionId"]));
    tell(&arguments.at, &made, &done, &name)
}

fn delete_revision(arguments: &Named) -> Result<(), Failure> {
    let name = arguments.at.schema(&arguments.name)?;
    if !name.id().contains('@') {
        let problem = "which revision? Give the schema as name@revision; postrider schema \
                       revisions lists them";
        return Err(Failure::usage(problem));
    }
    let client = Client::new(&arguments.at)?;
    let left = client.delete(&format!("{}:deleteRevision", name.path()))?;
    tell(&arguments.at, &left, "deleted", &name)
}

fn description(schema: &Value, revisions: &[Value]) -> String {
    let mut text = String::new();
    for (what, field) in [("Schema", "name"), ("Type", "type"), ("Shown", "revisionId")] {
        fact(&mut text, what, &plain(&schema[field]));
    }
    for revision in revisions {
        let told = format!(
            "{}, made {}",
            plain(&revision["revisionId"]),
            plain(&revision["revisionCreateTime"])
        );
        fact(&mut text, "Revision", &told);
    }
    text.push('\n');
    text.push_str(schema["definition"].as_str().unwrap_or_default().trim_end());
    text.push('\n');
    text
}

fn validate(arguments: &Validate) -> Result<(), Failure> {
    let client = Client::new(&arguments.at)?;
    let (parent, against) = match (&arguments.name, &arguments.file) {
        (Some(name), _) => {
            let name = arguments.at.schema(name)?;
            let parent: Vec<&str> = name.as_str().split('/').take(2).collect();
            (parent.join("/"), ("name", json!(name.as_str())))
        }
        (None, Some(file)) => {
            (arguments.at.project()?, ("schema", definition(file, arguments.kind)?))
        }
        (None, None) => return Err(Failure::usage("give a schema or --file")),
    };
    let parent = path(&parent);
    let answer = match &arguments.message {
        None => {
            let body = json!({ "schema": against.1 });
            client.post(&format!("{parent}/schemas:validate"), &body)?
        }
        Some(message) => {
            let message = STANDARD.encode(read_file(message)?);
            let encoding = arguments.encoding.as_str();
            let mut body = json!({"message": message, "encoding": encoding});
            body[against.0] = against.1;
            client.post(&format!("{parent}/schemas:validateMessage"), &body)?
        }
    };
    let good = if arguments.message.is_some() { "the message" } else { "the definition" };
    if arguments.at.json { print_json(&answer) } else { print(&format!("{good} is good\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Value {
        json!({"name": "projects/p/schemas/order", "type": "AVRO", "definition": "{\n}\n",
               "revisionId": "0a1b2c3d", "revisionCreateTime": "2026-01-31T08:30:00Z"})
    }

    #[test]
    fn schemas_are_listed_and_described() {
        let text = table(&[schema()]);
        let line: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(line[..3], ["projects/p/schemas/order", "AVRO", "0a1b2c3d"]);
        let text = description(&schema(), &[schema()]);
        assert!(text.contains("Revision         0a1b2c3d, made 2026-01-31T08:30:00Z\n"), "{text}");
        assert!(text.ends_with("\n\n{\n}\n"), "{text}");
    }

    #[test]
    fn the_language_is_known_by_the_ending_unless_it_is_said() {
        let folder = tempfile::TempDir::new().unwrap();
        for (name, kind, expected) in [
            ("a.proto", None, "PROTOCOL_BUFFER"),
            ("a.avsc", None, "AVRO"),
            ("a.txt", Some(Kind::Protobuf), "PROTOCOL_BUFFER"),
        ] {
            let file = folder.path().join(name);
            std::fs::write(&file, "x").unwrap();
            assert_eq!(definition(&file, kind).unwrap()["type"], expected);
        }
        let file = folder.path().join("a.avsc");
        std::fs::write(&file, [0xff]).unwrap();
        assert!(definition(&file, None).is_err());
        assert!(definition(&folder.path().join("none"), None).is_err());
    }
}
