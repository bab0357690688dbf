//! What holds after every step, when everybody rests, and at the end.

use domain::delivery::{Effects, Exhausted, LaneState, LaneView, Ordering};
use domain::{Offset, ProgressChange, Timestamp};

use crate::lease::Ask;
use crate::naive::{LANES, Naive};
use crate::run::tell;
use crate::spot::{Ack, Kind};
use crate::world::{TICK, Urgency, World};

impl World {
    /// Takes what a step led to: journals it, wakes whom it names, checks what it says.
    pub(crate) fn finish(&mut self, effects: Effects, urgency: Urgency) {
        self.check_attempts(&effects);
        self.finish_checked(effects, urgency);
    }

    /// The same where the attempts have been looked at.
    pub(crate) fn finish_checked(&mut self, effects: Effects, urgency: Urgency) {
        tell(|| format!("      {effects:?}"));
        assert!(effects.settled.is_sorted_by(|a, b| a.to < b.from), "{:?}", effects.settled);
        let mut changes = Vec::new();
        if !effects.settled.is_empty() {
            changes.push(ProgressChange::Settled(effects.settled));
        }
        if !effects.attempts.is_empty() {
            changes.push(ProgressChange::Attempts(effects.attempts));
        }
        self.note(changes, urgency);
        effects.exhausted.iter().for_each(|exhausted| self.report(exhausted));
        for freed in effects.freed {
            // Ids begin again with every restart.
            if let Some(consumer) = self.ids.iter().rposition(|id| *id == freed) {
                self.line.wake(consumer);
            }
        }
        if effects.returned > 0 {
            self.line.wake_one();
        }
    }

    /// Attempts are journaled exactly where the rules say, counted right and due in time.
    pub(crate) fn check_attempts(&mut self, effects: &Effects) {
        let mut attempts = effects.attempts.clone();
        attempts.sort_by_key(|(offset, _)| *offset);
        let mut expected = std::mem::take(&mut self.naive.expected);
        expected.sort_by_key(|expected| expected.offset);
        let counts: Vec<_> = attempts.iter().map(|(o, attempt)| (o.0, attempt.count)).collect();
        let wanted: Vec<_> = expected.iter().map(|e| (e.offset as u64, e.count)).collect();
        assert_eq!(counts, wanted, "journaled attempts");
        for ((_, attempt), expected) in attempts.iter().zip(expected) {
            assert!(
                (expected.due_from..=expected.due_to).contains(&attempt.due),
                "{attempt:?}, not {expected:?}"
            );
            self.naive.spots[expected.offset].noted = (attempt.count > 0).then_some(*attempt);
        }
    }

    fn report(&mut self, exhausted: &Exhausted) {
        let offset = usize::try_from(exhausted.offset.0).unwrap();
        let spot = &self.naive.spots[offset];
        let is_given_up = self.naive.is_given_up(spot) && !self.naive.is_halted(spot);
        assert!(is_given_up && spot.is_unsettled(), "{offset} is not exhausted: {spot:?}");
        assert_eq!(exhausted.attempts, spot.failed, "attempts of {offset}");
        self.reported.insert(offset);
    }

    /// What holds after every step.
    pub(crate) fn check(&self) {
        assert_eq!(self.delivery.outstanding(), self.naive.held().count(), "outstanding leases");
        let unsettled = self.naive.spots.iter().filter(|spot| !spot.settled).count();
        assert_eq!(self.delivery.backlog(self.log.end()), unsettled as u64, "backlog");
        self.check_wake();
        for (offset, spot) in self.naive.spots.iter().enumerate() {
            let at = Offset(offset as u64);
            assert_eq!(self.delivery.progress().attempt(at), spot.noted, "attempt of {offset}");
            self.check_exhausted(offset);
        }
        for (at, attempt) in self.delivery.attempts_unread() {
            let spot = &self.naive.spots[usize::try_from(at.0).unwrap()];
            assert_eq!(spot.noted, Some(attempt), "unread attempt of {at}");
            assert!(!spot.is_known, "{at} was leased, so it was read");
        }
        (0..LANES).for_each(|lane| self.check_lane(lane));
        self.check_views();
        self.check_indexed();
        if self.line.is_quiet() {
            self.check_rest();
        }
    }

