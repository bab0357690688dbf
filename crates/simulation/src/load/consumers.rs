//! Consumers: they take messages, and ack, nack, keep or forget them.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use clock::tasks;
use domain::delivery::{AckId, Flow, Lease};
use testkit::Random;
use tokio::sync::mpsc;

use super::messages::see;
use super::{is_elsewhere, subscription_name, taken};
use crate::executor::run_on;
use crate::history::{Answer, Ask, Event, Id, Seen};
use crate::net::{Net, Server, Taken};
use crate::scenario::{Consumer, Subscription};

/// The ack deadline of every subscription.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);
const PULL_WAIT: Duration = Duration::from_secs(5);
/// After how many responses a stream is closed and opened anew.
const RESPONSES_MAX: u32 = 20;

type Given = Vec<(Seen, AckId)>;

/// What a consumer does with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Ack(Duration),
    AckTwice(Duration),
    Nack(Duration),
    ExtendAndAck(Duration),
    Forget,
}

/// Takes messages of a subscription for as long as the world lasts.
pub(crate) async fn consume(
    net: Arc<Net>,
    subscription: Subscription,
    consumer: Consumer,
    seed: u64,
) {
    let mut random = Random::seeded(seed);
    let mut number = seed << 16;
    while !net.is_forgotten(&subscription.id) {
        number += 1;
        if consumer.is_stream {
            stream(&net, &subscription, consumer, number).await;
        } else {
            pull(&net, &subscription, consumer, number).await;
        }
        tasks::sleep(Duration::from_millis(1 + random.below(100))).await;
    }
}

async fn stream(net: &Arc<Net>, subscription: &Subscription, consumer: Consumer, number: u64) {
    let node = net.store.owner(net, &subscription.topic, number);
    let Some(server) = net.server(node) else {
        return tasks::sleep(Duration::from_millis(200)).await;
    };
    let (given, mut taken) = mpsc::unbounded_channel();
    let (there, id) = (Arc::clone(net), Arc::clone(&subscription.id));
    run_on(node, "stream", serve_stream(there, server, id, consumer, number, given));
    for _ in 0..RESPONSES_MAX {
        match taken.recv().await {
            Some(leases) => settle(net, subscription, leases),
            None => break,
        }
    }
}

/// The node's side of a stream.
async fn serve_stream(
    net: Arc<Net>,
    server: Server,
    id: Id,
    consumer: Consumer,
    number: u64,
    given: mpsc::UnboundedSender<Given>,
) {
    let flow = Flow { messages_max: consumer.most.into(), bytes_max: 0 };
    let Ok(mut stream) = server.broker.stream(&subscription_name(&id), flow, DEADLINE) else {
        return;
    };
    loop {
        let leases = tokio::select! {
            biased;
            () = given.closed() => return,
            leases = poll_fn(|context| stream.poll_lease(context)) => leases,
        };
        let Ok(leases) = leases else { return };
        // A client that is gone does not get them, and they come again.
        drop(given.send(note(&net, &server, &id, number, leases)));
    }
}

fn note(net: &Net, server: &Server, id: &Id, number: u64, leases: Vec<Lease>) -> Given {
    let seen = leases.iter().map(|lease| (see(&net.history, lease), lease.ack_id));
    let given: Given = seen.collect();
    given.iter().for_each(|(seen, _)| net.note_letter(seen));
    let seen = given.iter().map(|(seen, _)| seen.clone()).collect();
    net.history.note(Event::Leased(Arc::clone(id), number, server.life, seen));
    given
}

async fn pull(net: &Arc<Net>, subscription: &Subscription, consumer: Consumer, number: u64) {
    let node = net.store.owner(net, &subscription.topic, number);
    let Some(server) = net.server(node) else {
        return tasks::sleep(Duration::from_millis(200)).await;
    };
    let (given, mut taken) = mpsc::unbounded_channel();
    let (there, id) = (Arc::clone(net), Arc::clone(&subscription.id));
    run_on(node, "pull", async move {
        let (name, most) = (subscription_name(&id), usize::from(consumer.most));
        match server.broker.pull(&name, most, PULL_WAIT).await {
            Ok(leases) if !leases.is_empty() => {
                drop(given.send(note(&there, &server, &id, number, leases)));
            }
            Ok(_) | Err(_) => {}
        }
    });
    let leases = tokio::select! {
        biased;
        leases = taken.recv() => leases,
        () = tasks::sleep(3 * PULL_WAIT) => None,
    };
    if let Some(leases) = leases {
        settle(net, subscription, leases);
    }
}

