"""Judges what one subscription was given in one life of the server, from the LEASE rules of docs/rules.md and promise O1.

Each function takes the leases of a life in the server's order and a `Past`: what is known from
the lives before. It gives faults, lines that begin with the promise's name, and brings the past up
to date. `ids` are those known to be in the lane, ascending.

Without exactly-once, per lane and in the order of leases:

    a delivery is the next of its lane, or one that failed comes again and all behind it follow;
    an ack behind an unsettled record is provisional: it ends with that record's return or a crash;
    what is not settled for good is never passed over, over lives neither.

With exactly-once an answered ack is for good, what is leased stays leased, and only what failed
comes again.
"""

import bisect
import collections


class Past:
    """What is known of a subscription's records from the lives before."""

    def __init__(self, once=False, attempts_max=None):
        self.once = once
        self.attempts_max = attempts_max
        # Settled for good: must never come again.
        self.sure = set()
        # Acked by its last lease, and nobody knows whether a crash took that back.
        self.maybe = set()
        # How often it was nacked in all.
        self.nacks = collections.Counter()
        # Seen as a dead letter.
        self.letters = set()

    def is_given_up(self, id, nacks=0):
        """Whether it may be a dead letter by now."""
        return self.attempts_max is not None and self.nacks[id] + nacks >= self.attempts_max

    def may_be_done(self, id):
        return id in self.sure or id in self.maybe or id in self.letters or self.is_given_up(id)

    def note_leases(self, latest, leases):
        for lease in leases:
            self.nacks[lease.id] += lease.nack_asked is not None
        for lease in latest.values():
            if lease.ack_asked is not None and not lease.is_void:
                self.maybe.add(lease.id)
            else:
                self.maybe.discard(lease.id)


def is_durable(lease, proven):
    """Whether its ack was answered before something began that was durable when the life ended."""
    return lease.ack_answered is not None and lease.ack_answered <= proven


def judge_free(past, leases, proven):
    """Records in no lane. `proven`: what was answered up to this time no crash took back."""
    faults, latest, nacks = [], {}, collections.Counter()
    for lease in leases:
        if lease.id in past.sure:
            faults.append(f"A1 {lease} came again although its ack was durable")
        if lease.id in latest:
            faults += again(latest[lease.id], lease)
        faults += too_often(past, lease, nacks)
        latest[lease.id] = lease
        nacks[lease.id] += lease.nack_asked is not None
    past.note_leases(latest, leases)
    for lease in latest.values():
        if is_durable(lease, float("inf") if past.once else proven):
            past.sure.add(lease.id)
    return faults


def again(before, lease):
    """It came a second time in one life."""
    if before.nack_asked is not None:
        return []
    if before.ack_asked is not None:
        return [f"A1 {lease} came again in the life that acked it as {before}"]
    return [f"A1 {lease} was leased twice at once, before as {before}"]


def too_often(past, lease, nacks):
    """Only of records in no lane: there every nack counts, in a lane not that of a void lease."""
    if past.is_given_up(lease.id, nacks[lease.id]) and past.nacks[lease.id] == 0:
        # All its attempts were in this life, so that no crash took one back.
        return [f"X1 {lease} came although it failed {nacks[lease.id]} times in this life"]
    return []


def judge_lane(past, ids, leases, proven):
    """One lane. `proven` as for `judge_free`."""
    walk = Walk(past, ids)
    for lease in leases:
        walk.step(lease)
    past.note_leases(walk.latest, leases)
    past.sure.update(id for id in walk.passed_at_the_start if not past.is_given_up(id))
    settle(past, ids, walk.latest, proven)
    return walk.faults


class Walk:
    """Goes through the leases of one lane in one life."""

    def __init__(self, past, ids):
        self.past = past
        self.ids = ids
        self.faults = []
        # The last lease of each record, and of these the ones that are neither acked nor void.
        self.latest = {}
        self.open = {}
        self.nacks = collections.Counter()
        # The record given out last.
        self.at = None
        # They were settled when this life began: a lane begins with its first unsettled record.
        self.passed_at_the_start = []

    def step(self, lease):
        before = self.latest.get(lease.id)
        if lease.id in self.past.sure:
            self.faults.append(f"A1 {lease} came again although its ack was durable")
        self.check_passed(lease)
        self.check_repeat(before, lease)
        self.check_held(lease)
        self.take(lease)

    def check_passed(self, lease):
        """Nothing unsettled is passed over."""
        first = self.at is None
        start = 0 if first else bisect.bisect_right(self.ids, self.at)
        for id in self.ids[start:bisect.bisect_left(self.ids, lease.id)]:
            if not self.may_be_passed(id, lease):
                since = "first in this life" if first else f"after {self.at}"
                self.faults.append(
                    f"O1 {lease} came {since}, and {id} before it, unsettled, had not come again"
                )
                return
            if first:
                self.passed_at_the_start.append(id)

    def may_be_passed(self, id, lease):
        held = self.latest.get(id)
        if held is None and (self.past.once or self.at is None):
            return self.past.may_be_done(id)
        if self.past.is_given_up(id, self.nacks[id]) or id in self.past.letters:
            return True
        if held is None or not self.past.once:
            # Acks settle from the front on: behind what came first nothing else is settled.
            return id in self.past.sure
        # If its consumer has nacked it, that had not reached the server; `check_held` sees where
        # it had.
        return held.ack_asked is not None or held.consumer == lease.consumer

    def check_repeat(self, before, lease):
        goes_back = self.at is not None and lease.id <= self.at
        if before is not None:
            # Without exactly-once it may come along with one before it that failed.
            found = again(before, lease) if goes_back or self.past.once else []
            if found and (self.past.once or not self.takes_along(lease)):
                self.faults += found
        elif goes_back:
            self.faults.append(f"O1 {lease} came for the first time after {self.at}")

    def takes_along(self, lease):
        """Whether one before it was given up, which does not come again itself, and took it along;
        each does so once."""
        for held in list(self.open.values()):
            if held.id < lease.id and self.past.is_given_up(held.id, self.nacks[held.id]):
                del self.open[held.id]
                return True
        return False

    def check_held(self, lease):
        """A lane belongs to whoever holds leases of it, and what failed goes first."""
        for held in list(self.open.values()):
            if held.ack_asked is not None:
                del self.open[held.id]
                continue
            if held.id >= lease.id or self.past.is_given_up(held.id, self.nacks[held.id]):
                continue
            if held.consumer != lease.consumer:
                self.faults.append(
                    f"O1 {lease} came to {lease.consumer} while {held.consumer} had {held}"
                )
            elif held.nack_answered is not None and held.nack_answered < lease.began:
                self.faults.append(f"O1 {lease} came after {held} was nacked, not {held.id} again")

    def take(self, lease):
        if not self.past.once and self.at is not None and lease.id <= self.at:
            for held in self.latest.values():
                if held.id >= lease.id:
                    held.is_void = True
                    self.open.pop(held.id, None)
        self.latest[lease.id] = self.open[lease.id] = lease
        self.nacks[lease.id] += lease.nack_asked is not None
        self.at = lease.id


def settle(past, ids, latest, proven):
    """What is settled for good at the end of a life."""
    if past.once:
        answered = (lease for lease in latest.values() if lease.ack_answered is not None)
        past.sure.update(lease.id for lease in answered)
        return
    for id in ids:
        lease = latest.get(id)
        if lease is not None and past.is_given_up(id):
            # Whether those behind it were acked before it took them along, nobody knows.
            return
        if id in past.sure or id in past.letters:
            continue
        if lease is None or lease.is_void or not is_durable(lease, proven):
            return
        past.sure.add(id)
