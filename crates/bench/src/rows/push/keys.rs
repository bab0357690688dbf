//! Pushing messages with ordering keys, in their order and without it.

use anyhow::Result;
use serde_json::json;

use super::super::Selection;
use super::super::behaviour::keyed;
use super::super::comparison::rows;
use super::{create_push, prepare, push};
use crate::clock;
use crate::receiver::{Manner, Receiver};
use crate::report::Report;
use crate::target::Workshop;

const NAME: &str = "load";

/// Runs the rows.
pub(super) async fn run(
    workshop: &Workshop,
    selection: &Selection,
    report: &mut Report,
) -> Result<()> {
    let plan = &workshop.plan;
    let group = format!("push/{}-keys", plan.keys);
    let names = [format!("{group}/free"), format!("{group}/ordered")];
    if !selection.holds_any(&names) {
        return Ok(());
    }
    let receiver = Receiver::start(1)?;
    let mut targets = Vec::new();
    for ordered in [false, true] {
        let Some(target) = workshop.server().await? else { return Ok(()) };
        target.create_topic().await?;
        let settings = json!({"enableMessageOrdering": ordered});
        let endpoint = receiver.endpoint(Manner::Answers, 0);
        create_push(&target, NAME, NAME, &endpoint, &settings).await?;
        targets.push(target);
    }
    let subscriptions = [NAME.to_owned()];
    let mut rates = vec![Vec::new(); targets.len()];
    // The first pair warms up.
    for pair in 0..=plan.pairs {
        for (target, rates) in targets.iter().zip(&mut rates) {
            prepare(target, &subscriptions, vec![keyed(plan)], plan.push.pair_messages).await?;
            let done = push(target, &receiver, &subscriptions, plan.push.pair_messages).await?;
            target.settle().await?;
            receiver.check(1)?;
            if pair > 0 {
                rates.push(clock::rate(done.messages, done.elapsed));
            }
        }
    }
    report.comparisons.extend(rows(&names, &rates));
    Ok(())
}
