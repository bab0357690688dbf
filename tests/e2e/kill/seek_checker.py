"""What a subscription must and must not be given that is sent back and forth by seeks.

One client does one thing at a time, with exactly-once: so after every answer it is known what is
settled. What a kill left unanswered may have happened or not. Faults begin with the promise's name:

A1  what is settled does not come: acked, or behind the time or snapshot that was sought
D1  what is not settled comes: check `owed`
O1  per key nothing comes before what is unsettled in front of it
"""


class Settled:
    """`sure` must not come; of `maybe`, which has `sure` in it, nobody knows."""

    def __init__(self, sure=(), maybe=()):
        self.sure = set(sure)
        self.maybe = set(maybe)

    def copy(self):
        return Settled(self.sure, self.maybe)


class SeekChecker:
    def __init__(self, name, is_ordered=False):
        self.name = name
        self.is_ordered = is_ordered
        self.settled = Settled()
        # Id → publish time, as it was delivered; id → key.
        self.times = {}
        self.keys = {}
        self.snapshots = {}
        # What a call that is not answered yet would lead to.
        self.asked = None
        self.faults = []

    def fault(self, text):
        self.faults.append(f"{self.name}: {text}")

    def learn(self, id, key):
        """It is in the topic."""
        self.keys.setdefault(id, key)

    # Deliveries.

    def delivered(self, messages):
        """One answer: (id, key, publish time) in its order. All of it is settled before the next
        is asked for."""
        held = set()
        for id, key, published in messages:
            self.learn(id, key)
            self.times[id] = published
            if id in self.settled.sure:
                self.fault(f"A1 {id} came although it was settled")
            if id in held:
                self.fault(f"A1 {id} came twice in one answer")
            held.add(id)
            self.settled.maybe.discard(id)
        if self.is_ordered:
            self.check_order([(id, key) for id, key, _ in messages if key])

    def check_order(self, pairs):
        """Nothing that is certain to be owed is passed over."""
        unsettled = sorted(id for id in self.keys if id not in self.settled.maybe)
        for key in {key for _, key in pairs}:
            came = [id for id, of in pairs if of == key]
            if came != sorted(came):
                self.fault(f"O1 {key!r} came as {came}")
            passed = [id for id in unsettled if self.keys[id] == key and id < came[-1]]
            missing = sorted(set(passed) - set(came))
            if missing:
                self.fault(f"O1 {came} of {key!r} came without {missing[:5]} before")

    def acking(self, ids):
        self.settled.maybe.update(ids)

    def acked(self, ids):
        self.settled.sure.update(ids)

    # Seeks.

    def snapshot(self, name):
        """It was made: what is settled at this moment is so in it."""
        self.snapshots[name] = self.settled.copy()

    def seeking_snapshot(self, name):
        self.asked = self.snapshots[name].copy()

    def seeking_time_of(self, id):
        """To the publish time of a message that was delivered. Times never decrease."""
        time = self.times[id]
        sure = {one for one, at in self.times.items() if at < time}
        maybe = {one for one in self.keys if one < id and self.times.get(one) != time}
        self.asked = Settled(sure, maybe | sure)

    def sought(self):
        self.settled, self.asked = self.asked, None

    def killed(self):
        """A seek that was not answered has happened or not."""
        if self.asked is not None:
            self.settled.sure &= self.asked.sure
            self.settled.maybe |= self.asked.maybe
            self.asked = None

    # What is owed.

    def owed(self):
        return sorted(id for id in self.keys if id not in self.settled.maybe)
