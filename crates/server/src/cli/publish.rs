//! `postrider publish`.

use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};

use clap::Args;
use domain::limits::PUBLISH_MESSAGES_MAX;
use serde_json::{Map, Value, json};

use super::client::{At, Client};
use super::messages::encoded;
use super::table::plain;
use super::values::{object, pair};
use super::{Failure, note, print};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider publish orders 'order 1' 'order 2' --project demo
  postrider publish orders 'order 3' --attribute kind=order --ordering-key ann
  postrider publish orders --file picture.png --attribute type=image/png
  seq 1 1000 | postrider publish orders
  postrider publish orders --lines orders.jsonl --json

Prints the id of each message once it is durable; with --json, one object {\"messageIds\": […]} per
request.";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The topic
    topic: String,
    /// Messages; without any, and without --file or --lines, one per line of standard input
    messages: Vec<String>,
    /// A file to send as one message; can be repeated
    #[arg(long)]
    file: Vec<PathBuf>,
    /// A file with one message per line; - is standard input
    #[arg(long, value_name = "FILE")]
    lines: Option<PathBuf>,
    /// An attribute for all messages; can be repeated
    #[arg(long = "attribute", short, value_name = "KEY=VALUE", value_parser = pair)]
    attributes: Vec<(String, String)>,
    /// The ordering key for all messages
    #[arg(long, value_name = "KEY")]
    ordering_key: Option<String>,
    #[command(flatten)]
    at: At,
}

/// Bytes of data in one message, at most, as the API has it.
const DATA_BYTES_MAX: usize = 10_000_000;

/// Bytes of data in one request from which on no more is added.
const REQUEST_BYTES_ENOUGH: usize = 4 << 20;

/// Lines that are read ahead of the requests.
const LINES_AHEAD: usize = 2 * PUBLISH_MESSAGES_MAX;

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let topic = arguments.at.topic(&arguments.topic)?;
    let client = Client::new(&arguments.at)?;
    let mut publisher = Publisher {
        path: format!("{}:publish", topic.path()),
        client,
        template: template(arguments),
        is_json: arguments.at.json,
        published: 0,
    };
    let mut given: Vec<Vec<u8>> =
        arguments.messages.iter().map(|text| text.clone().into_bytes()).collect();
    for file in &arguments.file {
        given.push(read_file(file)?);
    }
    let is_lines = arguments.lines.is_some() || given.is_empty();
    publisher.publish_all(given.into_iter().map(Ok))?;
    if is_lines {
        let file = arguments.lines.as_deref().unwrap_or(Path::new("-"));
        tell_who_waits(file);
        publisher.publish_lines(&read_lines(open(file)?))?;
    }
    Ok(())
}

struct Publisher {
    client: Client,
    path: String,
    template: Map<String, Value>,
    is_json: bool,
    published: usize,
}

impl Publisher {
    fn publish_all(
        &mut self,
        given: impl Iterator<Item = Result<Vec<u8>, Failure>>,
    ) -> Result<(), Failure> {
        let mut batch = Batch::default();
        for data in given {
            batch.add(data?);
            if batch.is_full() {
                self.publish(&mut batch)?;
            }
        }
        self.publish(&mut batch)
    }

    /// Publishes lines as they come: what is there goes out in one request.
    fn publish_lines(&mut self, lines: &Receiver<Result<Vec<u8>, Failure>>) -> Result<(), Failure> {
        while let Ok(first) = lines.recv() {
            let mut batch = Batch::default();
            batch.add(first?);
            while !batch.is_full()
                && let Ok(next) = lines.try_recv()
            {
                match next {
                    Ok(data) => batch.add(data),
                    Err(failure) => {
                        self.publish(&mut batch)?;
                        return Err(failure);
                    }
                }
            }
            self.publish(&mut batch)?;
        }
        Ok(())
    }

    fn publish(&mut self, batch: &mut Batch) -> Result<(), Failure> {
        let messages: Vec<Value> =
            std::mem::take(batch).messages.iter().map(|data| self.message(data)).collect();
        if messages.is_empty() {
            return Ok(());
        }
        let answer = self.client.post(&self.path, &json!({ "messages": messages }));
        let answer = answer.map_err(|failure| self.after_some(failure))?;
        self.published += messages.len();
        if self.is_json {
            return print(&format!("{answer}\n"));
        }
        let ids = answer["messageIds"].as_array().cloned().unwrap_or_default();
        print(&ids.iter().map(|id| plain(id) + "\n").collect::<String>())
    }

    fn after_some(&self, failure: Failure) -> Failure {
        if self.published == 0 {
            return failure;
        }
        let problem =
            format!("{}; {} earlier messages were published", failure.problem, self.published);
        Failure { problem, ..failure }
    }

    fn message(&self, data: &[u8]) -> Value {
        let mut message = self.template.clone();
        message.insert("data".to_owned(), encoded(data));
        Value::Object(message)
    }
}

