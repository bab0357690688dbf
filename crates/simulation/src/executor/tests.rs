use std::future::pending;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use clock::tasks;
use futures::future::poll_fn;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const ANY: Manner = Manner { in_turn: 0, poll_micros: 0 };

type Said = Arc<Mutex<Vec<String>>>;

fn say(said: &Said, what: impl Into<String>) {
    said.lock().push(what.into());
}

async fn let_others_go() {
    let mut has_waited = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Four tasks of five steps each, in the order that the seed gives them.
fn four_tasks(seed: u64) -> (Vec<String>, u64) {
    let (executor, said) = (Executor::new(seed, 1, ANY), Said::default());
    let _inside = executor.enter();
    for task in 0..4 {
        let said = Arc::clone(&said);
        drop(tasks::spawn("speaker", async move {
            for step in 0..5 {
                say(&said, format!("{task}.{step}"));
                let_others_go().await;
            }
        }));
    }
    executor.run_for(SECOND).unwrap();
    let said = said.lock().clone();
    (said, executor.trace())
}

#[test]
fn a_seed_always_gives_the_same_order_and_another_seed_another() {
    let (one, trace) = four_tasks(1);
    assert_eq!((one.clone(), trace), four_tasks(1));
    let (other, other_trace) = four_tasks(2);
    assert!(one != other && trace != other_trace);
    assert_eq!(one.len(), 20);
}

#[test]
fn time_goes_on_when_nothing_is_ready_and_no_faster() {
    let (executor, said) = (Executor::new(1, 1, ANY), Said::default());
    let _inside = executor.enter();
    for seconds in [3, 1, 2] {
        let said = Arc::clone(&said);
        drop(tasks::spawn("sleeper", async move {
            tasks::sleep(seconds * SECOND).await;
            say(&said, seconds.to_string());
        }));
    }
    executor.run_for(SECOND * 2 + SECOND / 2).unwrap();
    assert_eq!(*said.lock(), ["1", "2"]);
    assert_eq!(executor.now(), SECOND * 2 + SECOND / 2);
    executor.run_for(SECOND).unwrap();
    assert_eq!(*said.lock(), ["1", "2", "3"]);
}

#[test]
fn what_a_task_starts_belongs_to_its_node() {
    let executor = Executor::new(1, 2, ANY);
    let _inside = executor.enter();
    run_on(Node(2), "parent", async {
        drop(tasks::spawn("child", pending()));
        pending::<()>().await;
    });
    executor.run_for(SECOND).unwrap();
    assert_eq!([0, 1, 2].map(|node| executor.tasks_of(Node(node))), [0, 0, 2]);
}

#[test]
fn a_paused_node_does_nothing_and_then_all_that_is_due() {
    let (executor, said) = (Executor::new(1, 1, ANY), Said::default());
    let _inside = executor.enter();
    let noted = Arc::clone(&said);
    run_on(Node(1), "sleeper", async move {
        tasks::sleep(SECOND).await;
        say(&noted, "woken");
    });
    executor.run_for(SECOND / 2).unwrap();
    executor.pause(Node(1));
    executor.run_for(10 * SECOND).unwrap();
    assert!(said.lock().is_empty());
    executor.resume(Node(1));
    executor.run_for(Duration::ZERO).unwrap();
    assert_eq!(*said.lock(), ["woken"]);
}

/// Says when it is dropped.
struct Guarded(Said);

impl Drop for Guarded {
    fn drop(&mut self) {
        say(&self.0, "dropped");
        drop(tasks::spawn("started by a drop", pending()));
    }
}

#[test]
fn a_dropped_node_is_gone_with_all_its_tasks_wherever_they_are() {
    let (executor, said) = (Executor::new(1, 1, ANY), Said::default());
    let _inside = executor.enter();
    let (notify, noted) = (Arc::new(Notify::new()), Arc::clone(&said));
    let waited = Arc::clone(&notify);
    run_on(Node(1), "waiter", async move {
        let _guard = Guarded(Arc::clone(&noted));
        waited.notified().await;
        say(&noted, "went on");
    });
    executor.run_for(SECOND).unwrap();
    executor.drop_node(Node(1));
    notify.notify_one();
    executor.run_for(SECOND).unwrap();
    assert_eq!(*said.lock(), ["dropped"]);
    assert_eq!(executor.tasks_of(Node(1)), 0);
}

#[test]
fn tasks_that_never_let_time_pass_are_a_livelock() {
    let executor = Executor::new(1, 1, ANY);
    let _inside = executor.enter();
    drop(tasks::spawn("spinner", async {
        loop {
            let_others_go().await;
        }
    }));
    let stuck = executor.run_for(SECOND).unwrap_err();
    assert!(stuck.tasks.contains(&"spinner"));
}

#[test]
fn polls_can_take_time() {
    let executor = Executor::new(1, 1, Manner { in_turn: 50, poll_micros: 10 });
    let _inside = executor.enter();
    drop(tasks::spawn("worker", async {
        for _ in 0..1_000 {
            let_others_go().await;
        }
    }));
    executor.run_polls(1_000, SECOND, || true).unwrap();
    let micros = executor.now().as_micros();
    assert!((1_000..10_000).contains(&micros), "{micros}");
}