    /// Somebody will look when the next lease ends.
    fn check_wake(&self) {
        let first = self.naive.held().map(|(_, held)| held.deadline).min();
        if let Some(deadline) = first {
            let wake = self.delivery.next_wake();
            assert!(wake.is_some_and(|wake| wake <= deadline), "{wake:?}, not {deadline:?}");
        }
    }

    /// Who is exhausted is known to its owner, and nobody else is.
    fn check_exhausted(&self, offset: usize) {
        let spot = &self.naive.spots[offset];
        let is_exhausted = self.delivery.is_exhausted(Offset(offset as u64));
        if is_exhausted {
            assert!(self.reported.contains(&offset), "nobody was told that {offset} is exhausted");
            let is_given_up = self.naive.is_given_up(spot) && !self.naive.is_halted(spot);
            assert!(is_given_up && spot.is_unsettled(), "{offset} is not exhausted: {spot:?}");
        }
        let is_due = spot.waits()
            && spot.is_known
            && !(spot.lane.is_some() && self.naive.forgets())
            && spot.kind == Kind::Record
            && spot.ack == Ack::No
            && self.naive.is_given_up(spot)
            && !self.naive.is_halted(spot)
            && (spot.lane.is_none() || self.naive.is_next_in_lane(offset));
        assert!(is_exhausted || !is_due, "{offset} is exhausted: {spot:?}");
    }

    /// A lane is blocked by its next record and by nothing else, and a halted one shows it.
    fn check_lane(&self, lane: usize) {
        let name = Naive::lane_name(lane);
        let blocked = self.delivery.blocked_by(name).map(|o| usize::try_from(o.0).unwrap());
        if let Some(offset) = blocked
            && self.naive.spots[offset].lane == Some(lane)
        {
            let spot = &self.naive.spots[offset];
            let is_next = spot.is_unsettled() && spot.ack != Ack::Provisional;
            assert!(is_next, "{offset} is blocked: {spot:?}");
        }
        let is_halted = |&offset: &usize| {
            let spot = &self.naive.spots[offset];
            let is_sure = spot.is_known
                && !self.naive.forgets()
                && spot.ack == Ack::No
                && spot.kind == Kind::Record;
            spot.lane == Some(lane) && is_sure && spot.waits() && self.naive.is_halted(spot)
        };
        let halted = (0..self.naive.spots.len()).find(is_halted);
        if let Some(offset) = halted.filter(|&offset| self.naive.is_next_in_lane(offset)) {
            assert_eq!(blocked, Some(offset), "{offset} halts lane {name:?}");
        }
    }
}

/// What operators see.
impl World {
    fn check_views(&self) {
        let views = self.delivery.lanes(self.now);
        let since = |view: &LaneView| view.blocked_since.unwrap_or(Timestamp(u64::MAX));
        assert!(views.is_sorted_by_key(since), "those blocked longest come first: {views:?}");
        for view in &views {
            if let Some(next) = view.next {
                self.check_view(view, usize::try_from(next.0).unwrap());
            }
        }
        self.check_waits(&views);
    }

