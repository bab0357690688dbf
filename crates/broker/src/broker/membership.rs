//! This node among others: its lease, renewed each second.

use std::sync::Arc;
use std::time::Duration;

use clock::tasks;
use domain::Moment;
use storage::{Member, Members};

use super::Broker;
use crate::error::Result;
use crate::lease::Lease;

/// How often the lease is renewed.
const RENEW_EVERY: Duration = Duration::from_secs(1);

/// How long to wait after the store did not renew it.
const RETRY_AFTER: Duration = Duration::from_millis(250);

impl Broker {
    /// Becomes a member of the cluster, which others reach at `address`, and stays one by renewing
    /// its lease until it is closed. A node that loses its lease lets go of its shards and joins
    /// anew. Does nothing where there is no cluster.
    pub async fn join(self: &Arc<Self>, address: String) -> Result<()> {
        let Some((members, lease)) = self.membership() else { return Ok(()) };
        let member = Member { node: self.host.options.node, address, labels: Vec::new() };
        let asked = self.host.clock.now();
        members.join(member.clone()).await?;
        lease.renewed(asked, members.lease());
        let renewal = Arc::clone(self).renew_for_ever(member);
        self.chores.lock().push(tasks::spawn("lease renewal", renewal));
        Ok(())
    }

    /// Ends the lease, if there is one, so that others need not wait for its end.
    pub(super) async fn leave(&self) {
        let Some((members, lease)) = self.membership() else { return };
        lease.lost();
        if let Err(error) = members.leave(self.host.options.node).await {
            tracing::warn!(%error, "could not give the lease back; it ends by itself");
        }
    }

    fn membership(&self) -> Option<(&Arc<dyn Members>, &Arc<Lease>)> {
        self.engine.members.as_ref().zip(self.host.lease.as_ref())
    }

    async fn renew_for_ever(self: Arc<Self>, member: Member) {
        let Some((members, lease)) = self.membership() else { return };
        let clock = &self.host.clock;
        loop {
            clock.sleep_until(clock.now().plus(RENEW_EVERY)).await;
            let mut asked = clock.now();
            while !self.renew_once(&**members, lease, &member, asked).await {
                clock.sleep_until(clock.now().plus(RETRY_AFTER)).await;
                asked = clock.now();
            }
        }
    }

    async fn renew_once(
        &self,
        members: &dyn Members,
        lease: &Lease,
        member: &Member,
        asked: Moment,
    ) -> bool {
        let renewed = match members.renew(member.node).await {
            Err(storage::Error::NotFound) => {
                lease.lost();
                tracing::warn!("the lease is over: letting go of all shards, and joining anew");
                self.let_go_of_all().await;
                self.join_anew(members, member).await
            }
            other => other,
        };
        match renewed {
            Ok(()) => lease.renewed(asked, members.lease()),
            Err(error) => tracing::warn!(%error, "the lease was not renewed; trying again"),
        }
        lease.check().is_ok()
    }

    /// Gives back first what the store still has this node down for: it does not run it anymore.
    async fn join_anew(&self, members: &dyn Members, member: &Member) -> storage::Result<()> {
        members.leave(member.node).await?;
        members.join(member.clone()).await
    }

    /// Others may have taken them over: nothing can be saved anymore.
    async fn let_go_of_all(&self) {
        for id in self.open_shards() {
            if let Err(error) = self.abandon_shard(id).await {
                tracing::warn!(shard = id.0, %error, "ended with an error");
            }
        }
    }
}
