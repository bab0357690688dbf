use super::*;
use crate::clock::now;

struct Fake(&'static str, usize, bool);

impl Weigh for Fake {
    fn weight(&self) -> usize {
        self.1
    }

    fn is_large(&self) -> bool {
        self.2
    }
}

fn queue(threads: usize) -> Queue<Fake> {
    let options = Options {
        threads,
        waiting_bytes_max: 100,
        waiting_bytes_per_owner_max: 50,
        ..Options::default()
    };
    Queue::new(&options)
}

fn push(queue: &mut Queue<Fake>, owner: &str, name: &'static str) {
    queue.push(&owner.into(), Fake(name, 1, false), now()).unwrap();
}

/// What runs next, until nothing may.
fn take(queue: &mut Queue<Fake>) -> (Vec<&'static str>, Vec<Turn>) {
    std::iter::from_fn(|| queue.next()).map(|(turn, job)| (job.0, turn)).unzip()
}

fn all_done(queue: &mut Queue<Fake>, turns: Vec<Turn>, is_slow: bool) {
    for turn in turns {
        queue.done(turn, None, is_slow, now());
    }
}

#[test]
fn owners_have_turns() {
    let mut queue = queue(2);
    for name in ["a1", "a2", "a3"] {
        push(&mut queue, "a", name);
    }
    push(&mut queue, "b", "b1");
    push(&mut queue, "c", "c1");
    let mut order = Vec::new();
    while let Some((turn, job)) = queue.next() {
        order.push(job.0);
        queue.done(turn, None, false, now());
    }
    assert_eq!(order, ["a1", "b1", "c1", "a2", "a3"]);
    assert!(queue.is_idle());
}

#[test]
fn what_is_left_of_a_job_waits_behind_other_owners_and_before_its_own() {
    let mut queue = queue(2);
    for (owner, name) in [("a", "a1"), ("a", "a2"), ("b", "b1")] {
        push(&mut queue, owner, name);
    }
    let (turn, job) = queue.next().unwrap();
    queue.done(turn, Some(job), false, now());
    let mut order = Vec::new();
    while let Some((turn, job)) = queue.next() {
        order.push(job.0);
        queue.done(turn, None, false, now());
    }
    assert_eq!(order, ["b1", "a1", "a2"]);
}

#[test]
fn owners_not_known_to_be_quick_leave_a_thread() {
    let mut queue = queue(3);
    for owner in ["a", "b", "c"] {
        push(&mut queue, owner, "1");
        push(&mut queue, owner, "2");
    }
    let (names, turns) = take(&mut queue);
    assert_eq!(names.len(), 2, "one thread is left, and each owner has one");
    all_done(&mut queue, turns, true);
    let (names, turns) = take(&mut queue);
    assert_eq!(names.len(), 2, "slow ones are as doubtful as new ones");
    all_done(&mut queue, turns, false);
    // The third owner was quick, and so has all threads but one.
    let mut queue = Queue { turns: VecDeque::new(), owners: HashMap::new(), ..queue };
    push(&mut queue, "q", "q");
    let (_, turns) = take(&mut queue);
    all_done(&mut queue, turns, false);
    for _ in 0..5 {
        push(&mut queue, "q", "q");
        push(&mut queue, "s", "s");
        push(&mut queue, "t", "t");
    }
    let (names, _turns) = take(&mut queue);
    let count = |name| names.iter().filter(|it| **it == name).count();
    assert_eq!((count("q"), count("s"), count("t")), (2, 1, 1));
}

#[test]
fn a_slow_owner_is_quick_again_after_a_while() {
    let mut queue = queue(3);
    let early = now();
    push(&mut queue, "a", "a");
    let (turn, _) = queue.next().unwrap();
    queue.done(turn, None, true, early);
    for (later, runs) in [(SLOW_FOR / 2, 1), (SLOW_FOR * 2, 1), (SLOW_FOR * 2, 2)] {
        for _ in 0..3 {
            push(&mut queue, "a", "a");
        }
        let (names, turns) = take(&mut queue);
        assert_eq!(names.len(), runs, "{later:?}");
        for turn in turns {
            queue.done(turn, None, false, early + later);
        }
        queue.drain();
    }
}

#[test]
fn one_large_job_runs_at_a_time() {
    let mut queue = queue(5);
    for owner in ["a", "b", "c"] {
        queue.push(&owner.into(), Fake("large", 1, true), now()).unwrap();
    }
    push(&mut queue, "d", "small");
    let (names, turns) = take(&mut queue);
    assert_eq!(names, ["large", "small"]);
    all_done(&mut queue, turns, false);
    assert_eq!(take(&mut queue).0, ["large"]);
}

#[test]
fn what_waits_is_bounded_for_each_owner_and_for_all() {
    let mut queue = queue(2);
    let mut push = |owner: &str, bytes| queue.push(&owner.into(), Fake("", bytes, false), now());
    assert_eq!(push("a", 400), Ok(()), "alone, any size");
    assert_eq!(push("b", 1), Err(Refused::Full));
    queue.drain();
    let mut push = |owner: &str, bytes| queue.push(&owner.into(), Fake("", bytes, false), now());
    assert_eq!(push("a", 40), Ok(()));
    assert_eq!(push("a", 11), Err(Refused::Full));
    assert_eq!(push("a", 10), Ok(()));
    assert_eq!(push("b", 40), Ok(()));
    assert_eq!(push("c", 11), Err(Refused::Full));
    assert_eq!(push("c", 10), Ok(()));
}

#[test]
fn owners_without_work_are_forgotten() {
    let mut queue = queue(2);
    for number in 0..REMEMBERED_MAX * 2 {
        let owner: Arc<str> = number.to_string().into();
        queue.push(&owner, Fake("", 1, false), now()).unwrap();
        let (turn, _) = queue.next().unwrap();
        queue.done(turn, None, false, now());
    }
    assert!(queue.owners.len() <= REMEMBERED_MAX);
}
