//! How a row that measures a rate is run: null, raw and server take turns, round by round.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::clock;
use crate::process::Memory;
use crate::raw_log::RawLog;
use crate::report::{Cost, RateRow, progress};
use crate::target::{Target, Workshop};

/// Messages handled, and in which time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) messages: u64,
    pub(crate) elapsed: Duration,
}

/// What a row does to whoever is measured.
pub(crate) trait Work {
    /// The row's name, as `publish/100x64`.
    fn name(&self) -> String;
    /// Whether the null server must queue what is published.
    fn queues(&self) -> bool;
    /// Once, before the first round.
    async fn set_up(&self, target: &Target) -> Result<()>;
    /// Before each round, unmeasured.
    async fn before_round(&self, target: &Target) -> Result<()>;
    /// What is measured.
    async fn round(&self, target: &Target) -> Result<Done>;
    /// The same bytes to the raw log; none if nothing has to be stored.
    async fn raw(&self, log: &RawLog) -> Result<Option<Done>>;
}

/// Runs a row.
pub(crate) async fn run(workshop: &Workshop, work: &impl Work) -> Result<RateRow> {
    let name = work.name();
    measure(workshop, work).await.with_context(|| name)
}

async fn measure(workshop: &Workshop, work: &impl Work) -> Result<RateRow> {
    let null = workshop.null(work.queues()).await?;
    let server = workshop.server().await?;
    let raw = workshop.raw_log()?;
    for target in [Some(&null), server.as_ref()].into_iter().flatten() {
        work.set_up(target).await?;
        target.settle().await?;
    }
    let (mut of_null, mut of_raw, mut of_server) =
        (Tally::default(), Tally::default(), Tally::default());
    for _ in 0..workshop.plan.rounds {
        of_null.round(work, &null).await?;
        if let Some(done) = work.raw(&raw).await? {
            of_raw.add(done, Duration::ZERO);
        }
        if let Some(server) = &server {
            of_server.round(work, server).await?;
        }
    }
    let row = RateRow {
        name: work.name(),
        server: of_server.rate(),
        null: of_null.rate(),
        raw: of_raw.rate(),
        server_cost: server.as_ref().map(|server| of_server.cost(server)).transpose()?,
        null_cost: Some(of_null.cost(&null)?),
    };
    progress(&row.line());
    Ok(row)
}

/// The rounds of one contender.
#[derive(Default)]
pub(super) struct Tally {
    rates: Vec<f64>,
    messages: u64,
    cpu: Duration,
}

impl Tally {
    async fn round(&mut self, work: &impl Work, target: &Target) -> Result<()> {
        work.before_round(target).await?;
        target.settle().await?;
        let before = target.process.cpu()?;
        let done = work.round(target).await?;
        // Chores that a round left behind are part of its cost.
        target.settle().await?;
        self.add(done, target.process.cpu()?.saturating_sub(before));
        Ok(())
    }

    pub(super) fn add(&mut self, done: Done, cpu: Duration) {
        self.rates.push(clock::rate(done.messages, done.elapsed));
        self.messages += done.messages;
        self.cpu += cpu;
    }

    pub(super) fn rate(&self) -> Option<f64> {
        median(&self.rates)
    }

    pub(super) fn cost(&self, target: &Target) -> Result<Cost> {
        Ok(self.cost_with(target.process.memory()?))
    }

    pub(super) fn cost_with(&self, memory: Memory) -> Cost {
        Cost::new(self.messages, self.cpu, memory)
    }
}

/// The middle of some figures; the mean of the middle two of an even number.
pub(crate) fn median(figures: &[f64]) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.get(sorted.len() / 2)?;
    let lower = sorted.get((sorted.len() - 1) / 2)?;
    Some((upper + lower) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_not_moved_by_one_bad_round() {
        assert_eq!(median(&[5.0, 1.0, 4.0]), Some(4.0));
        assert_eq!(median(&[5.0, 3.0]), Some(4.0));
        assert_eq!(median(&[]), None);
    }
}
