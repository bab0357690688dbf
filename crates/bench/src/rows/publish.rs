//! Publishing, with one subscription that never acks.

use anyhow::Result;

use super::Selection;
use super::rate::{self, Done, Work};
use crate::load::{self, Appending, Goal, Slice};
use crate::plan::Plan;
use crate::raw_log::RawLog;
use crate::report::Report;
use crate::target::{Request, SUBSCRIPTION, Target, Workshop};

/// Runs the publish rows.
pub(crate) async fn run(
    workshop: &Workshop,
    selection: &Selection,
    report: &mut Report,
) -> Result<()> {
    let plan = &workshop.plan;
    for &batch in &plan.batches {
        for &in_flight in &plan.in_flight {
            let work = Publishing { plan, batch, in_flight };
            if selection.holds(&work.name()) {
                report.rates.push(rate::run(workshop, &work).await?);
            }
        }
    }
    Ok(())
}

struct Publishing<'a> {
    plan: &'a Plan,
    batch: u32,
    in_flight: u32,
}

impl Publishing<'_> {
    fn goal(&self) -> Goal {
        Goal {
            calls_min: self.plan.wrapping_calls(self.batch, self.in_flight),
            time_min: self.plan.round_time,
            calls_max: u64::MAX,
            time_max: self.plan.round_time_max,
        }
    }

    fn request(&self) -> Request {
        Request::new(self.batch, self.plan.message_bytes)
    }

    fn done(&self, slice: Slice) -> Done {
        Done { messages: slice.calls * u64::from(self.batch), elapsed: slice.elapsed }
    }
}

impl Work for Publishing<'_> {
    fn name(&self) -> String {
        format!("publish/{}x{}", self.batch, self.in_flight)
    }

    fn queues(&self) -> bool {
        false
    }

    async fn set_up(&self, target: &Target) -> Result<()> {
        target.create_topic().await?;
        target.create_subscription(SUBSCRIPTION).await?;
        target.fill(self.plan.warm_up, self.plan.message_bytes).await
    }

    async fn before_round(&self, _: &Target) -> Result<()> {
        Ok(())
    }

    async fn round(&self, target: &Target) -> Result<Done> {
        let slice = target.publish(&self.request(), self.in_flight, self.goal()).await?;
        Ok(self.done(slice))
    }

    async fn raw(&self, log: &RawLog) -> Result<Option<Done>> {
        let bytes = self.request().stored();
        let appenders = Appending::several(log, &bytes, self.in_flight);
        Ok(Some(self.done(load::run(appenders, self.goal()).await?)))
    }
}
