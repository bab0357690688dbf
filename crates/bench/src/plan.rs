//! How much of everything a run does.

use std::time::Duration;

use serde::Serialize;

use crate::load::Pullers;

/// The sizes of a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Plan {
    /// Bytes of data in each message.
    pub(crate) message_bytes: usize,
    /// Messages a call and calls in flight, of the publish rows.
    pub(crate) batches: Vec<u32>,
    pub(crate) in_flight: Vec<u32>,
    /// Each row is measured so often; null, raw and server take turns.
    pub(crate) rounds: u32,
    /// A round of a publish row lasts at least so long, and at least for its share of the log.
    pub(crate) round_time: Duration,
    pub(crate) round_time_max: Duration,
    /// Write-ahead log of the server, and how often publish rows fill it.
    pub(crate) wal_max_bytes: usize,
    pub(crate) wal_segment_bytes: usize,
    pub(crate) wal_wraps: u32,
    /// How long a server may take to finish its chores after a round.
    pub(crate) settle_time_max: Duration,
    /// Messages published before anything is measured.
    pub(crate) warm_up: u64,
    /// Messages of a round end to end, and how far the publisher may be ahead.
    pub(crate) stream_messages: u64,
    pub(crate) stream_lead: u32,
    /// Rates per second at which latency is measured, and for how long a round.
    pub(crate) latency_rates: Vec<u32>,
    pub(crate) latency_time: Duration,
    /// Messages of a backlog that is drained by stream, and by pull.
    pub(crate) backlog: u64,
    pub(crate) pull_backlog: u64,
    #[serde(skip)]
    pub(crate) pullers: Pullers,
    /// Messages retained, the least first.
    pub(crate) retained: Vec<u64>,
    /// Subscriptions on a topic that are compared with one.
    pub(crate) idle_subscriptions: u32,
    /// Ordering keys of a load, and keys that wait for their backoff beside it.
    pub(crate) keys: u32,
    pub(crate) keys_blocked: u32,
    /// Messages behind one key that waits for its backoff.
    pub(crate) behind_one_key: u64,
    /// One in so many messages of a backlog of so many matches the filter.
    pub(crate) filter_one_in: u32,
    pub(crate) filter_backlog: u64,
    /// Messages that are sought back over.
    pub(crate) sought_back: u64,
    /// Pairs of a comparison, and messages published in each half of one.
    pub(crate) pairs: u32,
    pub(crate) pair_messages: u64,
    pub(crate) push: PushPlan,
    pub(crate) live: LivePlan,
}

/// The sizes of the live rows.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LivePlan {
    /// Subscriptions held, by so many gateways, in so many collections.
    pub(crate) subscriptions: usize,
    pub(crate) gateways: usize,
    pub(crate) collections: usize,
    /// Subscriptions registered one by one, with so many calls in flight, before all others.
    pub(crate) single: usize,
    pub(crate) in_flight: usize,
    /// Subscriptions of one call where there are several.
    pub(crate) batch: usize,
    /// Messages a second that flow meanwhile.
    pub(crate) flow_rate: u32,
    /// Messages a second at which latency is measured, and for how long a round.
    pub(crate) latency_rate: u32,
    pub(crate) latency_time: Duration,
    /// Subscriptions that are left to expire; none = that is not measured, it takes a minute.
    pub(crate) expiring: usize,
}

impl LivePlan {
    fn full() -> Self {
        Self {
            subscriptions: 100_000,
            gateways: 10,
            collections: 1_000,
            single: 5_000,
            in_flight: 16,
            batch: 1_000,
            flow_rate: 1_000,
            latency_rate: 5_000,
            latency_time: Duration::from_secs(5),
            expiring: 10_000,
        }
    }

    fn quick() -> Self {
        Self {
            subscriptions: 2_000,
            collections: 20,
            single: 100,
            batch: 100,
            latency_time: Duration::from_millis(200),
            expiring: 0,
            ..Self::full()
        }
    }
}

/// The sizes of the push rows.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PushPlan {
    /// Messages of a round, and of each half of a pair.
    pub(crate) messages: u64,
    pub(crate) pair_messages: u64,
    /// Endpoints of the row with several.
    pub(crate) endpoints: usize,
    /// Connections of the bare client, each with one request in flight.
    pub(crate) connections: usize,
    /// Messages of a round one by one, and messages a request where there are several.
    pub(crate) fifo_messages: u64,
    pub(crate) batch: u32,
    /// Messages a second at which latency is measured, and for how long a round.
    pub(crate) latency_rate: u32,
    pub(crate) latency_time: Duration,
    /// Endpoints of which some hang, the load on them together, and for how long.
    pub(crate) isolation_endpoints: usize,
    pub(crate) isolation_hanging: usize,
    pub(crate) isolation_rate: u32,
    pub(crate) isolation_time: Duration,
    pub(crate) isolation_pairs: u32,
    /// Endpoints that all hang, and the load on a few others.
    pub(crate) hanging_endpoints: usize,
    pub(crate) healthy_rate: u32,
    pub(crate) healthy_time: Duration,
    /// FIFO subscriptions beside a plain one.
    pub(crate) fifo_beside: usize,
}

