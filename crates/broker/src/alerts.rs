//! Alerts: looks at every subscription now and then, keeps what is wrong, and tells of what begins
//! and ends on a topic of the server's own.

mod post;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::alert::{Alert, Counts, Sample, Settings, Transition, Watch};
use domain::{SubscriptionId, SubscriptionName};
use parking_lot::Mutex;

pub use view::AlertView;

use crate::admin::Admin;
use crate::options::AlertOptions;
use crate::registry::Registry;
use crate::runtime::NodeAccess;
use crate::status::Observer;
use crate::subscription::Subscription;
use post::Outbox;

/// Subscriptions that are looked at before others get their turn.
const SEEN_AT_ONCE: usize = 100;

/// Watches every subscription, and reports what is wrong.
pub(crate) struct Alerts {
    access: NodeAccess,
    registry: Arc<Registry>,
    observer: Arc<Observer>,
    admin: Arc<Admin>,
    known: Known,
}

/// What is known about every subscription, and what is to be told.
#[derive(Default)]
struct Known {
    watched: Mutex<BTreeMap<SubscriptionId, Watched>>,
    /// The server itself.
    server: Mutex<Watch>,
    /// Those with which something was wrong at the last look.
    alerting: Mutex<BTreeSet<SubscriptionName>>,
    outbox: Outbox,
}

struct Watched {
    name: SubscriptionName,
    watch: Watch,
}

/// What one look finds of a subscription.
struct Seen {
    id: SubscriptionId,
    name: SubscriptionName,
    settings: Settings,
    sample: Sample,
}

impl Alerts {
    pub(crate) fn new(
        access: NodeAccess,
        registry: Arc<Registry>,
        observer: Arc<Observer>,
        admin: Arc<Admin>,
    ) -> Self {
        Self { access, registry, observer, admin, known: Known::default() }
    }

    /// Looks every so often as the options say, forever.
    pub(crate) async fn run(self: Arc<Self>, options: AlertOptions) {
        let clock = &self.access.clock;
        loop {
            self.look().await;
            clock.sleep_until(clock.now().plus(options.interval)).await;
        }
    }

    /// What is wrong now: with the server, then in name order.
    pub(crate) fn views(&self) -> Vec<AlertView> {
        let watched = self.known.watched.lock();
        let of_one = |watched: &Watched| {
            let view = |alert: &Alert| AlertView::new(Some(&watched.name), alert);
            watched.watch.alerts().map(view).collect::<Vec<_>>()
        };
        let mut views: Vec<AlertView> = watched.values().flat_map(of_one).collect();
        let server = self.known.server.lock();
        views.extend(server.alerts().map(|alert| AlertView::new(None, alert)));
        views.sort_by(|a, b| (&a.subscription, a.rule).cmp(&(&b.subscription, b.rule)));
        views
    }

    /// Whether something is wrong with the subscription of that name now, firing or not yet.
    pub(crate) fn has_alert(&self, name: &SubscriptionName) -> bool {
        self.known.alerting.lock().contains(name)
    }

    /// Looks at every subscription as it is now; the chore does so every while.
    async fn look(&self) {
        self.observer.refresh_figures().await;
        let mut seen = Vec::new();
        for some in self.registry.all_subscriptions().chunks(SEEN_AT_ONCE) {
            seen.extend(some.iter().filter_map(|subscription| self.see(subscription)));
            // With many thousands, others get their turn in between.
            tokio::task::yield_now().await;
        }
        let now = self.access.now();
        let told = self.known.look(now, seen).into_iter();
        let told = told.map(|(name, transition)| (Some(name), transition));
        let of_server =
            self.known.server.lock().look(now, &self.see_server(), &Settings::default());
        let told = of_server.into_iter().map(|transition| (None, transition)).chain(told);
        self.known.outbox.add(told.map(|(name, transition)| {
            log(name.as_ref(), &transition);
            post::message(name.as_ref(), &transition, now.wall)
        }));
    }

    fn see_server(&self) -> Sample {
        Sample {
            clock_ahead: self.observer.clock_ahead(),
            log_stuck_for: self.observer.log_stuck_for(),
            outstanding_used: self.observer.outstanding_used(),
            ..Sample::default()
        }
    }

