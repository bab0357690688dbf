"""Knows what was published and what each push endpoint was sent, and says which promise broke.

Requests go in as they arrive, with what was answered; faults come out as lines that begin with
the promise's name:

D1  an answered publish reaches every subscription
D2  nothing arrives that was not published, or changed
A1  after a crash only what was in flight, or acked just before, comes again; nothing in one life
O1  per lane first arrivals are in order, and a repeat is followed by what followed it
O2  one request in flight per lane
"""

import bisect
import threading
import time

# A success counts at the next commit, at most about 20 ms after it is read; the rest is for its
# way to the server, the sync, and a machine that is busy with other things.
ACK_SETTLES_SECONDS = 0.5
FAULTS_MAX = 50


class Lane:
    """What one subscription was sent of one key, or of everything if it is FIFO."""

    def __init__(self):
        self.highest = None
        # The last request: its ids, its life, and its outcome: None while it is open.
        self.last = []
        self.life = None
        self.outcome = None


class Subscription:
    def __init__(self, name, ordering):
        self.name = name
        self.ordering = ordering
        self.lanes = {}
        self.seen = set()
        # Id → when and in which life a success was sent for it.
        self.acked = {}
        self.repeats = 0


class PushChecker:
    """All methods may be called from any thread. `ordering` is "none", "key" or "fifo"."""

    def __init__(self):
        self.lock = threading.Condition(threading.RLock())
        self.life = 0
        self.killed_at = {}
        # Id → (token, key), as publishing told it.
        self.published = {}
        # Token → key of all that was ever sent to be published, answered or not.
        self.tokens = {}
        # Key → sorted ids; all of them under None.
        self.orders = {None: []}
        self.subscriptions = {}
        self.faults = []
        self.arrivals = 0

    def fault(self, text):
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(text)

    def add(self, name, ordering):
        self.subscriptions[name] = Subscription(name, ordering)

    # Lives of the server process.

    def started(self):
        """To be called before the process is started, when the last one has gone."""
        with self.lock:
            self.life += 1

    def killed(self):
        """To be called just before the kill."""
        with self.lock:
            self.killed_at[self.life] = time.monotonic()

    # Publishing.

    def publish_begins(self, messages):
        """`messages` are (token, key)."""
        with self.lock:
            self.tokens.update(messages)

    def publish_answered(self, messages, ids):
        with self.lock:
            for (token, key), id in zip(messages, map(int, ids)):
                self.learn(id, token, key)
                self.published[id] = (token, key)

    def learn(self, id, token, key):
        """An id is known to be in the topic."""
        for order in (self.orders[None], self.orders.setdefault(key, [])):
            place = bisect.bisect_left(order, id)
            if place == len(order) or order[place] != id:
                order.insert(place, id)

    # Pushes.

    def arrived(self, name, messages):
        """A request with these (id, token, key) has come."""
        with self.lock:
            known = self.subscriptions[name]
            self.arrivals += 1
            for id, token, key in messages:
                self.check_content(name, id, token, key)
            ids = [id for id, _, _ in messages]
            if known.ordering == "none":
                self.check_repeats(known, ids)
            else:
                self.check_lane(known, messages[0][2], ids)
                self.check_repeats(known, ids)
            known.seen.update(ids)

    def check_content(self, name, id, token, key):
        if self.tokens.get(token) != key or token not in self.tokens:
            self.fault(f"D2 {name} got {token!r} with key {key!r}, never published")
            return
        told = self.published.get(id)
        if told is not None and told != (token, key):
            self.fault(f"D2 {name} got {token!r} as {id}, which is {told}")
        self.learn(id, token, key)

    def check_repeats(self, known, ids):
        for id in ids:
            known.repeats += id in known.seen
            if id not in known.acked:
                continue
            at, life = known.acked[id]
            if life == self.life:
                self.fault(f"A1 {known.name} got {id} again in the life that acked it")
            elif at < self.killed_at[life] - ACK_SETTLES_SECONDS:
                ago = self.killed_at[life] - at
                self.fault(f"A1 {known.name} got {id} again, acked {ago:.3f} s before the kill")

    def check_lane(self, known, key, ids):
        key = None if known.ordering == "fifo" else key
        lane = known.lanes.setdefault(key, Lane())
        said = f"{known.name} lane {key!r}: {ids} after {lane.last}"
        order = self.orders.get(key, [])
        for one, later in zip(ids, ids[1:]):
            if not follows(order, one, later):
                self.fault(f"O1 {said}, which has a hole or a turn in itself")
        if lane.life == self.life:
            self.check_next(lane, order, ids, said)
        elif ids[0] not in known.seen and not follows(order, lane.highest, ids[0]):
            self.fault(f"O1 {said}, after a restart")
        for id in ids:
            if lane.highest is None or id > lane.highest:
                lane.highest = id
            elif id not in known.seen:
                self.fault(f"O1 {said}: {id} comes for the first time after {lane.highest}")
        lane.last, lane.life, lane.outcome = ids, self.life, None

    def check_next(self, lane, order, ids, said):
        """The next request of a lane in the same life."""
        if lane.outcome is None:
            self.fault(f"O2 {said}, which was not answered yet")
        elif lane.outcome == "failed" and ids[0] != lane.last[0]:
            self.fault(f"O1 {said}, which failed")
        elif lane.outcome == "acked" and not follows(order, lane.last[-1], ids[0]):
            self.fault(f"O1 {said}")

    def answers(self, name, messages, outcome):
        """To be called just before the answer is sent; `outcome` is "acked" or "failed"."""
        with self.lock:
            known = self.subscriptions[name]
            if known.ordering != "none":
                key = None if known.ordering == "fifo" else messages[0][2]
                known.lanes[key].outcome = outcome
            if outcome == "acked":
                now = time.monotonic()
                known.acked.update({id: (now, self.life) for id, _, _ in messages})
                self.lock.notify_all()

    # What is owed.

    def owed(self, name):
        with self.lock:
            known = self.subscriptions[name]
            # What one subscription has seen was published, answered or not, and is owed to all.
            return [id for id in self.orders[None] if id not in known.acked]

    def owed_about(self, name):
        """Roughly how far a subscription is behind; cheap."""
        with self.lock:
            return len(self.published) - len(self.subscriptions[name].acked)

    def check_drained(self, seconds):
        """Everything owed must come within this time."""
        with self.lock:
            for name, known in self.subscriptions.items():
                began = time.monotonic()
                self.lock.wait_for(lambda: not self.owed(name), seconds)
                seconds = max(1, seconds - (time.monotonic() - began))
                owed = self.owed(name)
                if owed:
                    self.fault(f"D1 {len(owed)} owed to {name}, from {owed[0]} to {owed[-1]}")


def follows(order, one, later):
    """Whether nothing that is known stands between the two; no `one` means the beginning."""
    place = -1 if one is None else bisect.bisect_left(order, one)
    return place + 1 < len(order) and order[place + 1] == later
