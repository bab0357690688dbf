//! A model of consumers of which any may fall silent at any moment: woken or not, full, reading,
//! or with leases in its hands. It assumes nothing of whoever is woken. What nobody holds must
//! reach whoever asks when woken, long before a lease ends.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use domain::TopicName;
use testkit::{Random, seed};

use crate::fixture::{Fixture, settings, texts};
use crate::stalled::{Watched, pass_tick};

/// Histories tried. `STALLED_SEEDS` for more.
const SEEDS: u64 = 40;
const STEPS: usize = 60;
/// Ten seconds of the fake clock; leases last ten minutes.
const TICKS_MAX: usize = 1_000;

struct Model {
    seed: u64,
    fixture: Fixture,
    topic: TopicName,
    random: Random,
    streams: Vec<(Watched, Manner)>,
    published: usize,
    /// What somebody holds or has acked.
    leased: BTreeSet<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Asks,
    Silent,
}

impl Model {
    async fn new(seed: u64) -> Self {
        let mut random = Random::seeded(seed);
        let fixture = Fixture::new().await;
        let topic = fixture.topic().await;
        let message_ordering = random.one_in(2);
        fixture
            .subscribe(domain::Subscription { message_ordering, ..settings(&topic, "sub") })
            .await;
        let (streams, published, leased) = (Vec::new(), 0, BTreeSet::new());
        Self { seed, fixture, topic, random, streams, published, leased }
    }

    async fn step(&mut self) {
        match self.random.below(8) {
            0 if self.streams.len() < 6 => {
                let messages_max = self.random.below(3);
                let mut stream = Watched::open(&self.fixture, messages_max);
                self.leased.extend(texts(&stream.ask_all()));
                self.streams.push((stream, Manner::Asks));
            }
            1 if !self.streams.is_empty() => {
                let at = self.random.index(self.streams.len());
                match self.random.one_in(3) {
                    true => drop(self.streams.remove(at)),
                    false => self.streams[at].1 = Manner::Silent,
                }
            }
            2 => {
                let is_far = self.random.one_in(2);
                self.fixture.log.is_far.store(is_far, Ordering::SeqCst);
            }
            3 | 4 => self.publish().await,
            5 => pass_tick(&self.fixture).await,
            _ => self.serve(),
        }
    }

    async fn publish(&mut self) {
        for _ in 0..=self.random.below(3) {
            // Each has a key of its own: a lane that a silent one holds would be its own.
            let text = self.published.to_string();
            self.fixture.publish_keyed(&self.topic, &[(&text, &text)]).await;
            self.published += 1;
        }
    }

    /// Whoever is woken asks for all there is, unless it is silent. Some fall silent with leases
    /// in their hands.
    fn serve(&mut self) {
        for (stream, manner) in &mut self.streams {
            if stream.is_woken() && *manner == Manner::Asks {
                let leases = if self.random.one_in(8) { stream.ask() } else { stream.ask_all() };
                self.leased.extend(texts(&leases));
            }
        }
    }

    /// Everything comes to somebody who asks when woken, and to nobody else.
    async fn drain(mut self) {
        self.publish().await;
        let mut last = Watched::open(&self.fixture, 0);
        self.leased.extend(texts(&last.ask_all()));
        self.publish().await;
        for _ in 0..TICKS_MAX {
            if self.leased.len() == self.published {
                return;
            }
            self.serve();
            if last.is_woken() {
                self.leased.extend(texts(&last.ask_all()));
            }
            pass_tick(&self.fixture).await;
        }
        panic!("TEST_SEED={}: {} of {} came", self.seed, self.leased.len(), self.published);
    }
}

#[tokio::test]
async fn nobody_depends_on_whoever_was_woken() {
    for seed in seed::seeds(0..seed::number("STALLED_SEEDS").unwrap_or(SEEDS)) {
        let mut model = Model::new(seed).await;
        for _ in 0..STEPS {
            model.step().await;
        }
        model.drain().await;
    }
}
