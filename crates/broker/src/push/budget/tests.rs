use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::AtomicUsize;
use std::task::{Wake, Waker};
use std::time::Duration;

use proptest::prelude::*;
use testkit::Random;

use super::*;

const T0: Moment = Moment(0);

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// One caller that wants a slot.
struct Caller {
    share: Share,
    turn: Option<Turn>,
    woken: Arc<Woken>,
}

impl Caller {
    fn new(share: &Share) -> Self {
        Self { share: share.clone(), turn: None, woken: Arc::default() }
    }

    fn poll(&mut self, now: Moment) -> Option<Slot> {
        let waker = Waker::from(Arc::clone(&self.woken));
        match self.share.poll_slot(&mut self.turn, now, &mut Context::from_waker(&waker)) {
            Poll::Ready(slot) => Some(slot),
            Poll::Pending => None,
        }
    }

    fn is_woken(&self) -> bool {
        self.woken.0.load(Ordering::SeqCst) > 0
    }
}

fn proven(budget: &Arc<Budget>) -> Share {
    let share = budget.share();
    share.set_proven(true);
    share
}

fn slot(share: &Share) -> Option<Slot> {
    Caller::new(share).poll(T0)
}

#[test]
fn a_freed_slot_goes_to_the_first_who_waits() {
    let budget = Budget::new(1);
    let share = budget.share();
    let held = slot(&share).unwrap();
    let (mut first, mut second) = (Caller::new(&share), Caller::new(&share));
    assert!(first.poll(T0).is_none() && second.poll(T0).is_none());
    held.end(Moment(5));
    assert!(first.is_woken() && !second.is_woken());
    assert!(slot(&share).is_none(), "who comes now does not overtake");
    assert!(second.poll(T0).is_none());
    let held = first.poll(T0).unwrap();
    drop(held);
    assert!(second.poll(T0).is_some());
    assert_eq!(budget.in_flight(), 0);
}

#[test]
fn a_slot_granted_to_one_who_is_gone_goes_on() {
    let budget = Budget::new(1);
    let (one, two) = (budget.share(), budget.share());
    let held = slot(&one).unwrap();
    let (mut first, mut gone, mut last) = (Caller::new(&one), Caller::new(&two), Caller::new(&two));
    for caller in [&mut first, &mut gone, &mut last] {
        assert!(caller.poll(T0).is_none());
    }
    drop(gone);
    drop(held);
    let granted: Vec<_> = [&first, &last].into_iter().filter(|caller| caller.is_woken()).collect();
    assert_eq!(granted.len(), 1);
    if first.is_woken() {
        drop(first);
        assert!(last.is_woken() && last.poll(T0).is_some());
    } else {
        drop(last);
        assert!(first.is_woken() && first.poll(T0).is_some());
    }
    assert_eq!(budget.in_flight(), 0);
}

#[test]
fn the_waker_of_the_last_poll_is_the_one_that_is_called() {
    let budget = Budget::new(1);
    let share = budget.share();
    let held = slot(&share).unwrap();
    let mut caller = Caller::new(&share);
    assert!(caller.poll(T0).is_none());
    let first = std::mem::take(&mut caller.woken);
    assert!(caller.poll(T0).is_none());
    drop(held);
    assert!(caller.is_woken());
    assert_eq!(first.0.load(Ordering::SeqCst), 0);
}

#[test]
fn hanging_endpoints_that_never_worked_leave_room_for_those_that_do() {
    let budget = Budget::new(1_000);
    let hanging: Vec<_> = (0..10_000).map(|_| budget.share()).collect();
    let mut callers: Vec<_> =
        hanging.iter().flat_map(|share| [Caller::new(share), Caller::new(share)]).collect();
    let held: Vec<_> = callers.iter_mut().filter_map(|caller| caller.poll(T0)).collect();
    assert_eq!(held.len(), 900);
    let healthy: Vec<_> = (0..100).map(|_| proven(&budget)).collect();
    for round in 0..1_000 {
        let slots: Vec<_> = healthy.iter().map(|share| slot(share).expect("room")).collect();
        for slot in slots {
            slot.end(Moment(round * 1_000));
        }
    }
    assert_eq!(budget.in_flight(), 900);
}

#[test]
fn slots_of_an_endpoint_that_turns_out_to_work_make_room_for_others() {
    let budget = Budget::new(10);
    let shares: Vec<_> = (0..10).map(|_| budget.share()).collect();
    let mut callers: Vec<_> = shares.iter().map(Caller::new).collect();
    let held: Vec<_> = callers.iter_mut().filter_map(|caller| caller.poll(T0)).collect();
    assert_eq!(held.len(), 9);
    shares[0].set_proven(true);
    assert!(callers[9].is_woken());
    assert!(callers[9].poll(T0).is_some());
}

