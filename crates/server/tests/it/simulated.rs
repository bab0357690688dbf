//! A server on the disk engine over a disk that does what a test says.

use std::sync::Arc;

use server::Server;
use storage::disk::{self, Opened};
use tempfile::TempDir;
use testkit::SimDisk;
use tokio::task::JoinSet;
use tonic::{Response, Status};
use wire::pubsub::{PublishRequest, PublishResponse, Subscription, Topic};

use crate::rig::{config, message, publisher, subscriber, subscription, topic};

/// The server, its disk, and a topic `orders` with a subscription `billing`.
pub(crate) struct Simulated {
    pub(crate) disk: SimDisk,
    pub(crate) opened: Opened,
    pub(crate) server: Server,
    _folder: TempDir,
}

impl Simulated {
    /// `more` is TOML with sections; `made` is the subscription, but for its names.
    pub(crate) async fn start(more: &str, made: Subscription) -> Self {
        let folder = TempDir::new().unwrap();
        let disk = SimDisk::new();
        let options = disk::Options {
            wal_segment_bytes: 256 << 10,
            wal_max_bytes: 4 << 20,
            reserve_bytes: 64 << 10,
            ..disk::Options::default()
        };
        let database = folder.path().join("store.sqlite");
        let opened = disk::open_on(Arc::new(disk.clone()), &database, options).unwrap();
        let config = config(&folder, "disk", more);
        let server = Server::start_on(&config, opened.engine.clone()).await.unwrap();
        let topic_made = Topic { name: topic("orders"), ..Topic::default() };
        publisher(server.address()).await.create_topic(topic_made).await.unwrap();
        let made = Subscription { name: subscription("billing"), topic: topic("orders"), ..made };
        subscriber(server.address()).await.create_subscription(made).await.unwrap();
        Self { disk, opened, server, _folder: folder }
    }

    /// A publish under way: it waits for a sync that the disk holds back until released.
    pub(crate) async fn publish_held(&self) -> JoinSet<Result<Response<PublishResponse>, Status>> {
        let address = self.server.address();
        self.disk.hold_syncs("wal/");
        let mut publishing = JoinSet::new();
        publishing.spawn(async move { publisher(address).await.publish(one_message()).await });
        self.wait_for_held_sync().await;
        publishing
    }

    /// Returns once the disk holds a sync back.
    pub(crate) async fn wait_for_held_sync(&self) {
        let disk = self.disk.clone();
        tokio::task::spawn_blocking(move || disk.wait_for_held_sync()).await.unwrap();
    }
}

pub(crate) fn one_message() -> PublishRequest {
    PublishRequest { topic: topic("orders"), messages: vec![message("x")] }
}