/// What all messages have in common.
fn template(arguments: &Arguments) -> Map<String, Value> {
    let mut template = Map::new();
    if !arguments.attributes.is_empty() {
        template.insert("attributes".to_owned(), object(&arguments.attributes));
    }
    if let Some(key) = &arguments.ordering_key {
        template.insert("orderingKey".to_owned(), key.clone().into());
    }
    template
}

/// The messages of one request.
#[derive(Default)]
struct Batch {
    messages: Vec<Vec<u8>>,
    bytes: usize,
}

impl Batch {
    fn add(&mut self, data: Vec<u8>) {
        self.bytes += data.len();
        self.messages.push(data);
    }

    fn is_full(&self) -> bool {
        self.messages.len() >= PUBLISH_MESSAGES_MAX || self.bytes >= REQUEST_BYTES_ENOUGH
    }
}

fn cannot_read(file: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot read {}: {error}", file.display()))
}

pub(super) fn read_file(file: &Path) -> Result<Vec<u8>, Failure> {
    let opened = std::fs::File::open(file).map_err(|error| cannot_read(file, &error))?;
    let mut data = Vec::new();
    let read = opened.take(DATA_BYTES_MAX as u64 + 1).read_to_end(&mut data);
    read.map_err(|error| cannot_read(file, &error))?;
    if data.len() > DATA_BYTES_MAX {
        let problem = format!("{} is longer than {DATA_BYTES_MAX} bytes", file.display());
        return Err(Failure::failed(problem));
    }
    Ok(data)
}

/// So that nobody wonders why nothing happens: it is waiting for input.
fn tell_who_waits(file: &Path) {
    if file == Path::new("-") && std::io::stdin().is_terminal() {
        note("type messages, one per line; Ctrl-D to end");
    }
}

fn open(file: &Path) -> Result<Box<dyn Read + Send>, Failure> {
    if file == Path::new("-") {
        return Ok(Box::new(std::io::stdin()));
    }
    let opened = std::fs::File::open(file).map_err(|error| cannot_read(file, &error))?;
    Ok(Box::new(opened))
}

/// The lines of `input`, read by a separate thread: slow input is published line by line, and
/// fast input in few requests.
fn read_lines(input: Box<dyn Read + Send>) -> Receiver<Result<Vec<u8>, Failure>> {
    let (sender, lines) = sync_channel(LINES_AHEAD);
    std::thread::spawn(move || {
        let mut input = BufReader::new(input);
        while let Some(line) = next_line(&mut input).transpose() {
            let is_end = line.is_err();
            // Nobody takes lines once publishing has failed.
            if sender.send(line).is_err() || is_end {
                break;
            }
        }
    });
    lines
}

/// The next line without its end; `None` after the last.
fn next_line(input: &mut impl BufRead) -> Result<Option<Vec<u8>>, Failure> {
    let mut line = Vec::new();
    let mut bounded = input.take(DATA_BYTES_MAX as u64 + 2);
    let read = bounded.read_until(b'\n', &mut line);
    let read = read.map_err(|error| Failure::failed(format!("cannot read a line: {error}")))?;
    if read == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
    }
    if line.len() > DATA_BYTES_MAX {
        return Err(Failure::failed(format!("a line is longer than {DATA_BYTES_MAX} bytes")));
    }
    Ok(Some(line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::parsing::parse;

    #[test]
    fn lines_are_messages_without_their_ends() {
        let mut input = &b"one\r\n\ntwo\nthree"[..];
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut input).ok().unwrap() {
            lines.push(String::from_utf8(line).unwrap());
        }
        assert_eq!(lines, ["one", "", "two", "three"]);
        let long = vec![b'x'; DATA_BYTES_MAX + 1];
        assert!(next_line(&mut &long[..]).is_err());
        assert!(next_line(&mut &long[1..]).is_ok_and(|line| line.is_some()));
    }

    #[test]
    fn a_request_is_full_by_count_or_by_bytes() {
        let mut batch = Batch::default();
        batch.add(vec![0; REQUEST_BYTES_ENOUGH - 1]);
        assert!(!batch.is_full());
        batch.add(vec![0]);
        assert!(batch.is_full());
        let mut batch = Batch::default();
        (0..PUBLISH_MESSAGES_MAX).for_each(|_| batch.add(Vec::new()));
        assert!(batch.is_full());
    }

    #[test]
    fn attributes_and_key_are_the_same_for_all() {
        let words = ["publish", "orders", "x", "-a", "kind=order", "--ordering-key", "ann"];
        let arguments = parse(words).unwrap();
        let expected = json!({"attributes": {"kind": "order"}, "orderingKey": "ann"});
        assert_eq!(Value::Object(template(&arguments)), expected);
        assert_eq!(arguments.messages, ["x"]);
    }
}
