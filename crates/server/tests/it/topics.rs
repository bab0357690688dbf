//! Topics and subscriptions over gRPC.

use serde_json::{Value, json};
use tonic::Code;
use wire::protobuf::{Duration, FieldMask};
use wire::pubsub::{
    DeleteSubscriptionRequest, DeleteTopicRequest, ExpirationPolicy, GetSubscriptionRequest,
    GetTopicRequest, ListSubscriptionsRequest, ListTopicSubscriptionsRequest, ListTopicsRequest,
    ModifyPushConfigRequest, PushConfig, Subscription, Topic, UpdateSubscriptionRequest,
    UpdateTopicRequest,
};

use crate::rig::{Rig, each_engine, message, subscription, topic};

fn mask(paths: &[&str]) -> Option<FieldMask> {
    Some(FieldMask { paths: paths.iter().map(|path| (*path).to_owned()).collect() })
}

fn named(name: &str) -> Topic {
    Topic { name: name.to_owned(), ..Topic::default() }
}

async fn shown(rig: &Rig, name: &str) -> Result<Subscription, tonic::Status> {
    let request = GetSubscriptionRequest { subscription: name.to_owned() };
    Ok(rig.subscriber().await.get_subscription(request).await?.into_inner())
}

async fn a_topic_is_created_read_changed_listed_and_deleted(rig: &Rig) {
    let mut publisher = rig.publisher().await;
    let name = topic("orders");
    let wanted = Topic {
        labels: [("team".to_owned(), "blue".to_owned())].into(),
        message_retention_duration: Some(Duration::from_secs(3_600)),
        ..named(&name)
    };
    let created = publisher.create_topic(wanted.clone()).await.unwrap().into_inner();
    assert_eq!(created.labels, wanted.labels);
    let get = GetTopicRequest { topic: name.clone() };
    let read = publisher.get_topic(get.clone()).await.unwrap().into_inner();
    assert_eq!(read, created);
    let again = publisher.create_topic(wanted).await.unwrap_err();
    assert_eq!(again.code(), Code::AlreadyExists);

    let update = UpdateTopicRequest {
        topic: Some(named(&name)),
        update_mask: mask(&["message_retention_duration"]),
    };
    let changed = publisher.update_topic(update).await.unwrap().into_inner();
    assert_eq!(changed.message_retention_duration, None);
    assert_eq!(changed.labels, created.labels);
    assert_eq!(publisher.get_topic(get.clone()).await.unwrap().into_inner(), changed);

    let delete = DeleteTopicRequest { topic: name.clone() };
    publisher.delete_topic(delete.clone()).await.unwrap();
    let missing = publisher.get_topic(get).await.unwrap_err();
    assert_eq!(missing.code(), Code::NotFound);
    assert_eq!(missing.message(), format!("topic {name} not found"));
    assert_eq!(publisher.delete_topic(delete).await.unwrap_err().code(), Code::NotFound);
}

