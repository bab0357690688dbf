//! A gateway's open stream: takes its frames, and delivers what it asked to go back for.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use domain::{Moment, Offset, TopicId, TopicName};
use storage::{Batch, ReadLimit};

use super::Live;
use super::follower::{Follower, is_whole};
use super::frame::{LiveEvent, LiveFrame, Lost};
use super::matcher::{For, Matcher};
use super::session::{Resume, Session};
use crate::error::{Error, Result};
use crate::source::read_some;

/// How many messages are matched at a time while a stream goes back: never more than a buffer
/// holds.
const LIMIT: ReadLimit = ReadLimit { records: 64, bytes: 256 << 10 };

/// Where a stream starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LiveStart {
    /// Where the gateway's last stream ended.
    #[default]
    Last,
    /// After this frame.
    Sequence(u64),
    /// After this message of a topic; `None` = of the only topic that is matched.
    Offset(Option<TopicName>, Offset),
}

/// An open stream. It renews its gateway's subscriptions until it is dropped.
pub struct LiveStream {
    live: Arc<Live>,
    session: Arc<Session>,
    number: u64,
    /// The frame to take next.
    at: u64,
    /// Events sent before any frame.
    first: Vec<LiveEvent>,
    /// When to send a heartbeat.
    beat_at: Moment,
    matcher: Matcher,
}

/// What happens to an open stream of the same gateway.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IfOpen {
    /// It ends, and the new one replaces it.
    Replace,
    /// It continues, and the new one is refused.
    Refuse,
}

impl Live {
    /// Opens a gateway's stream. It replaces an open one.
    pub fn open(self: &Arc<Self>, gateway: &str, start: &LiveStart) -> Result<LiveStream> {
        self.open_as(gateway, start, IfOpen::Replace)
    }

    /// Opens a gateway's stream unless one is open.
    pub fn open_if_free(self: &Arc<Self>, gateway: &str, start: &LiveStart) -> Result<LiveStream> {
        self.open_as(gateway, start, IfOpen::Refuse)
    }

    fn open_as(
        self: &Arc<Self>,
        gateway: &str,
        start: &LiveStart,
        if_open: IfOpen,
    ) -> Result<LiveStream> {
        self.access.check_serving()?;
        domain::live::gateway_id(gateway)?;
        let back = match start {
            LiveStart::Offset(topic, offset) => {
                Some((self.followed(topic.as_ref())?.topic.id(), offset.next()))
            }
            LiveStart::Last | LiveStart::Sequence(_) => None,
        };
        let (session, is_unknown) = self.attach(gateway, if_open)?;
        let resume = match start {
            LiveStart::Sequence(sequence) => Resume::After(*sequence),
            LiveStart::Last | LiveStart::Offset(..) => Resume::Last,
        };
        let (number, mut at, lost) = session.begin(&resume);
        if let Some(back) = back {
            at = session.go_back(&[back]);
        }
        let mut first = Vec::new();
        first.extend(is_unknown.then_some(LiveEvent::Register));
        if let Some(lost) = lost {
            self.figures.note_resync();
            first.push(LiveEvent::Resync(lost));
        }
        self.figures.streams.fetch_add(1, Ordering::Relaxed);
        let beat_at = self.access.clock.now().plus(self.options().heartbeat);
        let (live, matcher) = (Arc::clone(self), Matcher::default());
        Ok(LiveStream { live, session, number, at, first, beat_at, matcher })
    }

    /// Notes that a stream is open: returns the gateway's session, and whether it has no
    /// subscriptions.
    fn attach(&self, gateway: &str, if_open: IfOpen) -> Result<(Arc<Session>, bool)> {
        let mut registrations = self.registrations.lock();
        if if_open == IfOpen::Refuse && registrations.registry.has_stream(gateway) {
            let problem = format!(
                "gateway {gateway} already has a stream open, and a web page cannot replace it"
            );
            return Err(Error::FailedPrecondition(problem));
        }
        let now = self.access.now();
        let ended = registrations.registry.open_stream(now, gateway);
        self.note_ended(&mut registrations, &ended);
        ended.iter().for_each(|ended| self.shards.remove(ended));
        let is_unknown = registrations.registry.of_one_gateway(gateway) == 0;
        let session = registrations.session_or(gateway, |name| self.new_session(name));
        // It has a stream, so the registry knows it.
        Ok((session.ok_or(Error::Closing)?, is_unknown))
    }

