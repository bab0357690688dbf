//! `postrider transform`, and the files that hold transforms.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::client::{At, Client};
use super::names::path;
use super::publish::read_file;
use super::values::pair;
use super::{Failure, print, print_json};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider transform validate redact.js
  postrider transform test redact.js --message '{\"card\": 1}'
  postrider topic create orders --transform redact.js --project demo
  postrider subscription update billing --transform money.js:to_cents --transform drop.js
  postrider transform test --topic orders --message '{\"card\": 1}' --attribute kind=new";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Check the code of transforms; nothing is stored.
    Validate(Validate),
    /// Show what transforms make of a message, one after the other; nothing is published.
    Test(Test),
}

#[derive(Debug, Args)]
pub(super) struct Validate {
    /// Files with JavaScript, whose function has the name of the file or the one behind the colon;
    /// or with transforms as JSON
    #[arg(required = true, value_name = "FILE[:FUNCTION]")]
    files: Vec<String>,
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Args)]
pub(super) struct Test {
    /// Files with the transforms, as for validate
    #[arg(value_name = "FILE[:FUNCTION]", required_unless_present_any = ["topic", "subscription"])]
    files: Vec<String>,
    /// Test the transforms of this topic
    #[arg(long, conflicts_with_all = ["files", "subscription"])]
    topic: Option<String>,
    /// Test the transforms of this subscription
    #[arg(long, conflicts_with = "files")]
    subscription: Option<String>,
    /// The message's data
    #[arg(long, default_value = "", required_unless_present = "attribute")]
    message: String,
    /// An attribute of the message; can be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    attribute: Vec<(String, String)>,
    #[command(flatten)]
    at: At,
}

pub(super) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Validate(arguments) => validate(arguments),
        Command::Test(arguments) => test(arguments),
    }
}

/// The transforms in files of JavaScript or JSON, as the API has them.
pub(super) fn read_files(files: &[String]) -> Result<Vec<Value>, Failure> {
    let mut transforms = Vec::new();
    for file in files {
        let (name, function) = split(file);
        let text = String::from_utf8(read_file(Path::new(name))?);
        let text = text.map_err(|_| Failure::failed(format!("{name} is not text")))?;
        match function {
            None => transforms.extend(read_json(name, &text)?),
            Some(function) => {
                transforms.push(json!({"javascriptUdf": {"functionName": function, "code": text}}))
            }
        }
    }
    Ok(transforms)
}

/// A file and the function in it; `None` = it is JSON.
fn split(file: &str) -> (&str, Option<&str>) {
    if let Some((name, function)) = file.rsplit_once(':').filter(|(name, _)| !name.is_empty()) {
        return (name, Some(function));
    }
    let path = Path::new(file);
    let is_json = path.extension().is_some_and(|ending| ending == "json");
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    (file, (!is_json).then_some(stem))
}

/// One transform, a list of them, or an object with the list.
fn read_json(name: &str, text: &str) -> Result<Vec<Value>, Failure> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| Failure::failed(format!("{name} is not JSON: {error}")))?;
    let value = match value {
        Value::Object(mut object) => {
            object.remove("messageTransforms").unwrap_or(Value::Object(object))
        }
        other => other,
    };
    Ok(match value {
        Value::Array(list) => list,
        one => vec![one],
    })
}

fn validate(arguments: &Validate) -> Result<(), Failure> {
    let client = Client::new(&arguments.at)?;
    let call = format!("{}:validateMessageTransform", path(&arguments.at.project()?));
    let transforms = read_files(&arguments.files)?;
    for transform in &transforms {
        client.post(&call, &json!({ "messageTransform": transform }))?;
    }
    if arguments.at.json {
        return print_json(&json!({}));
    }
    print(match transforms.len() {
        1 => "the transform is good\n",
        _ => "the transforms are good\n",
    })
}

fn test(arguments: &Test) -> Result<(), Failure> {
    let Test { files, topic, subscription, message, attribute, at } = arguments;
    let client = Client::new(at)?;
    let attributes: Map<String, Value> =
        attribute.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
    let message = json!({"data": STANDARD.encode(message), "attributes": attributes});
    let mut request = json!({ "message": message });
    let (field, value) = match (topic, subscription) {
        (Some(topic), _) => ("topic", at.topic(topic)?.as_str().into()),
        (None, Some(name)) => ("subscription", at.subscription(name)?.as_str().into()),
        (None, None) => ("messageTransforms", json!({"messageTransforms": read_files(files)?})),
    };
    request[field] = value;
    let call = format!("{}:testMessageTransforms", path(&at.project()?));
    let answer = client.post(&call, &request)?;
    if at.json {
        return print_json(&answer);
    }
    print(&told(&answer))
}

/// What became of the message, a line for each transform.
fn told(answer: &Value) -> String {
    let results = answer["transformedMessages"].as_array().map_or(&[][..], Vec::as_slice);
    if results.is_empty() {
        return "there are no transforms: the message stays as it is\n".to_owned();
    }
    let mut text = String::new();
    for (at, result) in results.iter().enumerate() {
        let line = if let Some(failed) = result.get("failedMessage") {
            format!("failed: {}", failed["error"]["message"].as_str().unwrap_or_default())
        } else if let Some(message) = result.get("transformedMessage") {
            let data = message["data"].as_str().unwrap_or_default();
            let data = STANDARD.decode(data).unwrap_or_default();
            let data = String::from_utf8_lossy(&data).into_owned();
            match message.get("attributes") {
                Some(attributes) => format!("{data}  {attributes}"),
                None => data,
            }
        } else {
            "dropped".to_owned()
        };
        text.push_str(&format!("{}: {line}\n", at + 1));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_name_their_functions() {
        for (given, expected) in [
            ("a/redact.js", ("a/redact.js", Some("redact"))),
            ("money.js:to_cents", ("money.js", Some("to_cents"))),
            ("all.json", ("all.json", None)),
        ] {
            assert_eq!(split(given), expected);
        }
    }

    #[test]
    fn json_is_one_transform_or_a_list() {
        let one = json!({"javascriptUdf": {"functionName": "f", "code": "c"}});
        for text in [
            one.to_string(),
            json!([one]).to_string(),
            json!({"messageTransforms": [one]}).to_string(),
        ] {
            assert_eq!(read_json("f.json", &text).unwrap(), std::slice::from_ref(&one));
        }
        assert!(read_json("f.json", "x").is_err());
    }

    #[test]
    fn each_transform_has_a_line() {
        let text = told(&json!({"transformedMessages": [
            {"transformedMessage": {"data": STANDARD.encode("a"), "attributes": {"k": "v"}}},
            {"filteredMessage": {}},
            {"failedMessage": {"error": {"message": "message_transforms[2] (f): Error: no"}}},
        ]}));
        let expected =
            "1: a  {\"k\":\"v\"}\n2: dropped\n3: failed: message_transforms[2] (f): Error: no\n";
        assert_eq!(text, expected);
        assert!(told(&json!({})).starts_with("there are no transforms"));
    }
}
