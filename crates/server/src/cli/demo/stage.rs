//! Where the demo plays: a server, an endpoint, and a voice that tells what happens.

use std::cell::Cell;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::receiver::Receiver;
use crate::cli::client::{At, Client};
use crate::cli::names::Name;
use crate::cli::{Failure, print};
use crate::config::{self, Sources};
use crate::server::Server;

/// How long the demo waits for anything before it says that it did not come.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// What the demo makes.
const TOPICS: [&str; 3] = ["orders", "parcels", "given-up"];
const SUBSCRIPTIONS: [&str; 5] = ["billing", "shipping", "ledger", "strict", "given-up"];

/// Everything the demo plays with.
pub(super) struct Stage {
    pub(super) client: Client,
    pub(super) receiver: Receiver,
    at: At,
    prefix: String,
    is_fast: bool,
    step: Cell<u32>,
    runtime: Runtime,
    own: Option<OwnServer>,
}

struct OwnServer {
    server: Server,
    folder: TempDir,
}

impl Stage {
    /// On the given server, or on a temporary one.
    pub(super) fn set(at: &At, is_fast: bool) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|error| Failure::failed(format!("cannot start threads: {error}")))?;
        let mut at = at.clone();
        let own = match &at.server {
            Some(server) if !server.is_empty() => None,
            _ => {
                let own = OwnServer::start(&runtime)?;
                at.server = Some(own.server.address().to_string());
                Some(own)
            }
        };
        if at.project.is_none() {
            at.project = Some("demo".to_owned());
        }
        let client = Client::new(&at)?;
        // Several demos may play on one server, one after the other.
        let prefix = match own {
            Some(_) => String::new(),
            None => format!("demo-{}-", client.wall().seconds()),
        };
        let receiver = Receiver::start(&runtime)?;
        let step = Cell::new(0);
        Ok(Self { client, receiver, at, prefix, is_fast, step, runtime, own })
    }

    pub(super) fn open(&self) -> Result<(), Failure> {
        let place = match &self.own {
            Some(own) => {
                format!("a temporary server, with its data in {}", own.folder.path().display())
            }
            None => "the server you named".to_owned(),
        };
        self.say(&format!("Postrider at {}: {place}.", self.client.host()))?;
        self.say(&format!("An endpoint for pushes at {}.", self.receiver.url("")))
    }

    /// The last words.
    pub(super) fn end(&self) -> Result<(), Failure> {
        if self.at.json {
            let acked = self.receiver.acked();
            return print(&format!("{}\n", json!({"done": true, "pushed": acked})));
        }
        self.say("\nThat's it. Next: postrider serve, postrider --help, docs/operating/.")
    }

    /// Ends the endpoint and the server, if it is ours.
    pub(super) fn close(self) {
        let Self { own, runtime, receiver, .. } = self;
        drop(receiver);
        if let Some(OwnServer { server, folder }) = own {
            // What it kept is deleted in a moment, so it does not matter how it ends.
            drop(runtime.block_on(server.stop(std::future::ready(()))));
            drop(folder);
        }
        runtime.shutdown_background();
    }

    pub(super) fn topic(&self, id: &str) -> Result<Name, Failure> {
        self.at.topic(&format!("{}{id}", self.prefix))
    }

    pub(super) fn subscription(&self, id: &str) -> Result<Name, Failure> {
        self.at.subscription(&format!("{}{id}", self.prefix))
    }

    /// Makes a topic or subscription.
    pub(super) fn make(&self, name: &Name, body: &Value) -> Result<(), Failure> {
        self.client.put(&name.path(), body).map(drop)
    }

    /// Deletes all that was made.
    pub(super) fn clear(&self) -> Result<(), Failure> {
        if self.own.is_some() {
            return Ok(());
        }
        // What a demo that failed did not come to make cannot be deleted either.
        for id in SUBSCRIPTIONS {
            drop(self.client.delete(&self.subscription(id)?.path()));
        }
        for id in TOPICS {
            drop(self.client.delete(&self.topic(id)?.path()));
        }
        Ok(())
    }

    /// Publishes texts with these attributes, all with one ordering key.
    pub(super) fn publish(&self, topic: &Name, key: &str, texts: &[&str]) -> Result<(), Failure> {
        let messages: Vec<Value> = texts
            .iter()
            .map(|text| {
                let data = crate::cli::messages::encoded(text.as_bytes());
                json!({"data": data, "orderingKey": key, "attributes": {"kind": "demo"}})
            })
            .collect();
        let path = format!("{}:publish", topic.path());
        self.client.post(&path, &json!({ "messages": messages })).map(drop)
    }

    /// The waits between attempts.
    pub(super) fn retry_policy(&self) -> Value {
        let wait = if self.is_fast { "0.1s" } else { "1s" };
        json!({"minimumBackoff": wait, "maximumBackoff": wait})
    }

    /// A new part of the story.
    pub(super) fn part(&self, title: &str) -> Result<(), Failure> {
        self.step.set(self.step.get() + 1);
        let step = self.step.get();
        if step > 1 {
            self.pause();
        }
        if self.at.json {
            return print(&format!("{}\n", json!({"part": step, "title": title})));
        }
        print(&format!("\n{step}. {title}\n\n"))
    }

    /// Tells something.
    pub(super) fn say(&self, text: &str) -> Result<(), Failure> {
        if self.at.json {
            return print(&format!("{}\n", json!({ "say": text.trim() })));
        }
        print(&format!("{text}\n"))
    }

    /// The command that does what is done now.
    pub(super) fn command(&self, words: &str) -> Result<(), Failure> {
        self.say(&format!("   $ postrider {words}"))
    }

    fn pause(&self) {
        if !self.is_fast {
            std::thread::sleep(Duration::from_secs(3));
        }
    }

    /// Asks again and again until there is an answer.
    pub(super) fn until<T>(
        &self,
        what: &str,
        look: impl Fn() -> Result<Option<T>, Failure>,
    ) -> Result<T, Failure> {
        let end = self.client.now().plus(PATIENCE);
        loop {
            if let Some(found) = look()? {
                return Ok(found);
            }
            if self.client.now() >= end {
                return Err(Failure::failed(format!("waited a minute for {what}")));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl OwnServer {
    fn start(runtime: &Runtime) -> Result<Self, Failure> {
        let failed = |error| Failure::failed(format!("cannot create a temporary folder: {error}"));
        let folder =
            tempfile::Builder::new().prefix("postrider-demo-").tempdir().map_err(failed)?;
        let file = folder.path().join("postrider.toml");
        let data = folder.path().join("data");
        let text = format!(
            "listen = \"127.0.0.1:0\"\ndata_dir = {data:?}\nshutdown_grace = \"1s\"\n\
             [storage]\nwal_segment = \"16MiB\"\nwal_max = \"64MiB\"\n"
        );
        std::fs::write(&file, text).map_err(failed)?;
        let loaded = config::load(Sources { file: Some(file), ..Sources::default() });
        let config = loaded.map_err(Failure::failed)?.config;
        let server = runtime.block_on(Server::start(&config)).map_err(Failure::failed)?;
        Ok(Self { server, folder })
    }
}