async fn topics_are_listed_in_pages_by_project(rig: &Rig) {
    let mut publisher = rig.publisher().await;
    for n in 0..5 {
        publisher.create_topic(named(&topic(&format!("topic-{n}")))).await.unwrap();
    }
    publisher.create_topic(named("projects/other/topics/topic-9")).await.unwrap();
    let mut request = ListTopicsRequest {
        project: "projects/p".to_owned(),
        page_size: 2,
        page_token: String::new(),
    };
    let mut listed = Vec::new();
    let mut sizes = Vec::new();
    loop {
        let page = publisher.list_topics(request.clone()).await.unwrap().into_inner();
        sizes.push(page.topics.len());
        listed.extend(page.topics.into_iter().map(|topic| topic.name));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(sizes, [2, 2, 1]);
    let expected: Vec<String> = (0..5).map(|n| topic(&format!("topic-{n}"))).collect();
    assert_eq!(listed, expected);
    for (size, token) in [(0, "rubbish"), (-1, "")] {
        let bad = ListTopicsRequest {
            project: "projects/p".to_owned(),
            page_size: size,
            page_token: token.to_owned(),
        };
        let refused = publisher.list_topics(bad).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    }
}

async fn a_subscription_shows_defaults_and_takes_updates(rig: &Rig) {
    let (topic, name) = rig.pair().await;
    let read = shown(rig, &name).await.unwrap();
    assert_eq!(read.topic, topic);
    assert_eq!(read.ack_deadline_seconds, 10);
    assert_eq!(read.message_retention_duration, Some(Duration::from_secs(7 * 86_400)));
    let ttl = Some(Duration::from_secs(31 * 86_400));
    assert_eq!(read.expiration_policy, Some(ExpirationPolicy { ttl }));
    assert_eq!(read.push_config, Some(PushConfig::default()));

    let wanted = Subscription {
        name: name.clone(),
        ack_deadline_seconds: 60,
        expiration_policy: Some(ExpirationPolicy { ttl: None }),
        labels: [("team".to_owned(), "red".to_owned())].into(),
        ..Subscription::default()
    };
    let update = UpdateSubscriptionRequest {
        subscription: Some(wanted.clone()),
        update_mask: mask(&["ack_deadline_seconds", "expiration_policy"]),
    };
    let changed = rig.subscriber().await.update_subscription(update).await.unwrap().into_inner();
    assert_eq!(changed.ack_deadline_seconds, 60);
    assert_eq!(changed.expiration_policy, Some(ExpirationPolicy { ttl: None }));
    assert!(changed.labels.is_empty(), "labels were not in the mask");
    assert_eq!(shown(rig, &name).await.unwrap(), changed);

    for (paths, code) in [
        (&[][..], Code::InvalidArgument),
        (&["topic"][..], Code::InvalidArgument),
        (&["filter"][..], Code::InvalidArgument),
        (&["no_such_field"][..], Code::InvalidArgument),
        (&["enable_message_ordering"][..], Code::InvalidArgument),
        (&["retry_policy.no_such_field"][..], Code::InvalidArgument),
        (&["push_config.no_such_field"][..], Code::InvalidArgument),
        (&["message_transforms"][..], Code::InvalidArgument),
    ] {
        let update = UpdateSubscriptionRequest {
            subscription: Some(Subscription {
                message_transforms: vec![Default::default()],
                topic: "projects/p/topics/other".to_owned(),
                filter: "attributes:other".to_owned(),
                enable_message_ordering: true,
                ..wanted.clone()
            }),
            update_mask: mask(paths),
        };
        let refused = rig.subscriber().await.update_subscription(update).await.unwrap_err();
        assert_eq!(refused.code(), code, "{paths:?}: {refused}");
    }
    assert_eq!(shown(rig, &name).await.unwrap(), changed);
}

async fn a_deleted_topic_leaves_its_subscriptions_with_their_backlog(rig: &Rig) {
    let (topic, name) = rig.pair().await;
    let mut publisher = rig.publisher().await;
    let request =
        wire::pubsub::PublishRequest { topic: topic.clone(), messages: vec![message("left over")] };
    publisher.publish(request).await.unwrap();
    let list = ListTopicSubscriptionsRequest { topic: topic.clone(), ..Default::default() };
    let listed = publisher.list_topic_subscriptions(list).await.unwrap().into_inner();
    assert_eq!(listed.subscriptions, std::slice::from_ref(&name));
    publisher.delete_topic(DeleteTopicRequest { topic: topic.clone() }).await.unwrap();
    assert_eq!(shown(rig, &name).await.unwrap().topic, "_deleted-topic_");

    // A new topic of that name is another one: the old subscription stays cut off.
    publisher.create_topic(named(&topic)).await.unwrap();
    assert_eq!(shown(rig, &name).await.unwrap().topic, "_deleted-topic_");
    let list = ListTopicSubscriptionsRequest { topic, ..Default::default() };
    let listed = publisher.list_topic_subscriptions(list).await.unwrap().into_inner();
    assert!(listed.subscriptions.is_empty());
    let pull =
        wire::pubsub::PullRequest { subscription: name, max_messages: 10, ..Default::default() };
    let pulled = rig.subscriber().await.pull(pull).await.unwrap().into_inner();
    let data = pulled.received_messages[0].decode_message().unwrap().data;
    assert_eq!(data.as_ref(), b"left over");
}

async fn a_deleted_subscription_is_gone(rig: &Rig) {
    let (_, name) = rig.pair().await;
    let mut subscriber = rig.subscriber().await;
    let delete = DeleteSubscriptionRequest { subscription: name.clone() };
    subscriber.delete_subscription(delete.clone()).await.unwrap();
    assert_eq!(shown(rig, &name).await.unwrap_err().code(), Code::NotFound);
    let again = subscriber.delete_subscription(delete).await.unwrap_err();
    assert_eq!(again.code(), Code::NotFound);
    let list = ListSubscriptionsRequest {
        project: "projects/p".to_owned(),
        ..ListSubscriptionsRequest::default()
    };
    let listed = subscriber.list_subscriptions(list).await.unwrap().into_inner();
    assert!(listed.subscriptions.is_empty());
}

async fn what_is_refused_is_not_made(rig: &Rig) {
    let (topic, name) = rig.pair().await;
    let mut subscriber = rig.subscriber().await;
    let written = Subscription {
        name: subscription("written"),
        topic,
        message_transforms: vec![Default::default()],
        ..Subscription::default()
    };
    let refused = subscriber.create_subscription(written).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("message_transforms[0]"), "{refused}");
    assert_eq!(shown(rig, &subscription("written")).await.unwrap_err().code(), Code::NotFound);
    let pull =
        ModifyPushConfigRequest { subscription: name, push_config: Some(PushConfig::default()) };
    subscriber.modify_push_config(pull).await.unwrap();
}

