//! Comparisons of the server with itself: with little and much retained, with one and with many
//! idle subscriptions. Pairs take turns, and the middle pair counts.

use std::time::Duration;

use anyhow::{Context, Result};

use super::Selection;
use super::rate::median;
use crate::clock;
use crate::load::Goal;
use crate::plan::{Plan, short};
use crate::report::{ComparisonRow, MemoryRow, Report, progress};
use crate::target::{Request, SUBSCRIPTION, Target, Workshop};

const HALF_TIME_MAX: Duration = Duration::from_secs(60);

/// Messages a call and calls in flight.
#[derive(Clone, Copy)]
struct Shape {
    batch: u32,
    in_flight: u32,
}

const BATCHES: Shape = Shape { batch: 100, in_flight: 64 };
const SINGLE: Shape = Shape { batch: 1, in_flight: 64 };

/// Runs the growth and memory rows.
pub(crate) async fn growth(
    workshop: &Workshop,
    selection: &Selection,
    report: &mut Report,
) -> Result<()> {
    let plan = &workshop.plan;
    let most = plan.retained.last().copied().unwrap_or_default();
    let names = plan.retained.iter().map(|count| format!("growth/{}", short(*count)));
    let mut names: Vec<String> = names.collect();
    names.extend(["memory/idle".to_owned(), format!("memory/{}", short(most))]);
    if !selection.holds_any(&names) {
        return Ok(());
    }
    let Some(idle) = started(workshop).await? else { return Ok(()) };
    report.memory.push(memory("memory/idle", &idle).await?);
    drop(idle);

    let mut targets = Vec::new();
    for &count in &plan.retained {
        let Some(target) = started(workshop).await? else { return Ok(()) };
        retain(plan, &target, count).await.context("growth")?;
        targets.push(target);
    }
    if let Some(target) = targets.last() {
        report.memory.push(memory(&format!("memory/{}", short(most)), target).await?);
    }
    if selection.holds_any(&names[..plan.retained.len()]) {
        let before =
            async |index: usize| refresh(plan, &targets[index], plan.retained[index]).await;
        let rates = take_turns(plan, &targets, BATCHES, before).await.context("growth")?;
        report.comparisons.extend(rows(&names, &rates));
    }
    Ok(())
}

/// Runs the rows with one and with many idle subscriptions.
pub(crate) async fn subscriptions(
    workshop: &Workshop,
    selection: &Selection,
    report: &mut Report,
) -> Result<()> {
    let plan = &workshop.plan;
    for shape in [BATCHES, SINGLE] {
        let name =
            |count: u32| format!("subscriptions/{}x{}/{count}", shape.batch, shape.in_flight);
        let names = [name(1), name(plan.idle_subscriptions)];
        if !selection.holds_any(&names) {
            continue;
        }
        let mut targets = Vec::new();
        for count in [1, plan.idle_subscriptions] {
            let Some(target) = started(workshop).await? else { return Ok(()) };
            for index in 1..count {
                target.create_subscription(&format!("{SUBSCRIPTION}-{index}")).await?;
            }
            target.fill(plan.warm_up, plan.message_bytes).await?;
            target.settle().await?;
            targets.push(target);
        }
        let rates = take_turns(plan, &targets, shape, async |_| Ok(())).await;
        report.comparisons.extend(rows(&names, &rates.context("subscriptions")?));
    }
    Ok(())
}

/// A server with the topic and the subscription that never acks.
async fn started(workshop: &Workshop) -> Result<Option<Target>> {
    let Some(target) = workshop.server().await? else { return Ok(None) };
    target.create_topic().await?;
    target.create_subscription(SUBSCRIPTION).await?;
    Ok(Some(target))
}

async fn memory(name: &str, target: &Target) -> Result<MemoryRow> {
    target.settle().await?;
    let row = MemoryRow::new(name, target.process.memory()?);
    progress(&row.line());
    Ok(row)
}

/// Fills a server. Each is warmed up alike, so that they differ only in what they retain.
async fn retain(plan: &Plan, target: &Target, count: u64) -> Result<()> {
    target.fill(plan.warm_up.max(count), plan.message_bytes).await?;
    target.settle().await
}

/// Brings a server that retains too much, after a round, back to what it should retain.
async fn refresh(plan: &Plan, target: &Target, count: u64) -> Result<()> {
    // What a round adds does not matter to the one that retains most.
    if plan.retained.last() == Some(&count) {
        return Ok(());
    }
    target.delete_subscription(SUBSCRIPTION).await?;
    target.create_subscription(SUBSCRIPTION).await?;
    target.fill(count, plan.message_bytes).await?;
    target.settle().await
}

/// Rates of each target, pair by pair.
async fn take_turns(
    plan: &Plan,
    targets: &[Target],
    shape: Shape,
    before: impl AsyncFn(usize) -> Result<()>,
) -> Result<Vec<Vec<f64>>> {
    let request = Request::new(shape.batch, plan.message_bytes);
    let batch = u64::from(shape.batch);
    let goal = Goal::calls(plan.pair_messages.div_ceil(batch), HALF_TIME_MAX);
    let mut rates = vec![Vec::new(); targets.len()];
    for _ in 0..plan.pairs {
        for (index, target) in targets.iter().enumerate() {
            before(index).await?;
            let slice = target.publish(&request, shape.in_flight, goal).await?;
            target.settle().await?;
            rates[index].push(clock::rate(slice.calls * batch, slice.elapsed));
        }
    }
    Ok(rates)
}

/// Each target beside the first: its rate, and the middle of the pairs' ratios.
pub(super) fn rows(names: &[String], rates: &[Vec<f64>]) -> Vec<ComparisonRow> {
    let Some(base) = rates.first() else { return Vec::new() };
    let row = |(name, own): (&String, &Vec<f64>)| {
        let ratios: Vec<f64> = own.iter().zip(base).map(|(own, base)| own / base).collect();
        let row = ComparisonRow {
            name: name.clone(),
            rate: median(own).unwrap_or_default(),
            ratio: median(&ratios).unwrap_or_default(),
        };
        progress(&row.line());
        row
    };
    names.iter().zip(rates).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_target_is_compared_with_the_first_pair_by_pair() {
        let names = ["a".to_owned(), "b".to_owned()];
        // The machine slowed down after the first pair; the ratio did not change.
        let rows = rows(&names, &[vec![100.0, 50.0, 50.0], vec![90.0, 45.0, 45.0]]);
        assert!((rows[0].ratio - 1.0).abs() < 1e-9);
        assert!((rows[1].ratio - 0.9).abs() < 1e-9);
        assert!((rows[1].rate - 45.0).abs() < 1e-9);
    }
}
