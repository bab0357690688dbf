//! What clients do once: make, publish, look, send elsewhere, replay, delete.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use broker::{LetterPlace, ReplayRequest, SeekTarget};
use clock::tasks;
use domain::delivery::Ordering;
use domain::filter::Filter;
use domain::replay::{Destination, Selection};
use domain::{DeadLetterPolicy, Offset, ProjectName, Timestamp};
use futures::future::join_all;

use super::consumers::{DEADLINE, consume};
use super::messages::message;
use super::{snapshot_name, subscription_name, taken, topic_name};
use crate::executor::Node;
use crate::history::{Answer, Ask, Event, Goal, Id, Sent};
use crate::net::{Net, Server};
use crate::scenario::{Draft, Subscription, To};

/// How long someone waits who makes something that must be there.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
/// Deliveries until a message is given up.
pub(crate) const ATTEMPTS_MAX: u32 = 5;

/// Makes everything the scenario has, and consumers for it.
pub(crate) async fn set_up(net: Arc<Net>) {
    let topics = net.scenario.topics.clone();
    join_all(topics.iter().map(|topic| make_topic(&net, topic))).await;
    let wanted: Vec<_> = net.scenario.subscriptions.iter().filter(|one| !one.is_left_out).collect();
    join_all(wanted.iter().map(|subscription| make_subscription(&net, subscription))).await;
    for subscription in wanted {
        start_consumers(&net, subscription);
    }
}

fn start_consumers(net: &Arc<Net>, subscription: &Subscription) {
    for (at, consumer) in subscription.consumers.iter().enumerate() {
        let seed = subscription.id.bytes().fold(at as u64 + 1, |seed, byte| {
            seed.wrapping_mul(31).wrapping_add(byte.into()) & 0xffff_ffff
        });
        let consuming = consume(Arc::clone(net), subscription.clone(), *consumer, seed);
        drop(tasks::spawn("consumer", consuming));
    }
}

/// Tries until it is there.
async fn make_topic(net: &Arc<Net>, id: &Id) {
    while !create_topic(net, id).await {
        tasks::sleep(AGAIN_AFTER).await;
    }
}

async fn make_subscription(net: &Arc<Net>, subscription: &Subscription) {
    while !create_subscription(net, subscription).await {
        tasks::sleep(AGAIN_AFTER).await;
    }
}

/// Nobody else has these names: what exists was made by an earlier call.
fn or_exists<T>(made: broker::Result<T>) -> broker::Result<()> {
    match made {
        Ok(_) | Err(broker::Error::AlreadyExists(..)) => Ok(()),
        Err(error) => Err(error),
    }
}

async fn create_topic(net: &Arc<Net>, id: &Id) -> bool {
    let call = net.history.ask(Ask::CreateTopic(Arc::clone(id)));
    let settings = domain::Topic::new(topic_name(id));
    let work = move |server: Server| {
        let settings = settings.clone();
        async move {
            let made = server.broker.create_topic(settings).await;
            taken(or_exists(made), |()| Answer::Done)
        }
    };
    matches!(net.ask(id, call, work).await, Some(Ok(())))
}

async fn create_subscription(net: &Arc<Net>, subscription: &Subscription) -> bool {
    let call = net.history.ask(Ask::CreateSubscription(Arc::clone(&subscription.id)));
    let settings = settings(subscription);
    let work = move |server: Server| {
        let settings = settings.clone();
        async move {
            let made = server.broker.create_subscription(settings).await;
            taken(or_exists(made), |()| Answer::Done)
        }
    };
    matches!(net.ask(&subscription.topic, call, work).await, Some(Ok(())))
}

fn settings(subscription: &Subscription) -> domain::Subscription {
    let filter = |kind: &str| Filter::parse("filter", &format!("attributes.kind = \"{kind}\""));
    let letters = |topic: &Id| DeadLetterPolicy::new(topic_name(topic), Some(ATTEMPTS_MAX), None);
    domain::Subscription {
        message_ordering: subscription.ordering == Ordering::ByKey,
        fifo: subscription.ordering == Ordering::Fifo,
        exactly_once: subscription.exactly_once,
        retain_acked_messages: subscription.is_sought,
        filter: subscription.kind.map(|kind| filter(kind).expect("a filter")),
        dead_letter_policy: subscription.letters_to.as_ref().map(letters),
        ack_deadline: DEADLINE,
        ..domain::Subscription::new(
            subscription_name(&subscription.id),
            topic_name(&subscription.topic),
        )
    }
}

/// Publishes some messages in one call.
pub(crate) async fn publish(net: Arc<Net>, topic: Id, number: u32, drafts: Vec<Draft>) {
    let sent = |(at, draft): (usize, &Draft)| {
        let text = Arc::from(format!("{number}.{at}"));
        Sent { text, key: draft.key, kind: draft.kind }
    };
    let sent: Vec<Sent> = drafts.iter().enumerate().map(sent).collect();
    let messages: Vec<_> = sent.iter().map(message).collect();
    let call = net.history.ask(Ask::Publish(Arc::clone(&topic), sent));
    let name = topic_name(&topic);
    let work = move |server: Server| {
        let (name, messages) = (name.clone(), messages.clone());
        async move {
            taken(server.broker.publish(&name, messages).await, |published| {
                let range = published.offsets;
                Answer::Ids((range.from.0..range.to.0).collect())
            })
        }
    };
    net.ask(&topic, call, work).await;
}