impl PushPlan {
    fn full() -> Self {
        Self {
            messages: 100_000,
            pair_messages: 60_000,
            endpoints: 64,
            connections: 64,
            fifo_messages: 40_000,
            batch: 100,
            latency_rate: 5000,
            latency_time: Duration::from_secs(3),
            isolation_endpoints: 1000,
            isolation_hanging: 10,
            isolation_rate: 3000,
            isolation_time: Duration::from_secs(3),
            isolation_pairs: 5,
            hanging_endpoints: 10_000,
            healthy_rate: 1000,
            healthy_time: Duration::from_secs(3),
            fifo_beside: 100,
        }
    }

    fn quick() -> Self {
        Self {
            messages: 1000,
            pair_messages: 500,
            endpoints: 4,
            fifo_messages: 500,
            latency_time: Duration::from_millis(200),
            isolation_endpoints: 20,
            isolation_hanging: 2,
            isolation_time: Duration::from_millis(200),
            isolation_pairs: 1,
            hanging_endpoints: 100,
            healthy_time: Duration::from_millis(200),
            fifo_beside: 10,
            ..Self::full()
        }
    }
}

impl Plan {
    /// What the figures in the documentation are measured with.
    pub(crate) fn full() -> Self {
        Self {
            message_bytes: 1024,
            batches: vec![1, 10, 100],
            in_flight: vec![1, 8, 64],
            rounds: 3,
            round_time: Duration::from_secs(2),
            round_time_max: Duration::from_secs(30),
            wal_max_bytes: 64 << 20,
            wal_segment_bytes: 16 << 20,
            wal_wraps: 4,
            settle_time_max: Duration::from_secs(10),
            warm_up: 80_000,
            stream_messages: 300_000,
            stream_lead: 20_000,
            latency_rates: vec![1000, 5000],
            latency_time: Duration::from_secs(5),
            backlog: 200_000,
            pull_backlog: 100_000,
            pullers: Pullers { callers: 8, messages_max: 100 },
            retained: vec![10_000, 100_000, 1_000_000],
            idle_subscriptions: 100,
            keys: 1_000,
            keys_blocked: 10_000,
            behind_one_key: 1_000_000,
            filter_one_in: 100,
            filter_backlog: 1_000_000,
            sought_back: 1_000_000,
            pairs: 5,
            pair_messages: 150_000,
            push: PushPlan::full(),
            live: LivePlan::full(),
        }
    }

    /// A few seconds in all.
    pub(crate) fn quick() -> Self {
        Self {
            batches: vec![1, 100],
            in_flight: vec![1, 64],
            rounds: 1,
            round_time: Duration::from_millis(50),
            round_time_max: Duration::from_millis(100),
            wal_max_bytes: 32 << 20,
            settle_time_max: Duration::ZERO,
            warm_up: 100,
            stream_messages: 2000,
            stream_lead: 1000,
            latency_rates: vec![5000],
            latency_time: Duration::from_millis(200),
            backlog: 2000,
            pull_backlog: 1000,
            retained: vec![100, 200, 500],
            idle_subscriptions: 10,
            keys: 10,
            keys_blocked: 50,
            behind_one_key: 500,
            filter_backlog: 2000,
            sought_back: 500,
            pairs: 1,
            pair_messages: 500,
            push: PushPlan::quick(),
            live: LivePlan::quick(),
            ..Self::full()
        }
    }

    /// Calls of a round after which all rounds together have filled the log `wal_wraps` times.
    pub(crate) fn wrapping_calls(&self, batch: u32, in_flight: u32) -> u64 {
        let payload = u64::from(batch) * self.message_bytes as u64;
        // With one call in flight each is a group of its own, which fills whole blocks.
        let block = crate::raw_log::BLOCK as u64;
        let per_call = if in_flight == 1 { payload.next_multiple_of(block) } else { payload };
        let log = u64::from(self.wal_wraps) * self.wal_max_bytes as u64;
        log.div_ceil(per_call * u64::from(self.rounds))
    }
}

/// 10000 as `10k`, 1000000 as `1M`; for the names of rows.
pub(crate) fn short(count: u64) -> String {
    match count {
        0 => "0".to_owned(),
        _ if count.is_multiple_of(1_000_000) => format!("{}M", count / 1_000_000),
        _ if count.is_multiple_of(1000) => format!("{}k", count / 1000),
        _ => count.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_together_fill_the_log_as_often_as_planned() {
        let plan = Plan::full();
        let bytes = |batch, in_flight, call_bytes: u64| {
            plan.wrapping_calls(batch, in_flight) * u64::from(plan.rounds) * call_bytes
        };
        let wanted = 4 * (64 << 20);
        assert!(bytes(100, 64, 102_400) >= wanted);
        assert!(bytes(1, 64, 1024) >= wanted);
        assert!(bytes(1, 1, 4096) >= wanted);
        assert!(bytes(1, 1, 4096) < wanted + 4096 * 3);
    }

    #[test]
    fn counts_are_shortened_only_when_nothing_is_lost() {
        assert_eq!(short(10_000), "10k");
        assert_eq!(short(1_000_000), "1M");
        assert_eq!(short(1_500), "1500");
    }
}