    fn followed(&self, topic: Option<&TopicName>) -> Result<Arc<Follower>> {
        let followers = self.followers.lock();
        let mut fitting = followers
            .values()
            .filter(|follower| topic.is_none_or(|topic| follower.topic.name() == topic));
        match (fitting.next(), fitting.next()) {
            (Some(only), None) => Ok(Arc::clone(only)),
            (Some(_), Some(_)) => Err(domain::Invalid::new(
                "topic",
                "messages of several topics are matched; name the topic of the offset",
            )
            .into()),
            (None, _) => Err(domain::Invalid::new(
                "topic",
                "no such topic is matched for live subscriptions; \
                 give it the label postrider-live=true",
            )
            .into()),
        }
    }
}

impl LiveStream {
    /// The next frames, as soon as there are any; `None` = the stream has ended: another has
    /// replaced it, or the server stops.
    pub async fn next(&mut self) -> Option<Vec<Arc<LiveFrame>>> {
        loop {
            self.live.access.check_serving().ok()?;
            if !self.first.is_empty() {
                let events = std::mem::take(&mut self.first);
                return Some(events.into_iter().map(|event| self.aside(event)).collect());
            }
            let frames = self.session.take(self.number, &mut self.at)?;
            if !frames.is_empty() {
                self.beat_at = self.live.access.clock.now().plus(self.live.options().heartbeat);
                return Some(frames);
            }
            if let Some((topic, at)) = self.session.behind() {
                self.go_on(topic, at).await;
                continue;
            }
            let clock = &self.live.access.clock;
            if clock.now() >= self.beat_at {
                self.beat_at = clock.now().plus(self.live.options().heartbeat);
                return Some(vec![self.aside(LiveEvent::Heartbeat)]);
            }
            tokio::select! {
                biased;
                () = self.session.wake.notified() => {}
                () = clock.sleep_until(self.beat_at) => {}
            }
        }
    }

    /// A frame that is not kept.
    fn aside(&self, event: LiveEvent) -> Arc<LiveFrame> {
        Arc::new(LiveFrame { sequence: self.at.saturating_sub(1), event })
    }

    /// Delivers some messages of a topic that the gateway went back in.
    async fn go_on(&mut self, topic: TopicId, at: Offset) {
        let follower = self.live.followers.lock().get(&topic).cloned();
        let Some(follower) = follower else {
            // It is no longer followed: nothing more will come.
            self.session.brought(topic, at, || at);
            return;
        };
        let read = read_some(&**follower.topic.log(), topic, at, LIMIT).await;
        let Batch { covered, records, .. } = match read {
            Ok(batch) => batch,
            Err(error) => {
                tracing::error!(%error, "cannot read earlier messages for a gateway");
                self.lose();
                let end = follower.topic.log().end(topic);
                self.session.brought(topic, end, || end);
                return;
            }
        };
        if !is_whole(covered, records.len()) {
            self.lose();
        }
        let (live, session) = (&self.live, &*self.session);
        for record in records.iter().filter(|record| record.addressee.is_none()) {
            let tell = |session: &Session, event: LiveEvent| {
                live.figures.note_frame(session.say(event));
            };
            let whom = For::One(session);
            let run = self.matcher.run(live, &follower.topic, record, &whom, || (), tell);
            if run.is_err() {
                live.figures.note_resync();
                session.say(LiveEvent::Resync(Lost::NotRetained));
            }
        }
        self.session.brought(topic, covered.to, || follower.at());
    }

    fn lose(&self) {
        self.session.say(LiveEvent::Resync(Lost::NotRetained));
        self.live.figures.note_resync();
    }
}

impl Drop for LiveStream {
    fn drop(&mut self) {
        self.live.figures.streams.fetch_sub(1, Ordering::Relaxed);
        let mut registrations = self.live.registrations.lock();
        registrations.registry.close_stream(self.live.access.now(), &self.session.gateway);
        registrations.forget_if_gone(&self.session.gateway);
    }
}