    /// What is counted as it happens is what one finds by looking at every lane.
    fn check_waits(&self, views: &[LaneView]) {
        let waits = self.delivery.waits(self.now);
        let unread = waits.lanes_halted_unread;
        let blocked = views.iter().filter(|view| view.state.is_blocked()).count();
        assert_eq!(waits.lanes_blocked, blocked + unread, "{waits:?} of {views:?}");
        let halted = views.iter().filter(|view| view.state == LaneState::Halted).count();
        assert_eq!(waits.lanes_halted, halted + unread, "{waits:?} of {views:?}");
        // A record that fails while it is leased again is not the next of its lane.
        let since = views.iter().filter_map(|view| view.blocked_since).min();
        let is_known = waits.lane_failing_since.is_some_and(|known| Some(known) <= since);
        assert!(since.is_none() || is_known, "{waits:?} of {views:?}");
        let waiting = views.iter().filter(|view| view.state == LaneState::BackingOff);
        assert!(waits.backing_off >= waiting.count(), "{waits:?} of {views:?}");
        let until = views.iter().filter_map(|view| view.next_attempt_at).min();
        let is_known = waits.backing_off_until.is_some_and(|known| Some(known) <= until);
        assert!(until.is_none() || is_known, "{waits:?} of {views:?}");
        let is_waiting = waits.backing_off > 0;
        assert_eq!(waits.backing_off_until.is_some(), is_waiting, "{waits:?}");
        // Where all are of one lane, it may be known to be halted by another.
        let is_one = self.naive.settings.ordering == Ordering::Fifo;
        let is_counted = unread > 0 || (is_one && waits.lanes_halted > 0);
        for (at, attempt) in self.delivery.attempts_unread() {
            let is_known = self.delivery.progress().is_acked(at) || is_counted;
            let spot = &self.naive.spots[usize::try_from(at.0).unwrap()];
            let is_halted = spot.lane.is_some() && self.naive.is_halted(spot);
            assert!(is_known || !is_halted, "{at} was halted after {attempt:?}: {waits:?}");
        }
    }

    /// A lane shows its next record as it is.
    fn check_view(&self, view: &LaneView, offset: usize) {
        let spot = &self.naive.spots[offset];
        let is_next = spot.is_unsettled() && spot.ack != Ack::Provisional;
        assert!(is_next, "{offset} is not next: {spot:?}");
        if spot.lane.is_some() {
            assert_eq!(spot.lane.map(Naive::lane_name), Some(view.key.as_str()), "of {offset}");
        }
        let noted = spot.noted.map_or(0, |attempt| attempt.count);
        let is_known = view.attempts == spot.failed || spot.kind == Kind::Damaged;
        assert!(is_known || (self.naive.forgets() && view.attempts == noted), "{view:?}, {spot:?}");
        let of_lane = self.naive.spots.iter().filter(|other| other.lane == spot.lane);
        let waiting = of_lane.filter(|other| other.is_unsettled()).count();
        assert!((1..=waiting.max(1)).contains(&view.pending), "{view:?}, {waiting} wait");
        let spot = &self.naive.as_known(spot, view.attempts.max(noted));
        let (is_given_up, is_halted) = (self.naive.is_given_up(spot), self.naive.is_halted(spot));
        let due = spot.noted.map_or(Timestamp(0), |attempt| attempt.due);
        let is_right = match view.state {
            LaneState::Halted => is_halted,
            LaneState::Exhausted => is_given_up && !is_halted,
            // It may be over, and nobody has looked since.
            LaneState::BackingOff => {
                !is_given_up && view.next_attempt_at == Some(due.max(self.now.wall))
            }
            LaneState::Damaged => spot.kind == Kind::Damaged,
            LaneState::Moving => !is_given_up && due <= self.now.wall,
        };
        assert!(is_right, "{view:?} shows {spot:?}");
    }

    /// Lanes hold no more of the index than half, but the next of each (LEASE-5).
    fn check_indexed(&self) {
        let naive = &self.naive;
        let waiting = naive.spots.iter().filter(|spot| spot.waits());
        let free = waiting.filter(|spot| spot.lane.is_none()).count();
        let bound = naive.indexed_max / 2 + LANES + free;
        let indexed = self.delivery.indexed();
        assert!(naive.was_exactly_once || indexed <= bound, "{indexed}, at most {bound}");
        // Acks from before a restart are taken in however full it is, and so are damaged records.
        if naive.epoch > 1 {
            return;
        }
        let damaged = naive.spots.iter().filter(|spot| spot.kind == Kind::Damaged).count();
        let (remembered, most) =
            (self.delivery.remembered(), naive.remembered_max.saturating_add(damaged));
        assert!(remembered <= most, "{remembered} remembered, at most {most}");
    }
}

