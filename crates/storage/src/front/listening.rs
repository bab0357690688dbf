//! Who is told what a log does: the listener of its current owner.

use std::sync::Arc;

use domain::{Epoch, ShardId};
use parking_lot::RwLock;

use crate::{Error, Listener};

/// The listener of a shard's current owner.
pub(crate) struct Listening {
    shard: ShardId,
    /// Locked while it is told something, so that it hears nothing more once it was taken away.
    told: RwLock<Option<Told>>,
}

struct Told {
    epoch: Epoch,
    listener: Arc<dyn Listener>,
}

impl Listening {
    pub(crate) fn new(shard: ShardId) -> Self {
        Self { shard, told: RwLock::new(None) }
    }

    /// Has the owner of `epoch` told from now on. One before it is told that it is fenced, and then
    /// nothing more.
    pub(crate) fn begin(&self, epoch: Epoch, listener: Arc<dyn Listener>) {
        let before = {
            let mut told = self.told.write();
            if told.as_ref().is_some_and(|other| other.epoch > epoch) {
                return;
            }
            told.replace(Told { epoch, listener })
        };
        if let Some(Told { epoch, listener }) = before {
            listener.failed(&Error::Fenced { shard: self.shard, epoch });
        }
    }

    /// Tells the owner of `epoch`, or an earlier one, nothing more once this returns.
    pub(crate) fn end(&self, epoch: Epoch) {
        let ended = self.told.write().take_if(|told| told.epoch <= epoch);
        // Whatever it holds may come back to here.
        drop(ended);
    }

    /// Tells the listener, if there is one.
    pub(crate) fn tell(&self, what: impl FnOnce(&dyn Listener)) {
        // It may come back to here.
        if let Some(told) = &*self.told.read_recursive() {
            what(told.listener.as_ref());
        }
    }
}