#[test]
fn no_endpoint_holds_more_than_its_cap_while_others_wait() {
    let budget = Budget::new(200);
    let (hog, other) = (proven(&budget), proven(&budget));
    let mut held: Vec<_> = (0..200).filter_map(|_| slot(&hog)).collect();
    assert_eq!(held.len(), 180, "the last tenth is for those below their cap");
    let others: Vec<_> = (0..200).filter_map(|_| slot(&other)).collect();
    assert_eq!(others.len(), 10, "it has its cap, and the last tenth is for others");
    let third = proven(&budget);
    let mut waiting: Vec<_> = (0..50)
        .flat_map(|_| [Caller::new(&hog), Caller::new(&other), Caller::new(&third)])
        .collect();
    let thirds: Vec<_> = waiting.iter_mut().filter_map(|caller| caller.poll(T0)).collect();
    assert_eq!((hog.held(), other.held(), third.held()), (180, 10, 10));
    drop(held.split_off(175));
    assert_eq!(budget.in_flight(), 195, "all who wait have their cap");
    let fourth = proven(&budget);
    assert_eq!((0..50).filter_map(|_| slot(&fourth)).map(std::mem::forget).count(), 5);
    drop((held, others, thirds));
}

#[test]
fn one_alone_may_use_what_nobody_else_wants() {
    let budget = Budget::new(100);
    let only = proven(&budget);
    assert_eq!((0..100).filter_map(|_| slot(&only)).map(std::mem::forget).count(), 90);
}

#[test]
fn a_slot_that_is_dropped_costs_nothing() {
    let budget = Budget::new(1);
    let (one, two) = (proven(&budget), proven(&budget));
    for _ in 0..100 {
        drop(slot(&one).unwrap());
    }
    slot(&two).unwrap().end(Moment(1_000));
    let held = slot(&two).unwrap();
    let (mut of_two, mut of_one) = (Caller::new(&two), Caller::new(&one));
    assert!(of_two.poll(T0).is_none() && of_one.poll(T0).is_none());
    held.end(Moment(1_000));
    assert!(of_one.is_woken() && !of_two.is_woken());
}

#[test]
fn who_was_idle_has_no_old_credit() {
    let budget = Budget::new(1);
    let (busy, idle) = (proven(&budget), proven(&budget));
    for at in 0..1_000 {
        Caller::new(&busy).poll(Moment(at * 1_000_000)).unwrap().end(Moment(at * 1_000_000 + 10));
    }
    let mut turns = Vec::new();
    let mut held = slot(&busy);
    let mut callers = [Caller::new(&busy), Caller::new(&idle)];
    for caller in &mut callers {
        assert!(caller.poll(T0).is_none());
    }
    for _ in 0..100 {
        held.take().unwrap().end(Moment(10));
        let next = callers.iter().position(Caller::is_woken).unwrap();
        turns.push(next);
        held = callers[next].poll(T0);
        callers[next] = Caller::new(if next == 0 { &busy } else { &idle });
        assert!(callers[next].poll(T0).is_none());
    }
    let of_idle: usize = turns.iter().sum();
    assert!((35..=65).contains(&of_idle), "{of_idle} of 100");
}

/// Endpoints that always have `callers` that want a slot, simulated for `seconds`.
/// Returns how many requests each finished and for how many microseconds it held slots.
fn simulate(max: usize, seconds: u64, endpoints: &[(usize, Duration)]) -> Vec<(u64, u64)> {
    let budget = Budget::new(max);
    let shares: Vec<_> = endpoints.iter().map(|_| proven(&budget)).collect();
    let mut sums = vec![(0, 0); endpoints.len()];
    let mut waiting: Vec<_> = (0..endpoints.len())
        .flat_map(|at| (0..endpoints[at].0).map(move |_| at))
        .map(|at| (at, Caller::new(&shares[at])))
        .collect();
    let mut busy = BinaryHeap::new();
    let mut slots = std::collections::HashMap::new();
    let (mut now, mut next_id) = (T0, 0_u64);
    while now.0 < seconds * 1_000_000 {
        let mut at = 0;
        while at < waiting.len() {
            let (endpoint, caller) = &mut waiting[at];
            let (endpoint, must_poll) = (*endpoint, caller.turn.is_none() || caller.is_woken());
            match must_poll.then(|| caller.poll(now)).flatten() {
                Some(slot) => {
                    busy.push(Reverse((now.plus(endpoints[endpoint].1), next_id)));
                    slots.insert(next_id, (endpoint, now, slot));
                    next_id += 1;
                    waiting.remove(at);
                }
                None => at += 1,
            }
        }
        assert!(budget.in_flight() <= max);
        let Reverse((end, id)) = busy.pop().expect("somebody has a slot");
        now = end;
        let (endpoint, since, slot) = slots.remove(&id).expect("one slot a request");
        sums[endpoint].0 += 1;
        sums[endpoint].1 += u64::try_from(now.since(since).as_micros()).unwrap();
        slot.end(now);
        waiting.push((endpoint, Caller::new(&shares[endpoint])));
    }
    sums
}