async fn a_topic_is_live_by_label_or_by_the_postrider_object(rig: &Rig) {
    let path = "/v1/projects/p/topics/changes";
    let made = rig.put(path, json!({"postrider": {"live": true}})).await.ok();
    assert_eq!(made["labels"], json!({"postrider-live": "true"}));
    assert_eq!(rig.get(path).await.ok(), made);
    assert_eq!(rig.get("/v1/projects/p/topics").await.ok(), json!({"topics": [made]}));
    let update = |topic: Value, mask: &str| json!({"topic": topic, "updateMask": mask});
    let off = update(json!({"postrider": {"live": false}}), "postrider.live");
    let changed = rig.call("PATCH", path, Some(off)).await.ok();
    assert_eq!(changed["labels"], json!({"postrider-live": "false"}));
    let gone = rig.call("PATCH", path, Some(update(json!({}), "labels"))).await.ok();
    let plain = json!({"name": "projects/p/topics/changes", "state": "ACTIVE"});
    assert_eq!(gone, plain);
    let wrong = json!({"postrider": {"fifo": true}});
    let refused = rig.call("PATCH", path, Some(update(wrong, "labels"))).await;
    assert!(refused.refused(400, "INVALID_ARGUMENT").starts_with("topic.postrider.fifo: "));
    let by_grpc = UpdateTopicRequest {
        topic: Some(named("projects/p/topics/changes")),
        update_mask: mask(&["postrider.live"]),
    };
    let refused = rig.publisher().await.update_topic(by_grpc).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
}

async fn names_and_missing_resources_have_googles_codes(rig: &Rig) {
    let mut publisher = rig.publisher().await;
    for bad in ["", "orders", "projects/p/topics/ab", "projects/p/topics/goog-x"] {
        let refused = publisher.create_topic(named(bad)).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{bad}");
        assert!(refused.message().starts_with("name: "), "{refused}");
    }
    let orphan = Subscription {
        name: subscription("orphan"),
        topic: topic("missing"),
        ..Subscription::default()
    };
    let refused = rig.subscriber().await.create_subscription(orphan).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    assert_eq!(refused.message(), "topic projects/p/topics/missing not found");
}

each_engine! {
    a_topic_is_created_read_changed_listed_and_deleted,
    topics_are_listed_in_pages_by_project,
    a_subscription_shows_defaults_and_takes_updates,
    a_deleted_topic_leaves_its_subscriptions_with_their_backlog,
    a_deleted_subscription_is_gone,
    what_is_refused_is_not_made,
    a_topic_is_live_by_label_or_by_the_postrider_object,
    names_and_missing_resources_have_googles_codes,
}