/// Promise L1.
impl World {
    /// Everybody who is awake asks, until nobody is; that comes to an end.
    pub(crate) fn rest(&mut self, ask: Ask) {
        let mut asked = 0;
        let before = self.naive.given.len();
        while let Some(consumer) = self.line.next_awake() {
            self.ask(consumer, ask);
            asked += 1;
            let leased = self.naive.given.len() - before;
            let bound = 20 + 4 * (self.ids.len() + leased);
            assert!(asked <= bound, "{asked} times somebody asked, {leased} were leased");
        }
    }

    /// Nobody waits for what is there for him.
    fn check_rest(&self) {
        for consumer in self.line.in_line() {
            let offers = self.naive.offers(consumer, self.naive.ticked);
            let missed = offers.iter().find(|offer| offer.is_sure);
            assert_eq!(missed, None, "{consumer} waits for records");
        }
        for consumer in self.line.without_room().filter(|&c| self.naive.fits(c, 1)) {
            let offers = self.naive.offers(consumer, self.naive.ticked);
            let is_held_up = offers.iter().any(|o| !self.naive.fits(consumer, o.bytes));
            let missed = offers.iter().find(|offer| offer.is_sure);
            assert!(is_held_up || missed.is_none(), "{consumer} waits for room, {missed:?}");
        }
        if self.line.in_line().next().is_some() && !self.naive.settings.is_paused {
            self.check_backoffs();
        }
    }

    /// Somebody will look when the next backoff of a record that was read ends.
    fn check_backoffs(&self) {
        let is_due_later = |offset: &usize| {
            let spot = &self.naive.spots[*offset];
            let is_readable = spot.is_known && spot.kind == Kind::Record;
            let waits = spot.waits() && is_readable && spot.ack == Ack::No;
            // A lane that is forgotten is looked at when its consumer asks.
            let is_indexed = !self.naive.forgets() && self.naive.is_next_in_lane(*offset);
            let is_next = spot.lane.is_none() || is_indexed;
            let is_later = spot.noted.is_some_and(|attempt| attempt.due > self.now.wall);
            waits && is_next && is_later && !self.naive.is_given_up(spot)
        };
        for offset in (0..self.naive.spots.len()).filter(is_due_later) {
            let due = self.naive.spots[offset].noted.unwrap().due;
            let at = self.now.moment.plus(due.since(self.now.wall)).plus(TICK);
            let wake = self.delivery.next_wake();
            assert!(wake.is_some_and(|wake| wake < at), "{wake:?} is after {offset} is due");
        }
    }

    /// When faults stop and everybody acks what he gets, nothing is left but what is damaged.
    pub(crate) fn drain(&mut self) {
        let mut settings = self.naive.settings.clone();
        settings.is_paused = false;
        self.update(settings);
        if self.streams().is_empty() {
            self.open(domain::delivery::Flow { messages_max: 3, bytes_max: 50 });
        }
        let mut rounds = 0;
        while self.naive.spots.iter().any(|spot| !spot.settled && spot.kind != Kind::Damaged) {
            self.rest(Ask { records: 2, bytes: 100, lasts: 3 * TICK });
            self.check();
            self.ack_all();
            self.forward_all();
            if self.line.is_quiet() {
                self.unblock(rounds);
                self.pass_to_wake();
            }
            self.check();
            rounds += 1;
            let left = self.naive.spots.iter().enumerate().find(|(_, spot)| !spot.settled);
            assert!(rounds < 5_000, "it does not drain: {left:?}");
        }
        assert_eq!(self.delivery.outstanding(), 0);
    }

    /// An operator lets go what only an operator can.
    fn unblock(&mut self, round: usize) {
        for offset in self.blocked() {
            let spot = &self.naive.spots[offset];
            if spot.kind != Kind::Record || (self.naive.is_halted(spot) && round.is_multiple_of(2))
            {
                self.skip(offset);
            } else if self.naive.is_halted(spot) {
                self.release(offset);
            }
        }
    }
}
