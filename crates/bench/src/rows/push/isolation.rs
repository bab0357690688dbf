//! Many endpoints, of which some hang and one gets far more than the others: what the others feel.

use anyhow::{Result, ensure};

use super::super::Selection;
use super::super::rate::median;
use super::endpoints::Endpoints;
use crate::load::{Latencies, Pace};
use crate::plan::PushPlan;
use crate::receiver::Receiver;
use crate::report::{BesideRow, Quantiles, Report, progress};
use crate::target::Workshop;

/// Ports of the receiver.
const PORTS: usize = 4;

/// The busy endpoint gets so many messages in the time that another gets one.
const BUSY_TIMES: usize = 10;

/// Runs the rows.
pub(super) async fn run(
    workshop: &Workshop,
    selection: &Selection,
    report: &mut Report,
) -> Result<()> {
    let names = ["push/isolation/calm".to_owned(), "push/isolation/troubled".to_owned()];
    if !selection.holds_any(&names) {
        return Ok(());
    }
    let push = &workshop.plan.push;
    let receiver = Receiver::start(PORTS)?;
    let Some(calm) = workshop.server().await? else { return Ok(()) };
    let Some(troubled) = workshop.server().await? else { return Ok(()) };
    let (count, bytes) = (push.isolation_endpoints, workshop.plan.message_bytes);
    let hanging = push.isolation_hanging;
    let halves = [
        (Endpoints::create(&calm, &receiver, count, 0, bytes).await?, calm_order(count)),
        (
            Endpoints::create(&troubled, &receiver, count, hanging, bytes).await?,
            busy_order(count, hanging),
        ),
    ];
    let mut sums = [Latencies::new()?, Latencies::new()?];
    let mut ratios = Vec::new();
    for _ in 0..push.isolation_pairs {
        let mut p99 = [0.0; 2];
        for (index, (endpoints, order)) in halves.iter().enumerate() {
            let pace = pace(push, order.len(), count)?;
            // The same ones count in both, neither those that hang nor the busy one.
            let latencies = endpoints.push_at_rate(order, pace, |number| number > hanging).await?;
            p99[index] = latencies.quantile(0.99).as_secs_f64();
            sums[index].merge(&latencies)?;
        }
        ratios.push(p99[1] / p99[0].max(f64::MIN_POSITIVE));
    }
    ensure!(receiver.hanging() > 0, "nothing was pushed to the endpoints that hang");
    let ratios = [1.0, median(&ratios).unwrap_or_default()];
    for ((name, sum), ratio) in names.into_iter().zip(&sums).zip(ratios) {
        let row = BesideRow { name, received: Quantiles::of(sum), ratio };
        progress(&row.line());
        report.beside.push(row);
    }
    Ok(())
}

/// Each endpoint gets as much in a longer order as in a shorter one.
fn pace(push: &PushPlan, order: usize, endpoints: usize) -> Result<Pace> {
    let per_second = u64::from(push.isolation_rate) * order as u64 / endpoints.max(1) as u64;
    Pace::lasting(u32::try_from(per_second)?, push.isolation_time)
}

/// Every endpoint once.
fn calm_order(count: usize) -> Vec<usize> {
    (0..count).collect()
}

/// Every endpoint once, but for the busy one, the first that does not hang, whose turns are spread
/// evenly.
fn busy_order(count: usize, busy: usize) -> Vec<usize> {
    let mut order = Vec::new();
    let others = (0..count).filter(|number| *number != busy);
    for (place, number) in others.enumerate() {
        if (place * BUSY_TIMES) / count.max(1) != ((place + 1) * BUSY_TIMES) / count.max(1) {
            order.push(busy);
        }
        order.push(number);
    }
    let turns = order.iter().filter(|number| **number == busy).count();
    order.extend(std::iter::repeat_n(busy, BUSY_TIMES.saturating_sub(turns)));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busy_endpoint_comes_ten_times_as_often_as_each_other() {
        for (count, busy) in [(1000, 10), (20, 2), (7, 0)] {
            let order = busy_order(count, busy);
            for number in 0..count {
                let times = order.iter().filter(|one| **one == number).count();
                assert_eq!(times, if number == busy { 10 } else { 1 }, "{number} of {count}");
            }
        }
    }
}
