//! What is counted and told of a subscription.

use std::sync::Arc;
use std::time::Duration;

use domain::delivery::{AckStatus, Failed, Failure, Ordering, Readiness};
use domain::{Moment, Now, Offset, Timestamp};
use storage::TailRead;

use super::looking::Open;
use super::{State, Subscription};
use crate::delivery_log::{Blocking, DeliveryOutcome, Entry, LogLine, News};
use crate::figures::{
    EndpointFigures, FifoFigures, Obstacles, Oldest, Pushed, SubscriptionFigures,
};

/// That a FIFO subscription is still blocked is told at most this often.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// What blocks a FIFO subscription: the message in front, since it first failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocked {
    offset: Offset,
    since: Timestamp,
    failed: u32,
    told_at: Moment,
}

impl Blocked {
    /// What blocks a subscription that is taken up again: since when is not known anymore.
    pub(super) fn resumed(
        settings: &domain::Subscription,
        progress: &domain::Progress,
        now: Now,
    ) -> Option<Self> {
        let (offset, attempt) = progress.attempts().next()?;
        let is_in_front = settings.ordering() == Ordering::Fifo && offset == progress.cursor();
        let (since, told_at) = (now.wall, now.moment);
        is_in_front.then_some(Self { offset, since, failed: attempt.count, told_at })
    }
}

/// Figures.
impl Subscription {
    /// What its attempts to push came to.
    pub(crate) fn pushed(&self) -> &Pushed {
        self.pushed.get_or_init(Box::default)
    }

    /// The same; of one that does not push only if it has pushed before.
    fn pushed_if(&self, is_push: bool) -> Option<&Pushed> {
        if is_push { Some(self.pushed()) } else { self.pushed.get().map(Box::as_ref) }
    }

    /// The figures at `now`; `endpoint` knows the one of an address that is pushed to.
    pub(crate) fn figures(
        &self,
        now: Now,
        endpoint: &dyn Fn(&str) -> Option<EndpointFigures>,
    ) -> SubscriptionFigures {
        let open = self.open();
        let is_topic_deleted = self.topic.is_deleted();
        let average = self.topic.average_bytes();
        let endpoint = self.endpoint(endpoint);
        let export = self.export_figures();
        let mut state = self.state.lock();
        let backlog = open.count;
        let oldest = if backlog > 0 { self.oldest(&mut state, open.first) } else { None };
        let bytes = average.or(oldest.map(|oldest| oldest.bytes)).unwrap_or_default();
        let is_push = state.settings.push.is_some();
        let pushed = self.pushed_if(is_push);
        let ordering = state.settings.ordering();
        let is_fifo = ordering == Ordering::Fifo;
        let obstacles = state.obstacles(now, endpoint);
        let lane_failing_since = state.lane_failing_since(&obstacles);
        SubscriptionFigures {
            id: self.id,
            name: self.name.clone(),
            topic: (!is_topic_deleted).then(|| self.topic.name().clone()),
            is_push,
            is_fifo,
            backlog_messages: backlog,
            backlog_bytes: backlog.saturating_mul(bytes),
            oldest_unacked_age: oldest.map(|oldest| now.wall.since(oldest.publish_time)),
            outstanding: state.delivery.outstanding() as u64,
            deliveries: state.counts.deliveries,
            acks: state.counts.acks,
            nacks: state.counts.nacks,
            expiries: state.counts.expiries,
            attempts: pushed.map(Pushed::attempts).unwrap_or_default(),
            push_latency: pushed.map(Pushed::latency).unwrap_or_default(),
            push_window: endpoint.map(|endpoint| endpoint.window),
            export,
            dead_letters: state.dead_letters.forwarded,
            dead_letters_waiting: 0,
            dropped: state.dead_letters.dropped,
            has_lanes: ordering != Ordering::None,
            lane_blocked_for: lane_failing_since.map(|since| now.wall.since(since)),
            obstacles,
            fifo: is_fifo.then(|| state.fifo_figures(now, backlog)),
        }
    }

