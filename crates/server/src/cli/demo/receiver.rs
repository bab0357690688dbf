//! The demo's endpoint: fails where the story wants it, and notes what arrives.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::cli::Failure;
use crate::cli::endpoint::{Answer, Arrived, serve};
use crate::cli::messages::data;

/// One push that arrived.
#[derive(Clone, Debug)]
pub(super) struct Push {
    pub(super) path: String,
    pub(super) text: String,
    pub(super) status: u16,
    pub(super) attributes: Value,
}

/// How a text fails: with which status, and how often.
#[derive(Clone, Copy, Debug)]
struct Fault {
    status: u16,
    times: u32,
}

#[derive(Default)]
struct Received {
    pushes: Vec<Push>,
    acked: u64,
    /// By path and text.
    faults: HashMap<(String, String), Fault>,
}

/// Pushes that are remembered; the story needs far fewer.
const PUSHES_MAX: usize = 10_000;

/// An endpoint that runs until it is dropped.
pub(super) struct Receiver {
    address: SocketAddr,
    received: Arc<Mutex<Received>>,
    _end: oneshot::Sender<()>,
}

impl Receiver {
    pub(super) fn start(runtime: &Runtime) -> Result<Self, Failure> {
        let failed = |error| Failure::failed(format!("cannot listen for pushes: {error}"));
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let received = Arc::new(Mutex::new(Received::default()));
        let taking = Arc::clone(&received);
        let (end, ended) = oneshot::channel::<()>();
        let serving = serve(
            listener,
            Arc::new(move |arrived: &Arrived| taking.lock().take(arrived)),
            async move { drop(ended.await) },
        );
        let entered = runtime.enter();
        broker::tasks::spawn("demo endpoint", serving);
        drop(entered);
        Ok(Self { address, received, _end: end })
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The next `times` pushes of `text` to `path` get `status`.
    pub(super) fn fail(&self, path: &str, text: &str, status: u16, times: u32) {
        let place = (path.to_owned(), text.to_owned());
        self.received.lock().faults.insert(place, Fault { status, times });
    }

    /// From now on all is well with what goes to `path`.
    pub(super) fn repair(&self, path: &str) {
        self.received.lock().faults.retain(|(place, _), _| place != path);
    }

    /// What has arrived at `path`, in order.
    pub(super) fn at(&self, path: &str) -> Vec<Push> {
        self.received.lock().pushes.iter().filter(|push| push.path == path).cloned().collect()
    }

    /// How many pushes were answered 200.
    pub(super) fn acked(&self) -> u64 {
        self.received.lock().acked
    }
}

impl Received {
    fn take(&mut self, arrived: &Arrived) -> Answer {
        let envelope: Value = serde_json::from_slice(&arrived.body).unwrap_or_default();
        let message = &envelope["message"];
        let text = String::from_utf8_lossy(&data(message)).into_owned();
        let status = self.status(&arrived.path, &text);
        self.acked += u64::from(status == 200);
        if self.pushes.len() < PUSHES_MAX {
            let attributes = message["attributes"].clone();
            self.pushes.push(Push { path: arrived.path.clone(), text, status, attributes });
        }
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
        Answer { status, delay: Duration::ZERO }
    }

    fn status(&mut self, path: &str, text: &str) -> u16 {
        match self.faults.get_mut(&(path.to_owned(), text.to_owned())) {
            Some(fault) if fault.times > 0 => {
                fault.times -= 1;
                fault.status
            }
            _ => 200,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_fails_as_often_as_told() {
        let mut received = Received::default();
        let place = ("/a".to_owned(), "bad".to_owned());
        received.faults.insert(place, Fault { status: 503, times: 2 });
        assert_eq!(received.status("/b", "bad"), 200);
        let statuses = ["bad", "good", "bad", "bad"].map(|text| received.status("/a", text));
        assert_eq!(statuses, [503, 200, 503, 200]);
    }
}
