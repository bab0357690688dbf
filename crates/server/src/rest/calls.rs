//! From a method of the REST table and its request to the answer.

use domain::setting::Document;
use domain::topic;
use serde_json::Value;
use wire::json::from_value;
use wire::pubsub::{
    GetSubscriptionRequest, GetTopicRequest, ModifyPushConfigRequest, Subscription,
    UpdateSubscriptionRequest, UpdateTopicRequest,
};
use wire::rest::Method;

use super::postrider::{ShownTopic, TopicPage};
use super::{
    attempts, backups, clock, health, lanes, letters, messages, obstacles, postrider, secrets,
    to_json, transforms,
};
use crate::api::{Api, WarnedTopic};
use crate::convert::{Wanted, with_known_words};
use crate::status::{Refusal, Result};

/// Makes the call and returns the answer's text.
pub(super) async fn call(api: &Api, method: &Method, request: Value) -> Result<Vec<u8>> {
    match method.call {
        "CreateTopic" | "UpdateTopic" | "GetTopic" | "ListTopics" => {
            topic_call(api, method, request).await
        }
        "ListTopicSubscriptions" => to_json(&api.list_topic_subscriptions(&from_value(request)?)?),
        "DeleteTopic" => to_json(&api.delete_topic(&from_value(request)?).await?),
        "Publish" => to_json(&api.publish(from_value(request)?).await?),
        "Pull" => to_json(&api.pull(&from_value(request)?).await?),
        "Acknowledge" => to_json(&api.acknowledge(&from_value(request)?).await?),
        "ModifyAckDeadline" => to_json(&api.modify_ack_deadline(&from_value(request)?).await?),
        "DeleteSubscription" => to_json(&api.delete_subscription(&from_value(request)?).await?),
        "Seek" => to_json(&api.seek(&from_value(request)?).await?),
        "DetachSubscription" => to_json(&api.detach_subscription(&from_value(request)?).await?),
        "CreateSubscription" | "UpdateSubscription" | "GetSubscription" | "ListSubscriptions"
        | "ModifyPushConfig" => subscription_call(api, method, request).await,
        "CreateSnapshot" => to_json(&api.create_snapshot(from_value(request)?).await?),
        "UpdateSnapshot" => to_json(&api.update_snapshot(from_value(request)?).await?),
        "GetSnapshot" => to_json(&api.get_snapshot(&from_value(request)?)?),
        "ListSnapshots" => to_json(&api.list_snapshots(&from_value(request)?)?),
        "ListTopicSnapshots" => to_json(&api.list_topic_snapshots(&from_value(request)?)?),
        "DeleteSnapshot" => to_json(&api.delete_snapshot(&from_value(request)?).await?),
        "GetDelivery" => to_json(&obstacles::get(api, request)?),
        "ListLanes" => to_json(&lanes::list(api, request).await?),
        "ReleaseLane" => to_json(&lanes::release(api, request).await?),
        "SkipLane" => to_json(&lanes::skip(api, request).await?),
        "PeekMessages" => to_json(&messages::peek(api, request).await?),
        "ListDeadLetters" | "GetDeadLetter" | "ReplayDeadLetters" | "DeleteDeadLetters"
        | "ListReplays" | "GetReplay" | "CancelReplay" => {
            to_json(&letters::call(api, method.call, request).await?)
        }
        "ListBackups" => to_json(&backups::list(api).await?),
        "DeleteBackup" => to_json(&backups::delete(api, request).await?),
        "MakeBackup" => to_json(&backups::make(api, request).await?),
        "GetClock" => to_json(&clock::get(api)),
        "ConfirmClock" => to_json(&clock::confirm(api)),
        "Lint" => to_json(&health::lint(api, request)?),
        "RotateSecret" => to_json(&secrets::rotate(api, request).await?),
        "ListAttempts" => to_json(&attempts::list(api, request).await?),
        "CreateSchema" => to_json(&api.create_schema(from_value(request)?).await?),
        "GetSchema" => to_json(&api.get_schema(&from_value(request)?)?),
        "ListSchemas" => to_json(&api.list_schemas(&from_value(request)?)?),
        "ListSchemaRevisions" => to_json(&api.list_schema_revisions(&from_value(request)?)?),
        "CommitSchema" => to_json(&api.commit_schema(from_value(request)?).await?),
        "RollbackSchema" => to_json(&api.rollback_schema(&from_value(request)?).await?),
        "DeleteSchemaRevision" => {
            to_json(&api.delete_schema_revision(&from_value(request)?).await?)
        }
        "DeleteSchema" => to_json(&api.delete_schema(&from_value(request)?).await?),
        "ValidateSchema" => to_json(&api.validate_schema(from_value(request)?).await?),
        "ValidateMessage" => to_json(&api.validate_message(from_value(request)?).await?),
        "ValidateMessageTransform" => to_json(&transforms::validate(api, request).await?),
        "TestMessageTransforms" => to_json(&transforms::test(api, request).await?),
        other => Err(Refusal::no_such_call(method.service, other)),
    }
}

