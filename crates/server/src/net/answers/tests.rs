//! The memory of answers: shares, room, and who must end.

use std::task::Wake;

use super::*;

const KIB: usize = 1 << 10;

fn answers(kib: u64) -> Arc<Answers> {
    Answers::new(kib << 10, Connections::default())
}

/// Counts how often it was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Somebody who wants to send parts of an answer.
struct Client {
    room: Room,
    woken: Arc<Woken>,
    sent: Vec<Bytes>,
}

impl Client {
    fn new(outlet: &Arc<Outlet>, kind: Kind) -> Self {
        Self { room: outlet.room(kind), woken: Arc::default(), sent: Vec::new() }
    }

    /// Whether there was room for it.
    fn send(&mut self, bytes: usize) -> bool {
        let waker = Waker::from(Arc::clone(&self.woken));
        let made = self.room.work(&mut Context::from_waker(&waker), |_, outlet| {
            Poll::Ready(outlet.hold(vec![0; bytes].into()))
        });
        let was_made = made.is_ready();
        if let Poll::Ready(part) = made {
            self.sent.push(part);
        }
        was_made
    }

    fn woken(&self) -> usize {
        self.woken.0.load(Relaxed)
    }
}

#[test]
fn answers_are_bounded_by_one_part_more_and_given_back() {
    let answers = answers(64);
    let outlet = answers.outlet();
    let mut client = Client::new(&outlet, Kind::Stream);
    assert!(client.send(40 * KIB) && client.send(40 * KIB));
    assert!(!client.send(1), "there is no room any more");
    assert_eq!(client.sent[0].len(), 40 * KIB);
    assert_eq!(outlet.held(), 2 * (40 * KIB + PART_BYTES));
    client.sent.pop();
    assert_eq!(client.woken(), 1);
    assert!(client.send(1));
    client.sent.clear();
    assert_eq!((outlet.held(), answers.bytes.load(Relaxed)), (0, 0));
}

#[test]
fn brief_answers_go_on_for_a_while_when_others_wait() {
    let answers = answers(64);
    let (mut slow, mut brief) =
        (Client::new(&answers.outlet(), Kind::Stream), Client::new(&answers.outlet(), Kind::Brief));
    assert!(slow.send(64 * KIB));
    assert!(!slow.send(1));
    assert!(brief.send(8 * KIB) && brief.send(8 * KIB));
    assert!(!brief.send(1), "but not for ever");
    // There is room for brief ones now, though not for others.
    brief.sent.pop();
    assert_eq!((brief.woken(), slow.woken()), (1, 0));
}

#[test]
fn clients_that_read_go_on_part_by_part_when_others_have_taken_all() {
    let answers = answers(64);
    let mut reader = Client::new(&answers.outlet(), Kind::Stream);
    assert!(reader.send(PROVEN_BYTES));
    reader.sent.clear();
    let mut stuck = Client::new(&answers.outlet(), Kind::Stream);
    assert!(stuck.send(64 * KIB) && !stuck.send(1));
    for _ in 0..3 {
        assert!(reader.send(KIB));
        assert!(!reader.send(KIB), "one part at a time");
        reader.sent.clear();
        assert_eq!(stuck.woken(), 0);
    }
    assert_eq!(reader.woken(), 3);
}

#[test]
fn who_is_woken_wakes_the_next_and_who_goes_away_too() {
    let answers = answers(64);
    let mut full = Client::new(&answers.outlet(), Kind::Stream);
    assert!(full.send(64 * KIB));
    let outlets: Vec<_> = (0..4).map(|_| answers.outlet()).collect();
    let mut waiting: Vec<_> =
        outlets.iter().map(|outlet| Client::new(outlet, Kind::Stream)).collect();
    assert!(waiting.iter_mut().all(|client| !client.send(1)));
    full.sent.clear();
    let woken = |waiting: &[Client]| waiting.iter().map(Client::woken).collect::<Vec<_>>();
    assert_eq!(woken(&waiting), [1, 0, 0, 0]);
    assert!(waiting[0].send(1));
    assert_eq!(woken(&waiting), [1, 1, 0, 0], "there is room for more");
    drop(waiting.remove(1));
    assert_eq!(woken(&waiting), [1, 1, 0], "its place is for the next");
    // One that was not woken leaves nothing behind.
    drop(waiting.pop());
    assert_eq!(answers.waiting.load(Relaxed), 0);
}

