//! What becomes of leases that went through the subscription's transforms.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use domain::delivery::{AckStatus, Effects, ExtendStatus, Failure, Lease};
use domain::message::Malformed;
use domain::{Message, Record, message};
use futures::future::BoxFuture;
use storage::Urgency;
use transforms::{Input, Outcome};

use super::Subscription;
use crate::error::Result;
use crate::transform::{Functions, Running, Transformed, stored_input};

/// Leases last this long until they are through; then they get the deadline that was asked for.
pub(super) const DEADLINE: Duration = Duration::from_secs(600);
/// How many records go through transforms together, at most.
pub(super) const RECORDS_MAX: usize = 50;
/// How many bytes do; a single record may be larger.
pub(super) const BYTES_MAX: usize = 1 << 20;

/// What is left of leases that went through transforms.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    /// Those to deliver, as they are now.
    pub(crate) leases: Vec<Lease>,
    /// None of them got through, and nothing keeps them from being leased again at once.
    pub(crate) is_stuck: bool,
}

impl Subscription {
    /// Starts to run leased records through the subscription's transforms.
    pub(crate) fn start_transforms(
        &self,
        functions: &Functions,
        leases: &[Lease],
    ) -> Result<Running> {
        let inputs = leases.iter().map(|lease| input(&lease.record)).collect();
        self.runtime.transforms.start(functions, inputs)
    }

    /// Settles what was dropped, fails what failed, and returns the rest to be delivered. In a lane
    /// all behind a failed record come back with it.
    pub(crate) fn pass_on(
        self: &Arc<Self>,
        leases: Vec<Lease>,
        results: Vec<Transformed>,
        ack_deadline: Option<Duration>,
    ) -> Passed {
        // Bodies are encoded before the lock is taken: they may be large.
        let ends: Vec<_> = leases
            .into_iter()
            .zip(results)
            .map(|(lease, result)| {
                self.runtime.transforms.note(&result);
                (lease.ack_id, end_of(lease, result))
            })
            .collect();
        let now = self.runtime.now();
        let end = self.runtime.log.end(self.topic.id());
        let mut effects = Effects::default();
        let mut passed = Passed::default();
        let (mut failed, mut dropped) = (0_u64, 0_u64);
        let Ok(mut state) = self.lock_living() else { return passed };
        let deadline = ack_deadline.unwrap_or(state.settings.ack_deadline);
        for (id, became) in ends {
            match became {
                End::Delivered(lease) => {
                    let extended = state.delivery.extend(now, &id, deadline, &mut effects);
                    passed.leases.extend((extended == ExtendStatus::Extended).then_some(lease));
                }
                End::Dropped => {
                    let acked = state.delivery.ack(now.moment, &id, end, &mut effects);
                    dropped += u64::from(!matches!(acked, AckStatus::Stale | AckStatus::Foreign));
                }
                End::Failed(failure) => {
                    state.delivery.nack(now, &id, &failure, &mut effects);
                    failed += 1;
                }
            }
        }
        // They were counted when they were leased.
        state.counts.deliveries = state.counts.deliveries.saturating_sub(dropped);
        let has_backoff = state.settings.retry_policy.is_some() || state.settings.push.is_some();
        passed.is_stuck = failed > 0 && dropped == 0 && passed.leases.is_empty() && !has_backoff;
        drop(self.finish(&mut state, effects, Urgency::Ride));
        passed
    }

    /// Takes leases back as if they had never been given.
    pub(crate) fn give_back(self: &Arc<Self>, leases: &[Lease]) {
        let now = self.runtime.now();
        let mut effects = Effects::default();
        let Ok(mut state) = self.lock_living() else { return };
        for lease in leases {
            state.delivery.give_back(now, &lease.ack_id, &mut effects);
        }
        drop(self.finish(&mut state, effects, Urgency::Ride));
    }

    /// Ends after that time.
    pub(crate) fn sleep_for(&self, time: Duration) -> BoxFuture<'static, ()> {
        let clock = &self.runtime.clock;
        clock.sleep_until(clock.now().plus(time))
    }
}

/// What becomes of a lease.
enum End {
    /// It is delivered as it is now.
    Delivered(Lease),
    Dropped,
    Failed(Failure),
}

fn end_of(lease: Lease, result: Transformed) -> End {
    match result {
        Ok(Outcome::Message { data, attributes }) => match changed(lease, data, attributes) {
            Ok(lease) => End::Delivered(lease),
            Err(Malformed) => End::Failed(Failure::of("unreadable")),
        },
        Ok(Outcome::Filtered) => End::Dropped,
        Err(failure) => {
            let message = Some(failure.to_string().into());
            End::Failed(Failure { message, ..Failure::of("transform") })
        }
    }
}

/// A record that cannot be read goes through as an empty message, and fails in `changed`.
fn input(record: &Record) -> Input {
    let message = message::decode(&record.body).unwrap_or_default();
    stored_input(message, record.offset, record.publish_time)
}

fn changed(
    mut lease: Lease,
    data: Bytes,
    attributes: BTreeMap<String, String>,
) -> Result<Lease, Malformed> {
    let record = &mut lease.record;
    let ordering_key = message::ordering_key(&record.body)?.to_owned();
    let message = Message { data, attributes, ordering_key };
    let mut body = BytesMut::with_capacity(message::encoded_len_max(&message));
    message::encode(&message, record.offset, record.publish_time, &mut body);
    lease.stored = Some(Box::new(std::mem::replace(&mut record.body, body.freeze())));
    Ok(lease)
}
