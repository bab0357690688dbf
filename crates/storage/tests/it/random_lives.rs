//! Lives in which much happens at once, drawn from a seed, cut short at any moment.

use std::collections::{HashSet, VecDeque};

use domain::{OffsetRange, Progress, ProgressChange};
use futures::FutureExt;
use storage::{Future, Result, Urgency};
use testkit::disk::Cut;
use testkit::{Random, seed};

use crate::bed::{Bed, scaled};
use crate::film::{Camera, Film};
use crate::history::ones;
use crate::owner::{Owner, Pending};
use crate::power_cuts::fingerprint;
use crate::script;

/// An owner that does not wait for one thing before it begins the next.
struct Life {
    owner: Owner,
    random: Random,
    pending: VecDeque<Pending>,
    chore: Option<Future<Result<()>>>,
}

impl Life {
    async fn step(&mut self) {
        match self.random.below(16) {
            0..6 => self.publish(),
            6..10 => self.ack(Urgency::Ride),
            10 => self.ack(Urgency::Durable),
            11 => self.dead_letter(),
            12 => self.seek(),
            _ => self.start_chore(),
        }
        while self.pending.len() > 10 || (!self.pending.is_empty() && self.random.one_in(3)) {
            if let Some(pending) = self.pending.pop_front() {
                self.owner.settle(pending).await.expect("taken");
            }
        }
        if let Some(chore) = &mut self.chore
            && let Some(done) = chore.now_or_never()
        {
            done.expect("a chore");
            self.chore = None;
        }
    }

    fn publish(&mut self) {
        let count = 1 + self.random.index(3);
        let sizes: Vec<_> = (0..count).map(|_| self.random.index(3_000)).collect();
        let topic = self.random.index(3);
        let pending = self.owner.queue(&[(topic, &sizes)], Vec::new(), Urgency::Durable);
        self.pending.push_back(pending);
    }

    fn some_unacked(&mut self, subscription: usize) -> ProgressChange {
        let places: Vec<_> = (0..1 + self.random.index(4)).map(|_| self.random.index(6)).collect();
        ProgressChange::Settled(ones(&self.owner.unacked_at(subscription, &places)))
    }

    fn ack(&mut self, urgency: Urgency) {
        let subscription = self.random.index(3);
        let settled = self.some_unacked(subscription);
        let pending = self.owner.queue(&[], vec![(subscription, settled)], urgency);
        self.pending.push_back(pending);
    }

    fn dead_letter(&mut self) {
        let settled = self.some_unacked(0);
        let pending = self.owner.queue(&[(2, &[80])], vec![(0, settled)], Urgency::Durable);
        self.pending.push_back(pending);
    }

    /// Seeks forward, past what may have been dropped already.
    fn seek(&mut self) {
        let subscription = self.random.index(4);
        let end = self.owner.topics[self.owner.subscriptions[subscription].topic].next;
        let mut target = Progress::starting_at(end);
        target.ack(OffsetRange { from: end.plus(3), to: end.plus(5) });
        let seek = ProgressChange::Replaced(Box::new(target));
        let pending = self.owner.queue(&[], vec![(subscription, seek)], Urgency::Durable);
        self.pending.push_back(pending);
    }

    fn start_chore(&mut self) {
        if self.chore.is_none() {
            let checkpoint = self.owner.checkpoint_chore();
            let trim = self.owner.trim_chore();
            self.chore = Some(if self.random.one_in(3) {
                checkpoint
            } else {
                let both = async move {
                    checkpoint.await?;
                    trim.await.map(drop)
                };
                both.boxed()
            });
        }
    }

    async fn finish(&mut self) {
        while let Some(pending) = self.pending.pop_front() {
            self.owner.settle(pending).await.expect("taken");
        }
        if let Some(chore) = self.chore.take() {
            chore.await.expect("a chore");
        }
    }
}

async fn film_of(seed: u64) -> Film {
    let bed = Bed::new();
    let mut owner = Owner::new(bed.open().expect("a fresh store"));
    script::set_up(&mut owner).await.expect("a working store");
    let camera = Camera::on(&bed, &owner.history);
    let (pending, random) = (VecDeque::new(), Random::seeded(seed));
    let mut life = Life { owner, random, pending, chore: None };
    for _ in 0..250 {
        life.step().await;
    }
    life.finish().await;
    camera.develop()
}

#[tokio::test]
async fn nothing_answered_is_lost_whatever_goes_on_when_the_power_goes() {
    const CUTS: usize = 1_000;
    for seed in seed::seeds(0..scaled(12)) {
        seed::tell(seed);
        let film = film_of(seed).await;
        let mut random = Random::seeded(seed ^ 0xfeed);
        let mut seen = HashSet::new();
        for _ in 0..CUTS {
            let number = random.index(film.moments.len());
            let moment = &film.moments[number];
            let cut = match random.below(3) {
                0 => Cut::LosesUnsynced,
                1 => Cut::LosesNothing,
                _ => Cut::Random(random.draw()),
            };
            if seen.insert((fingerprint(&moment.disk.power_cut_with(cut)), moment.database)) {
                film.recover(number, cut, moment.database).await;
            }
        }
    }
}