    /// Nobody is told about those who are told: each telling would be one more thing to tell.
    fn see(&self, subscription: &Subscription) -> Option<Seen> {
        if subscription.name().is_own() || subscription.topic().name().is_own() {
            return None;
        }
        let figures = self.observer.figures_of(subscription);
        let settings = subscription.settings().alerts.clone();
        let sample = Sample {
            dead_letters_waiting: figures.dead_letters_waiting,
            dead_letters_total: figures.dead_letters,
            pushes: Counts::of(figures.attempts.iter().copied()),
            oldest_unacked_age: figures.oldest_unacked_age,
            backlog_messages: figures.backlog_messages,
            fifo_blocked_for: figures.fifo.and_then(|fifo| fifo.blocked_for),
            clock_ahead: None,
            log_stuck_for: None,
            outstanding_used: 0,
            lane_blocked_for: figures.lane_blocked_for.filter(|_| figures.fifo.is_none()),
            lanes_halted: figures.obstacles.waits.lanes_halted as u64,
        };
        Some(Seen { id: figures.id, name: figures.name, settings, sample })
    }
}

impl Known {
    /// What begins and ends with what is seen now. Subscriptions that are not seen are gone.
    fn look(&self, now: domain::Now, seen: Vec<Seen>) -> Vec<(SubscriptionName, Transition)> {
        let mut told = Vec::new();
        let mut watched = self.watched.lock();
        let mut gone = std::mem::take(&mut *watched);
        for Seen { id, name, settings, sample } in seen {
            let before = gone.remove(&id).map(|watched| watched.watch);
            let mut watch = before.unwrap_or_default();
            let transitions = watch.look(now, &sample, &settings);
            told.extend(transitions.into_iter().map(|one| (name.clone(), one)));
            watched.insert(id, Watched { name, watch });
        }
        for Watched { name, mut watch } in gone.into_values() {
            told.extend(watch.end().into_iter().map(|one| (name.clone(), one)));
        }
        let wrong = watched.values().filter(|watched| watched.watch.alerts().next().is_some());
        *self.alerting.lock() = wrong.map(|watched| watched.name.clone()).collect();
        told
    }
}

fn log(name: Option<&SubscriptionName>, transition: &Transition) {
    use domain::alert::{Severity, State};
    let Alert { rule, severity, state, .. } = transition.alert;
    let name = name.map(SubscriptionName::as_str);
    let summary = transition.alert.summary();
    match (state, severity) {
        (State::Firing, Severity::Critical) => {
            tracing::error!(subscription = name, %rule, %severity, "alert: {summary}");
        }
        (State::Firing, Severity::Warning) => {
            tracing::warn!(subscription = name, %rule, %severity, "alert: {summary}");
        }
        (State::Resolved, _) => {
            tracing::info!(subscription = name, %rule, "alert resolved");
        }
        (State::Pending, _) => {
            tracing::debug!(subscription = name, %rule, "alert pending: {summary}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use domain::alert::State;
    use domain::{Moment, Now, Timestamp};

    use super::*;

    fn seen(id: u64, age_s: u64) -> Seen {
        let name = format!("projects/p/subscriptions/sub-{id}");
        let oldest_unacked_age = Some(Duration::from_secs(age_s));
        Seen {
            id: SubscriptionId(id),
            name: SubscriptionName::parse("name", &name).unwrap(),
            settings: Settings::default(),
            sample: Sample { oldest_unacked_age, ..Sample::default() },
        }
    }

    #[test]
    fn a_subscription_that_is_gone_has_no_alerts_and_that_is_told() {
        let alerts = Known::default();
        let now = Now { moment: Moment(1), wall: Timestamp(1) };
        let told = alerts.look(now, vec![seen(1, 400), seen(2, 1)]);
        assert_eq!((told.len(), told[0].1.alert.state), (1, State::Firing));
        let told = alerts.look(now, vec![seen(2, 1)]);
        assert_eq!((told.len(), told[0].1.alert.state), (1, State::Resolved));
        assert_eq!(told[0].0.id(), "sub-1");
        assert_eq!(alerts.watched.lock().len(), 1);
    }

    #[test]
    fn another_life_of_a_name_starts_anew() {
        let alerts = Known::default();
        let now = Now { moment: Moment(1), wall: Timestamp(1) };
        alerts.look(now, vec![seen(1, 400)]);
        let again = Seen { id: SubscriptionId(9), ..seen(1, 400) };
        let told = alerts.look(now, vec![again]);
        let states: Vec<State> = told.iter().map(|(_, told)| told.alert.state).collect();
        assert_eq!(states, [State::Firing, State::Resolved]);
    }
}