/// Makes a topic with a subscription that nobody planned, and uses them.
pub(crate) async fn create(net: Arc<Net>, number: u32, drafts: Vec<Draft>) {
    let subscription = net.scenario.extra(number);
    if create_topic(&net, &subscription.topic).await
        && create_subscription(&net, &subscription).await
    {
        start_consumers(&net, &subscription);
        publish(net, subscription.topic, number, drafts).await;
    }
}

/// Deletes them again, first one, then the other.
pub(crate) async fn delete(net: Arc<Net>, number: u32) {
    let Subscription { id, topic, .. } = net.scenario.extra(number);
    net.forget(&id);
    let (name, call) =
        (subscription_name(&id), net.history.ask(Ask::DeleteSubscription(Arc::clone(&id))));
    let work = move |server: Server| {
        let name = name.clone();
        async move { taken(server.broker.delete_subscription(&name).await, |()| Answer::Done) }
    };
    net.ask(&topic, call, work).await;
    let (name, call) = (topic_name(&topic), net.history.ask(Ask::DeleteTopic(Arc::clone(&topic))));
    let work = move |server: Server| {
        let name = name.clone();
        async move { taken(server.broker.delete_topic(&name).await, |()| Answer::Done) }
    };
    net.ask(&topic, call, work).await;
}

/// Lists everything. Every node has its part.
pub(crate) async fn list(net: Arc<Net>) {
    let call = net.history.ask(Ask::List);
    let mut found = BTreeSet::new();
    for node in 1..=net.scenario.nodes() {
        let Some(server) = net.server(Node(node)) else { return };
        // One that ends has let go of what it had, and its server answers nothing more.
        if net.is_closing(Node(node)) {
            return;
        }
        found.extend(list_one(&server));
    }
    let life = net.life(Node(1));
    net.history.note(Event::Answered(call, life, Answer::Found(found)));
}

fn list_one(server: &Server) -> BTreeSet<String> {
    let project = ProjectName::parse("project", "projects/p").expect("a name");
    let (topics, _) = server.broker.list_topics(&project, None, 1_000);
    let (subscriptions, _) = server.broker.list_subscriptions(&project, None, 1_000);
    let topics = topics.iter().map(|one| format!("topics/{}", one.name().id()));
    let subscriptions =
        subscriptions.iter().map(|one| format!("subscriptions/{}", one.name().id()));
    topics.chain(subscriptions).collect()
}

/// Takes a snapshot.
pub(crate) async fn snapshot(net: Arc<Net>, at: usize, number: u64) {
    let subscription = &net.scenario.subscriptions[at];
    let id: Id = Arc::from(format!("{}-{number}", subscription.id));
    let (of, name) = (Arc::clone(&subscription.id), snapshot_name(&id));
    let call = net.history.ask(Ask::Snapshot(Arc::clone(&of), id));
    let work = move |server: Server| {
        let (of, name) = (subscription_name(&of), name.clone());
        async move {
            let (labels, tags) = (BTreeMap::new(), BTreeMap::new());
            let made = server.broker.create_snapshot(name, &of, labels, tags).await;
            taken(made, |_| Answer::Done)
        }
    };
    net.ask(&subscription.topic, call, work).await;
}

/// The last snapshot of a subscription that was answered.
fn last_snapshot(net: &Net, of: &Id) -> Option<Id> {
    net.history.look(|entries| {
        let mut asked = BTreeMap::new();
        let mut last = None;
        for entry in entries {
            match &entry.event {
                Event::Asked(call, Ask::Snapshot(id, name)) if id == of => {
                    asked.insert(*call, Arc::clone(name));
                }
                Event::Answered(call, _, Answer::Done) => {
                    last = asked.get(call).cloned().or(last);
                }
                _ => {}
            }
        }
        last
    })
}

/// Sends a subscription elsewhere.
pub(crate) async fn seek(net: Arc<Net>, at: usize, to: To) {
    let Subscription { id, topic, .. } = &net.scenario.subscriptions[at];
    let snapshot = last_snapshot(&net, id).filter(|_| to == To::Snapshot);
    let (goal, target) = match (to, snapshot) {
        (To::Snapshot, Some(name)) => {
            let target = SeekTarget::Snapshot(snapshot_name(&name));
            (Goal::Snapshot(name), target)
        }
        (To::Future, _) => (Goal::Future, SeekTarget::Time(Timestamp(u64::MAX / 4))),
        (To::Past | To::Snapshot, _) => (Goal::Past, SeekTarget::Time(Timestamp(0))),
    };
    let (call, name) = (net.history.ask(Ask::Seek(Arc::clone(id), goal)), subscription_name(id));
    let work = move |server: Server| {
        let (name, target) = (name.clone(), target.clone());
        async move { taken(server.broker.seek(&name, target).await, |()| Answer::Done) }
    };
    net.ask(topic, call, work).await;
}

/// Has letters of a subscription replayed that were seen and were not replayed so far.
pub(crate) async fn replay(net: Arc<Net>, at: usize) {
    let subscription = &net.scenario.subscriptions[at];
    let letters = net.take_letters(&subscription.id);
    let Some(target) = subscription.letters_to.clone().filter(|_| !letters.is_empty()) else {
        return;
    };
    let id = Arc::clone(&subscription.id);
    let call = net.history.ask(Ask::Replay(Arc::clone(&id), letters.clone()));
    let work = move |server: Server| {
        let request = ReplayRequest {
            place: LetterPlace::Subscription(subscription_name(&id)),
            selection: Selection::Messages(letters.iter().map(|id| Offset(*id)).collect()),
            to: Destination::Subscription,
            per_second: 0,
            again: false,
        };
        async move { taken(server.broker.replay_letters(request).await, |_| Answer::Done) }
    };
    net.ask(&target, call, work).await;
}
