//! What makes several nodes a cluster: someone who shares the shards out among them, and the way
//! from one to another.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use broker::{Broker, Error, Parcel, Peers, Result};
use clock::tasks;
use domain::{NodeId, ShardId};
use futures::FutureExt;
use futures::future::BoxFuture;
use storage::View;
use tokio::sync::oneshot;

use crate::executor::{Node, run_on};
use crate::history::{Event, Life};
use crate::net::Net;

/// How often a node looks whether a shard has no owner.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long the broker of a shard that moves may take to end what it does there.
const GRACE: Duration = Duration::from_millis(100);
/// How long a node waits for another's answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The other nodes, for a broker.
pub(crate) struct Others {
    net: Weak<Net>,
}

impl Others {
    pub(crate) fn new(net: &Arc<Net>) -> Self {
        Self { net: Arc::downgrade(net) }
    }
}

impl Peers for Others {
    fn deliver(&self, shard: ShardId, parcel: Parcel) -> BoxFuture<'static, Result<()>> {
        let net = self.net.upgrade();
        async move {
            let owner = net.as_ref().and_then(|net| net.store.shared()?.owner(net, shard));
            let server = owner.zip(net).and_then(|(node, net)| Some((node, net.server(node)?)));
            let Some((node, server)) = server else { return Err(Error::NotOwner(shard)) };
            let (answer, answered) = oneshot::channel();
            run_on(node, "parcel", async move {
                // The sender may be gone.
                drop(answer.send(server.broker.accept(parcel).await));
            });
            tokio::select! {
                biased;
                answer = answered => answer.unwrap_or(Err(Error::Stalled)),
                () = tasks::sleep(PATIENCE) => Err(Error::Stalled),
            }
        }
        .boxed()
    }
}

/// Takes shards that nobody has, and gives away those that are to be elsewhere, for ever. The
/// simplest that works: every shard has a favorite among the living nodes.
pub(crate) async fn balance(net: Arc<Net>, node: Node, life: Life, broker: Arc<Broker>) {
    let members = net.store.shared().and_then(|store| store.members(node));
    let Some(members) = members else { return };
    while broker.join(format!("node-{}", node.0)).await.is_err() {
        tasks::sleep(LOOK_EVERY).await;
    }
    loop {
        if let Ok(view) = members.view().await {
            look(&net, node, life, &broker, &view).await;
        }
        tasks::sleep(LOOK_EVERY).await;
    }
}

async fn look(net: &Arc<Net>, node: Node, life: Life, broker: &Broker, view: &View) {
    let me = NodeId(life.0.into());
    let living: BTreeMap<NodeId, usize> = view
        .members
        .iter()
        .filter_map(|member| Some((member.node, net.node_of(member.node)?.0)))
        .collect();
    let open = broker.open_shards();
    for (shard, owner) in (0..).map(ShardId).zip(&view.shards) {
        let favorite = favorite(net, shard, &living);
        let is_free = owner.is_none_or(|(owner, _)| !living.contains_key(&owner));
        let is_open = open.contains(&shard);
        // One that lost its lease is on record as the owner of what it had to let go of.
        let is_mine = owner.is_some_and(|(owner, _)| owner == me);
        if !is_open && (is_mine || is_free && favorite == Some(node.0)) {
            if broker.open_shard(shard).await.is_ok() {
                net.history.note(Event::Owns(node, shard.0, true));
            }
        } else if is_open && favorite.is_some_and(|favorite| favorite != node.0) {
            // It may be over by itself; then another can take it as well.
            drop(broker.close_shard(shard, GRACE).await);
            net.history.note(Event::Owns(node, shard.0, false));
        }
    }
}

/// Who is to have a shard: whom it was handed to, or else whom its number points to.
fn favorite(net: &Net, shard: ShardId, living: &BTreeMap<NodeId, usize>) -> Option<usize> {
    let mut nodes: Vec<usize> = living.values().copied().collect();
    nodes.sort_unstable();
    nodes.dedup();
    let asked = net.wanted(shard).filter(|node| nodes.contains(node));
    let at = usize::try_from(shard.0).unwrap_or(0) % nodes.len().max(1);
    asked.or_else(|| nodes.get(at).copied())
}