    /// What keeps it from delivering; `endpoint` knows the one of an address that is pushed to.
    pub(crate) fn obstacles(
        &self,
        now: Now,
        endpoint: &dyn Fn(&str) -> Option<EndpointFigures>,
    ) -> Obstacles {
        let endpoint = self.endpoint(endpoint);
        self.state.lock().obstacles(now, endpoint)
    }

    /// Endpoints have locks of their own, which are not taken under that of a subscription.
    fn endpoint(&self, known: &dyn Fn(&str) -> Option<EndpointFigures>) -> Option<EndpointFigures> {
        self.settings().push.as_ref().and_then(|push| known(push.endpoint.text()))
    }

    /// The record at `cursor`, as far as memory knows it; else what was there before.
    fn oldest(&self, state: &mut State, cursor: Offset) -> Option<Oldest> {
        if state.oldest.is_none_or(|known| known.cursor != cursor)
            && let TailRead::Records(batch) =
                self.runtime.log.read_tail(self.topic.id(), cursor, crate::figures::ONE)
            && let Some(record) = batch.records.first()
        {
            let bytes = record.body.len() as u64;
            state.oldest = Some(Oldest { cursor, publish_time: record.publish_time, bytes });
        }
        state.oldest
    }

    /// The first that is open, if what stands there is on disk and was not looked up.
    pub(crate) fn oldest_unknown(&self) -> Option<Offset> {
        let Open { count, first } = self.open();
        if count == 0 {
            return None;
        }
        let known = self.oldest(&mut self.state.lock(), first);
        known.is_none_or(|known| known.cursor != first).then_some(first)
    }

    /// What stands at the cursor was looked up.
    pub(crate) fn set_oldest(&self, oldest: Oldest) {
        self.state.lock().oldest = Some(oldest);
    }
}

impl State {
    fn lane_failing_since(&self, obstacles: &Obstacles) -> Option<Timestamp> {
        let blocked_since = self.blocked.map(|blocked| blocked.since);
        blocked_since.or(obstacles.waits.lane_failing_since)
    }

    fn fifo_figures(&self, now: Now, backlog: u64) -> FifoFigures {
        FifoFigures {
            queue_depth: backlog,
            blocked_for: self.blocked.map(|blocked| now.wall.since(blocked.since)),
            current_retry_count: self.blocked.map_or(0, |blocked| blocked.failed),
        }
    }

    fn obstacles(&self, now: Now, endpoint: Option<EndpointFigures>) -> Obstacles {
        Obstacles {
            is_paused: self.settings.paused,
            paused_since: self.paused_since.filter(|_| self.settings.paused),
            is_detached: self.settings.detached,
            consumers: self.consumers,
            left_alone: endpoint.and_then(|endpoint| endpoint.left_alone(now)),
            waits: self.delivery.waits(now),
        }
    }
}

/// Lines in the log.
impl Subscription {
    /// A line about the record at `offset`.
    pub(super) fn line(&self, offset: Offset, outcome: DeliveryOutcome) -> LogLine {
        LogLine {
            subscription: self.name.clone(),
            topic: self.topic.name().clone(),
            offset,
            publish_time: None,
            attempt: None,
            outcome,
            http_status: None,
            ack_action: None,
            failure: None,
        }
    }

    /// A line about an ack, made before it takes effect.
    pub(super) fn acked_line(
        &self,
        state: &State,
        offset: Offset,
        action: &'static str,
    ) -> LogLine {
        let leased = state.delivery.leased(offset);
        LogLine {
            publish_time: leased.map(|(_, publish_time)| publish_time),
            attempt: leased.map(|(attempt, _)| attempt),
            ack_action: Some(action),
            ..self.line(offset, DeliveryOutcome::Applied)
        }
    }