/// The calls whose topics carry what Google's definition has no field for.
async fn topic_call(api: &Api, method: &Method, mut request: Value) -> Result<Vec<u8>> {
    let WarnedTopic { topic, warnings } = match method.call {
        "CreateTopic" => {
            let ours = postrider::take_with(topic::SETTINGS, "", &mut request)?;
            let topic = with_known_words(from_value(request)?);
            api.create_topic(&Wanted::with_ours(&topic, ours)?).await?
        }
        "UpdateTopic" => {
            let ours = match request.get_mut("topic") {
                Some(given) => postrider::take_with(topic::SETTINGS, "topic.", given)?,
                None => Document::default(),
            };
            let UpdateTopicRequest { topic, update_mask } = from_value(request)?;
            let topic = with_known_words(topic.unwrap_or_default());
            let wanted = Wanted::with_ours(&topic, ours)?;
            api.update_topic(&topic.name, &wanted, update_mask).await?
        }
        "GetTopic" => {
            let topic = api.topic(&from_value::<GetTopicRequest>(request)?.topic)?;
            WarnedTopic { topic, warnings: Vec::new() }
        }
        _ => {
            let (page, next_page_token) = api.list_topics(&from_value(request)?)?;
            let topics = page.iter().map(|topic| ShownTopic::of(topic)).collect();
            return to_json(&TopicPage { topics, next_page_token });
        }
    };
    to_json(&ShownTopic::warned(&topic, warnings))
}

/// The calls whose subscriptions carry what Google's definition has no field for.
async fn subscription_call(api: &Api, method: &Method, mut request: Value) -> Result<Vec<u8>> {
    match method.call {
        "CreateSubscription" => {
            let ours = postrider::take("", &mut request)?;
            let subscription: Subscription = from_value(request)?;
            let wanted = Wanted::with_ours(&subscription, ours)?;
            let created = api.create_subscription(&wanted).await?;
            to_json(&postrider::show_warned(&created, api.now())?)
        }
        "UpdateSubscription" => {
            let ours = match request.get_mut("subscription") {
                Some(subscription) => postrider::take("subscription.", subscription)?,
                None => Document::default(),
            };
            let request: UpdateSubscriptionRequest = from_value(request)?;
            let subscription = request.subscription.unwrap_or_default();
            let wanted = Wanted::with_ours(&subscription, ours)?;
            let updated = api.update_subscription(&subscription.name, &wanted, request.update_mask);
            to_json(&postrider::show_warned(&updated.await?, api.now())?)
        }
        "ModifyPushConfig" => {
            let ours = postrider::take_push("", &mut request)?;
            let ModifyPushConfigRequest { subscription, push_config } = from_value(request)?;
            let wanted = Subscription { push_config, ..Subscription::default() };
            let wanted = Wanted::with_ours(&wanted, ours)?;
            let modified = api.modify_push_config(&subscription, &wanted).await?;
            to_json(&postrider::show_warnings(&modified))
        }
        "GetSubscription" => {
            let request: GetSubscriptionRequest = from_value(request)?;
            let found = api.subscription(&request.subscription)?;
            to_json(&postrider::show(&found, api.now())?)
        }
        _ => {
            let (page, next_page_token) = api.list_subscriptions(&from_value(request)?)?;
            let now = api.now();
            let shown = page.iter().map(|one| postrider::show(one, now));
            let shown: Result<Vec<Value>> = shown.collect();
            to_json(&postrider::list(shown?, next_page_token))
        }
    }
}