#[test]
fn clients_that_read_go_before_those_that_never_did_and_those_that_hold_much_go_last() {
    let answers = answers(64);
    let outlets: Vec<_> = (0..3).map(|_| answers.outlet()).collect();
    let mut good = Client::new(&outlets[2], Kind::Stream);
    assert!(good.send(KIB));
    good.sent.clear();
    let mut greedy = Client::new(&outlets[0], Kind::Stream);
    assert!(greedy.send(8 * KIB));
    let mut full = Client::new(&answers.outlet(), Kind::Stream);
    assert!(full.send(64 * KIB));
    let mut fresh = Client::new(&outlets[1], Kind::Stream);
    let mut all = [&mut greedy, &mut fresh, &mut good];
    assert!(all.iter_mut().all(|client| !client.send(1)));
    full.sent.clear();
    assert_eq!(all.iter().map(|client| client.woken()).collect::<Vec<_>>(), [0, 0, 1]);
    assert!(all[2].send(1));
    assert_eq!(all.iter().map(|client| client.woken()).collect::<Vec<_>>(), [0, 1, 1]);
}

#[test]
fn threads_that_give_back_and_wait_never_miss_each_other() {
    let answers = answers(8);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..16 {
            let outlet = answers.outlet();
            tasks.spawn(async move {
                let mut room = outlet.room(Kind::Stream);
                for _ in 0..500 {
                    let part = room.make(|outlet| outlet.hold(vec![0; 3 * KIB].into())).await;
                    tokio::task::yield_now().await;
                    drop(part);
                }
            });
        }
        let all = async { while tasks.join_next().await.is_some() {} };
        tokio::time::timeout(Duration::from_secs(60), all).await.expect("nobody is forgotten");
    });
    assert_eq!(answers.bytes.load(Relaxed), 0);
}

#[test]
fn those_that_hold_most_are_chosen_and_no_more_than_are_needed() {
    assert_eq!(choose(&[1, 0, 5, 3], 6), [2, 3]);
    assert_eq!(choose(&[1, 0, 5, 3], 5), [2]);
    assert_eq!(choose(&[1, 0, 5, 3], 100), [2, 3, 0]);
    assert!(choose(&[1, 2], 0).is_empty());
    assert!(choose(&[], 1).is_empty());
}

/// Whether the connection was ended.
fn is_ended(outlet: &Outlet) -> bool {
    let mut ended = std::pin::pin!(outlet.ended());
    ended.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn a_sweep_ends_who_does_not_read_while_others_wait() {
    let answers = answers(64);
    let (dead, slow) = (answers.outlet(), answers.outlet());
    let mut stuck = Client::new(&dead, Kind::Stream);
    let mut reader = Client::new(&slow, Kind::Stream);
    assert!(stuck.send(60 * KIB));
    for _ in 0..5 {
        answers.sweep();
    }
    assert!(!is_ended(&dead), "nobody minds");
    assert!(reader.send(10 * KIB));
    assert!(!reader.send(1));
    answers.sweep();
    assert!(is_ended(&dead) && !is_ended(&slow));
    stuck.sent.clear();
    assert!(reader.send(1));
}

#[test]
fn what_was_just_made_is_not_taken_for_unread() {
    let answers = answers(64);
    let outlet = answers.outlet();
    let mut client = Client::new(&outlet, Kind::Stream);
    assert!(client.send(64 * KIB));
    assert!(!client.send(1));
    answers.sweep();
    assert!(!is_ended(&outlet), "it was made a moment ago");
    answers.sweep();
    assert!(is_ended(&outlet));
    assert_eq!(answers.told.ended(), 1);
}