/// Does with each message what the seed says; those with the same fate go in one call.
fn settle(net: &Arc<Net>, subscription: &Subscription, leases: Given) {
    let mut groups: Vec<(Deed, Given)> = Vec::new();
    for (seen, ack_id) in leases {
        let before = net.count_delivery(&subscription.id, &seen.text);
        let deed = decide(net, subscription, &seen, before);
        match groups.iter_mut().find(|(other, _)| *other == deed) {
            Some((_, group)) => group.push((seen, ack_id)),
            None => groups.push((deed, vec![(seen, ack_id)])),
        }
    }
    for (deed, group) in groups {
        let (net, subscription) = (Arc::clone(net), subscription.clone());
        drop(tasks::spawn("settler", async move { act(&net, &subscription, deed, group).await }));
    }
}

/// Drawn from the message and how often it came, so that it does not depend on other steps.
fn decide(net: &Net, subscription: &Subscription, seen: &Seen, before: u32) -> Deed {
    let mut seed = net.scenario.seed ^ u64::from(before).wrapping_mul(0x9e37_79b9);
    for byte in seen.text.bytes().chain(subscription.id.bytes()) {
        seed = (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let mut random = Random::seeded(seed);
    let soon = Duration::from_millis(random.pick(&[0, 0, 1, 30, 400]));
    let is_poison = subscription.letters_to.is_some() && seen.text.ends_with('3');
    if is_poison && seen.original.is_none() {
        return Deed::Nack(soon);
    }
    // A replayed one that is given up again would be another letter of the same message.
    if net.is_calm() || seen.original.is_some() || subscription.id.as_ref() == "undertaker" {
        return Deed::Ack(Duration::from_millis(random.below(3)));
    }
    match random.below(100) {
        0..65 => Deed::Ack(soon),
        65..70 => Deed::AckTwice(soon),
        70..83 => Deed::Nack(soon),
        83..88 => Deed::ExtendAndAck(Duration::from_secs(random.below(15))),
        // Too late, or nearly so.
        88..94 => Deed::Ack(Duration::from_millis(8_000 + random.below(6_000))),
        _ => Deed::Forget,
    }
}

async fn act(net: &Arc<Net>, subscription: &Subscription, deed: Deed, group: Given) {
    match deed {
        Deed::Ack(wait) => {
            tasks::sleep(wait).await;
            ack(net, subscription, &group).await;
        }
        Deed::AckTwice(wait) => {
            tasks::sleep(wait).await;
            ack(net, subscription, &group).await;
            tasks::sleep(Duration::from_millis(20)).await;
            ack(net, subscription, &group).await;
        }
        Deed::Nack(wait) => {
            tasks::sleep(wait).await;
            extend(net, subscription, &group, Duration::ZERO).await;
        }
        Deed::ExtendAndAck(wait) => {
            extend(net, subscription, &group, 2 * DEADLINE).await;
            tasks::sleep(wait).await;
            ack(net, subscription, &group).await;
        }
        Deed::Forget => {}
    }
}

fn split(group: &Given) -> (Vec<u64>, Vec<AckId>) {
    group.iter().map(|(seen, ack_id)| (seen.lease, *ack_id)).unzip()
}

async fn ack(net: &Arc<Net>, subscription: &Subscription, group: &Given) {
    let (numbers, ids) = split(group);
    let call = net.history.ask(Ask::Ack(Arc::clone(&subscription.id), numbers));
    let name = subscription_name(&subscription.id);
    let work = move |server: Server| {
        let (name, ids) = (name.clone(), ids.clone());
        async move {
            let found = match server.broker.subscription(&name) {
                Ok(found) => found,
                Err(error) if is_elsewhere(&error) => return Taken::Elsewhere,
                Err(error) => return taken(Err(error), |()| Answer::Done),
            };
            taken(found.acknowledge(&ids).await, |report| Answer::DoneBut(report.stale))
        }
    };
    net.ask(&subscription.topic, call, work).await;
}

async fn extend(net: &Arc<Net>, subscription: &Subscription, group: &Given, deadline: Duration) {
    let (numbers, ids) = split(group);
    let id = Arc::clone(&subscription.id);
    let ask = if deadline.is_zero() { Ask::Nack(id, numbers) } else { Ask::Extend(id, numbers) };
    let call = net.history.ask(ask);
    let name = subscription_name(&subscription.id);
    let work = move |server: Server| {
        let (name, ids) = (name.clone(), ids.clone());
        async move {
            let found = match server.broker.subscription(&name) {
                Ok(found) => found,
                Err(error) if is_elsewhere(&error) => return Taken::Elsewhere,
                Err(error) => return taken(Err(error), |()| Answer::Done),
            };
            let done = found.modify_ack_deadline(&ids, deadline).await;
            taken(done, |report| Answer::DoneBut(report.stale))
        }
    };
    net.ask(&subscription.topic, call, work).await;
}
