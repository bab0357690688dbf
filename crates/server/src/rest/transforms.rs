//! `/v1/{project}:validateMessageTransform` and `:testMessageTransforms`, which Google has over
//! REST only.

use domain::transform::{read_all, read_one};
use domain::{Invalid, ProjectName, SubscriptionName, TopicName};
use serde::Deserialize;
use serde_json::{Value, json};
use tonic::Code;
use transforms::{Failure, Outcome};
use wire::json::from_value;
use wire::pubsub::PubsubMessage;

use crate::api::{Api, Tried};
use crate::convert::message_from_wire;
use crate::status::Result;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Validate {
    project: String,
    #[serde(alias = "message_transform")]
    message_transform: Value,
}

pub(super) async fn validate(api: &Api, request: Value) -> Result<Value> {
    let request: Validate = from_value(request)?;
    let project = ProjectName::parse("project", &request.project)?;
    let transform = read_one("message_transform", &request.message_transform)?;
    api.validate_transform(&project, transform).await?;
    Ok(json!({}))
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Test {
    project: String,
    message: PubsubMessage,
    #[serde(alias = "message_transforms")]
    message_transforms: Option<List>,
    topic: String,
    subscription: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct List {
    #[serde(alias = "message_transforms")]
    message_transforms: Value,
}

pub(super) async fn test(api: &Api, request: Value) -> Result<Value> {
    let Test { project, message, message_transforms, topic, subscription } = from_value(request)?;
    let project = ProjectName::parse("project", &project)?;
    let tried = match (message_transforms, topic.as_str(), subscription.as_str()) {
        (Some(list), "", "") => {
            Tried::Given(read_all("message_transforms", &list.message_transforms)?)
        }
        (None, topic, "") if !topic.is_empty() => Tried::OfTopic(TopicName::parse("topic", topic)?),
        (None, "", name) if !name.is_empty() => {
            Tried::OfSubscription(SubscriptionName::parse("subscription", name)?)
        }
        _ => {
            let problem = "give exactly one of message_transforms, topic and subscription";
            return Err(Invalid::new("message_transforms", problem).into());
        }
    };
    let results = api.try_transforms(&project, tried, message_from_wire(message)).await?;
    let shown: Vec<Value> = results.into_iter().map(show).collect();
    Ok(json!({"transformedMessages": shown}))
}

fn show(result: Result<Outcome, Failure>) -> Value {
    match result {
        Ok(Outcome::Message { data, attributes }) => {
            let message = PubsubMessage { data, attributes, ..PubsubMessage::default() };
            json!({"transformedMessage": message})
        }
        Ok(Outcome::Filtered) => json!({"filteredMessage": {}}),
        Err(failure) => {
            let error =
                json!({"code": Code::InvalidArgument as i32, "message": failure.to_string()});
            json!({"failedMessage": {"error": error}})
        }
    }
}
