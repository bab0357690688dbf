"""One client of a subscription that is sent back and forth, by snapshots and times."""

import itertools

from pull_load import full

PULLED_MAX = 30
SNAPSHOTS_MAX = 3
# Times that are sought are those of the last so many messages.
RECENT = 100

numbers = itertools.count(1)


class Seeker:
    """Does one thing at a time; tells its `SeekChecker`."""

    def __init__(self, load, checker, world):
        self.load = load
        self.api = load.api
        self.checker = checker
        # The checker that knows what was published.
        self.world = world
        self.name = full(checker.name)

    def loop(self, source):
        while self.load.running.is_set():
            self.learn()
            if self.load.publishing.is_set():
                self.wander(source)
            self.consume(source)

    def learn(self):
        with self.world.lock:
            for id, message in self.world.messages.items():
                self.checker.learn(id, message.key)

    def consume(self, source):
        waits = {} if source.random() < 0.5 else {"return_immediately": True}
        if not self.load.publishing.is_set():
            waits = {"return_immediately": True}
        received = self.load.pull(self.name, source.choice((1, 5, PULLED_MAX)), **waits)
        came = [
            (int(one.message.message_id), one.message.ordering_key, stamp(one.message))
            for one in received
        ]
        self.checker.delivered(came)
        nacks = [one.ack_id for one in received if self.load.nacks(source)]
        acks = [one for one in received if one.ack_id not in nacks]
        if nacks:
            fields = {"ack_ids": nacks, "ack_deadline_seconds": 0}
            self.api.call("ModifyAckDeadline", subscription=self.name, **fields)
        if acks:
            ids = [int(one.message.message_id) for one in acks]
            self.checker.acking(ids)
            fields = {"ack_ids": [one.ack_id for one in acks]}
            self.api.call("Acknowledge", subscription=self.name, **fields)
            self.checker.acked(ids)

    def wander(self, source):
        """Now and then goes elsewhere."""
        choice = source.random()
        if choice < 0.03:
            self.make_snapshot()
        elif choice < 0.06 and self.checker.snapshots:
            name = source.choice(sorted(self.checker.snapshots))
            self.checker.seeking_snapshot(name)
            self.api.call("Seek", subscription=self.name, snapshot=name)
            self.checker.sought()
        elif choice < 0.09 and self.checker.times:
            id = source.choice(sorted(self.checker.times)[-RECENT:])
            self.checker.seeking_time_of(id)
            self.api.call("Seek", subscription=self.name, time=self.checker.times[id].time)
            self.checker.sought()

    def make_snapshot(self):
        name = f"projects/kill/snapshots/{self.checker.name}-{next(numbers)}"
        self.api.call("CreateSnapshot", name=name, subscription=self.name)
        self.checker.snapshot(name)
        if len(self.checker.snapshots) > SNAPSHOTS_MAX:
            oldest = min(self.checker.snapshots, key=lambda name: int(name.rsplit("-", 1)[1]))
            # A kill may take the answer: it is not sought any more either way.
            del self.checker.snapshots[oldest]
            self.api.call("DeleteSnapshot", snapshot=oldest)


class Stamp:
    """A publish time that compares."""

    def __init__(self, time):
        self.time = time
        self.order = (time.seconds, time.nanos)

    def __lt__(self, other):
        return self.order < other.order

    def __eq__(self, other):
        return self.order == other.order

    def __hash__(self):
        return hash(self.order)


def stamp(message):
    return Stamp(message.publish_time)
