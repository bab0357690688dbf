//! The suite that every engine passes: a case for each promise in the traits' comments.
//!
//! A case is a function whose name states the promise. Live cases need a fresh engine each; the
//! others close the store and open it again, and are for engines that keep what they are given.
//! Every case works on the first shard, however many there are.

mod attempts;
mod catalogue;
mod commit;
mod owners;
mod progress;
mod read;
mod reopen;
mod support;
mod trim;

use std::fmt;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use self::support::Held;
use crate::{Engine, Error};

/// A store under test.
pub trait Store: Send + 'static {
    /// The engine over it.
    fn engine(&self) -> Engine;
}

/// A store that keeps what it is given.
pub trait Durable: Store + Sized {
    /// Closes it and opens it again.
    fn reopen(self) -> BoxFuture<'static, Self>;
}

impl Store for Engine {
    fn engine(&self) -> Engine {
        self.clone()
    }
}

/// A promise that an engine did not keep.
#[derive(Debug)]
pub struct Broken {
    /// The promise: the name of the case.
    pub promise: &'static str,
    /// What was seen instead.
    pub seen: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broken promise `{}`: {}", self.promise, self.seen)
    }
}

/// What a case found instead of what it was promised.
#[derive(Debug)]
struct Seen(String);

impl From<Error> for Seen {
    fn from(error: Error) -> Self {
        Self(format!("unexpected error: {error}"))
    }
}

type Check = Result<(), Seen>;
type Case<S> = (&'static str, fn(S) -> BoxFuture<'static, Check>);

/// A case that takes this long hangs.
const CASE_TIME_MAX: Duration = Duration::from_secs(30);

/// Runs every case that needs no reopening, each on a fresh store; returns what was broken.
pub async fn run_live<S: Store>(fresh: impl AsyncFn() -> S) -> Vec<Broken> {
    let groups = [
        owners::CASES,
        commit::CASES,
        read::CASES,
        trim::CASES,
        catalogue::CASES,
        progress::CASES,
        attempts::CASES,
    ];
    let mut broken = Vec::new();
    for (promise, case) in groups.into_iter().flatten() {
        let store = fresh().await;
        let held = Held::open(&store.engine());
        let case = async move { case(held.await?).await };
        broken.extend(judge(promise, case.boxed()).await);
    }
    broken
}

/// Runs every case that closes the store and opens it again, each on a fresh store; returns what
/// was broken.
pub async fn run_reopening<S: Durable>(fresh: impl AsyncFn() -> S) -> Vec<Broken> {
    let mut broken = Vec::new();
    let groups = [reopen::cases(), catalogue::reopening(), attempts::reopening()];
    for (promise, case) in groups.into_iter().flatten() {
        broken.extend(judge(promise, case(fresh().await)).await);
    }
    broken
}

async fn judge(promise: &'static str, case: BoxFuture<'static, Check>) -> Option<Broken> {
    let seen = match tokio::time::timeout(CASE_TIME_MAX, case).await {
        Ok(Ok(())) => return None,
        Ok(Err(Seen(what))) => what,
        Err(_) => "no answer: it hangs".to_owned(),
    };
    Some(Broken { promise, seen })
}

/// Names cases after their functions.
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        &[$((stringify!($case), |subject| Box::pin($case(subject)))),*]
    };
}
use cases;