#[test]
fn a_hog_with_slow_requests_does_not_slow_a_hundred_quick_ones() {
    let quick = (2, Duration::from_millis(10));
    let mut endpoints = vec![quick; 100];
    let alone: u64 = simulate(50, 20, &endpoints).iter().map(|(requests, _)| requests).sum();
    endpoints.push((200, Duration::from_secs(2)));
    let sums = simulate(50, 20, &endpoints);
    let beside: u64 = sums[..100].iter().map(|(requests, _)| requests).sum();
    let hog = sums[100].1;
    assert!(beside * 100 >= alone * 98, "{beside} of {alone}");
    let fair = 50 * 20 * 1_000_000 / 101;
    assert!(hog >= fair / 2 && hog <= fair * 3 / 2, "the hog held {hog}, its part is {fair}");
    let (least, most) = sums[..100].iter().fold((u64::MAX, 0), |(least, most), (requests, _)| {
        (least.min(*requests), most.max(*requests))
    });
    assert!(least * 10 >= most * 9, "{least} to {most}");
}

#[test]
fn endpoints_share_time_not_requests() {
    let endpoints = [(8, Duration::from_millis(10)), (8, Duration::from_millis(100))];
    let sums = simulate(4, 100, &endpoints);
    let (quick, slow) = (sums[0].1, sums[1].1);
    assert!(quick * 10 >= slow * 9 && slow * 10 >= quick * 9, "{quick} and {slow}");
}

/// Every waiting caller that could be served now is woken, and no limit is exceeded.
fn check(budget: &Budget, max: usize, slots: &[Slot], callers: &[Caller]) {
    assert!(budget.in_flight() <= max);
    let woken = callers.iter().filter(|caller| caller.turn.is_some() && caller.is_woken()).count();
    assert_eq!(budget.in_flight(), slots.len() + woken, "each slot is with somebody");
    let has_waiting = callers.iter().any(|caller| caller.turn.is_some() && !caller.is_woken());
    if has_waiting {
        assert!(budget.in_flight() >= max - max / 10, "slots are free and somebody waits");
    }
}

proptest! {
    #[test]
    fn slots_are_never_exceeded_and_nobody_who_waits_is_forgotten(
        max in 1..30_usize,
        seed: u64,
        steps in 1..300_usize,
    ) {
        let (budget, mut random) = (Budget::new(max), Random::seeded(seed));
        let mut shares: Vec<_> = (0..5).map(|_| budget.share()).collect();
        let (mut slots, mut callers): (Vec<Slot>, Vec<Caller>) = Default::default();
        for step in 0..steps as u64 {
            let now = Moment(step * 1_000);
            let which = random.index(shares.len());
            match random.below(8) {
                0..3 => callers.push(Caller::new(&shares[which])),
                3 if !slots.is_empty() => {
                    slots.swap_remove(random.index(slots.len())).end(now);
                }
                4 if !slots.is_empty() => drop(slots.swap_remove(random.index(slots.len()))),
                5 if !callers.is_empty() => {
                    drop(callers.swap_remove(random.index(callers.len())));
                }
                6 => shares[which].set_proven(random.one_in(2)),
                7 => shares[which] = budget.share(),
                _ => {}
            }
            for at in (0..callers.len()).rev() {
                let must_poll = callers[at].turn.is_none() || random.one_in(2);
                if let Some(slot) = must_poll.then(|| callers[at].poll(now)).flatten() {
                    slots.push(slot);
                    callers.remove(at);
                }
            }
            check(&budget, max, &slots, &callers);
        }
        // Slots end one after the other: everyone who waits gets one in the end.
        while !callers.is_empty() {
            for at in (0..callers.len()).rev() {
                if callers[at].is_woken() || callers[at].turn.is_none() {
                    slots.push(callers[at].poll(T0).expect("woken with a slot"));
                    callers.remove(at);
                }
            }
            prop_assert!(!slots.is_empty() || callers.is_empty(), "somebody waits for ever");
            slots.pop();
        }
        slots.clear();
        prop_assert_eq!(budget.in_flight(), 0);
    }
}