    /// Counts and tells deliveries that failed.
    pub(super) fn note_failed(self: &Arc<Self>, state: &mut State, failed: Vec<Failed>) {
        if failed.is_empty() {
            return;
        }
        let now = self.runtime.now();
        let is_fifo = state.settings.ordering() == Ordering::Fifo;
        for failed in failed {
            state.counts.note_failed(&failed);
            if is_fifo {
                self.note_blocked(state, now, &failed);
            }
            let outcome = match failed.readiness {
                Readiness::Ready | Readiness::BackingOff(_) => DeliveryOutcome::Retry,
                Readiness::Halted => DeliveryOutcome::Poison,
                // Whoever forwards or drops it tells what became of it.
                Readiness::Exhausted(_) => continue,
            };
            let line = LogLine {
                publish_time: Some(failed.publish_time),
                attempt: Some(failed.attempt),
                ..self.line(failed.offset, outcome)
            };
            let line = with_failure(line, Some(failed.failure));
            self.runtime.delivery_log.add(&self.line_limit, now.moment, Entry::Delivery(line));
        }
    }

    fn note_blocked(self: &Arc<Self>, state: &mut State, now: Now, failed: &Failed) {
        let before = state.blocked.filter(|blocked| blocked.offset == failed.offset);
        let news = match before {
            None => Some(News::Blocked),
            Some(blocked) if now.moment.since(blocked.told_at) < TELL_EVERY => None,
            Some(blocked) => Some(News::StillBlocked(now.wall.since(blocked.since))),
        };
        let told_at = before.filter(|_| news.is_none()).map_or(now.moment, |known| known.told_at);
        let blocked = Blocked {
            offset: failed.offset,
            since: before.map_or(now.wall, |blocked| blocked.since),
            failed: failed.attempt,
            told_at,
        };
        state.blocked = Some(blocked);
        if let Some(news) = news {
            self.tell_blocked(state, blocked, now.moment, news);
        }
    }

    /// Notices that what blocked a FIFO subscription does so no more.
    pub(super) fn note_unblocked(self: &Arc<Self>, state: &mut State) {
        let Some(blocked) = state.blocked else { return };
        let is_fifo = state.settings.ordering() == Ordering::Fifo;
        if is_fifo && !state.delivery.progress().is_acked(blocked.offset) {
            return;
        }
        state.blocked = None;
        let now = self.runtime.now();
        let news = News::Unblocked(now.wall.since(blocked.since));
        self.tell_blocked(state, blocked, now.moment, news);
    }

    fn tell_blocked(self: &Arc<Self>, state: &State, blocked: Blocked, now: Moment, news: News) {
        let blocking = Blocking {
            subscription: self.name.clone(),
            offset: blocked.offset,
            failed: blocked.failed,
            attempts_max: state.settings.attempts_allowed(),
            news,
        };
        self.runtime.delivery_log.add(&self.line_limit, now, Entry::Fifo(blocking));
    }

    /// Tells what became of a record that was given up.
    pub(crate) fn tell_given_up(
        self: &Arc<Self>,
        offset: Offset,
        attempt: u32,
        publish_time: Option<Timestamp>,
        failure: Option<Failure>,
        outcome: DeliveryOutcome,
    ) {
        let line = LogLine { publish_time, attempt: Some(attempt), ..self.line(offset, outcome) };
        let line = with_failure(line, failure);
        self.runtime.delivery_log.add(
            &self.line_limit,
            self.runtime.clock.now(),
            Entry::Delivery(line),
        );
    }
}

fn with_failure(line: LogLine, failure: Option<Failure>) -> LogLine {
    let class = failure.as_ref().map(|failure| failure.class);
    let ack_action = class.filter(|class| ["nack", "expired"].contains(class));
    let http_status = failure.as_ref().and_then(|failure| failure.status);
    LogLine { http_status, ack_action, failure, ..line }
}

/// What an ack came to, in the words of the log.
pub(super) fn told(status: AckStatus) -> DeliveryOutcome {
    match status {
        AckStatus::Settled | AckStatus::Provisional => DeliveryOutcome::Applied,
        AckStatus::AlreadySettled => DeliveryOutcome::Duplicate,
        AckStatus::Stale | AckStatus::Foreign | AckStatus::Beyond => DeliveryOutcome::StaleIgnored,
    }
}
