//! Topics, subscriptions and snapshots: loaded at the start, made, changed and ended.

mod exporting;
mod following;
mod loading;
mod pushing;
mod snapshots;
mod subscriptions;
mod topics;

pub use loading::check_definition;

use std::sync::Arc;

use domain::ShardId;
use storage::Kind;

use crate::catalogue::Catalogue;
use crate::dead_letter_admin::DeadLetterAdmin;
use crate::directory::Directory;
use crate::error::Resource;
use crate::export::Exports;
use crate::live::Live;
use crate::push::attempts::Attempts;
use crate::push::scheduler::Scheduler;
use crate::registry::Registry;
use crate::runtime::Host;
use crate::schema::Schemas;
use crate::seek::Seeker;
use crate::shards::OpenShards;

/// How the catalogue names each, and errors do.
const TOPIC: (Kind, Resource) = (Kind::Topic, Resource::Topic);
const SUBSCRIPTION: (Kind, Resource) = (Kind::Subscription, Resource::Subscription);
const SNAPSHOT: (Kind, Resource) = (Kind::Snapshot, Resource::Snapshot);

/// The name under which no new topic's offsets may fall below is kept: offsets of deleted topics
/// are never used again.
const OFFSET_FLOOR: &str = "offset-floor";

/// The name under which it is kept when subscriptions were last used: microseconds since 1970 by
/// subscription id.
const USED: &str = "subscriptions-used";

/// The name under which one of these is kept for a shard. A store of one shard has had its names
/// since before there were several.
fn kept_for(name: &str, shard: ShardId) -> String {
    match shard {
        ShardId(0) => name.to_owned(),
        ShardId(number) => format!("{name}/{number}"),
    }
}

/// Whether that is what is kept under `name` for any shard.
fn is_kept_as(what: &str, name: &str) -> bool {
    name.strip_prefix(what).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Changes what there is, and has those who depend on it look again.
pub(crate) struct Admin {
    pub(crate) host: Arc<Host>,
    pub(crate) shards: Arc<OpenShards>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) schemas: Arc<Schemas>,
    pub(crate) seeker: Arc<Seeker>,
    pub(crate) dependants: Dependants,
}

/// Who looks again at what has changed.
pub(crate) struct Dependants {
    pub(crate) dead_letters: Arc<DeadLetterAdmin>,
    pub(crate) push: Arc<Scheduler>,
    pub(crate) export: Arc<Exports>,
    pub(crate) attempts: Arc<Attempts>,
    pub(crate) live: Arc<Live>,
}
