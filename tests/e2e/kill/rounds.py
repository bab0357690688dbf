"""kill -9 at random moments under load, round after round on one data folder.

    rounds.py [--rounds 100] [--seed N]

Each round: load, kill, perhaps kills again while it recovers, restart, check.
"""

import sys
import time

import cycle
from checker import ACK_SETTLES_SECONDS, PRESENT, Checker
from load import PROJECT, Api, Load

DRAIN_SECONDS_MAX = 60
TOPICS = [f"{PROJECT}/topics/orders", f"{PROJECT}/topics/payments"]
# Small segments: the log rolls, is moved to topic segments and recycled while it is killed.
CONFIG = """
[storage]
wal_segment = "16MiB"
wal_max = "{wal}"
tail_memory = "1MiB"
progress_flush = "{flush}"
"""


def subscription(topic, kind):
    return f"{PROJECT}/subscriptions/{topic.rsplit('/', 1)[1]}-{kind}"


class Rounds(cycle.Cycle):
    def __init__(self, folder, seed):
        super().__init__(folder, seed, Checker())
        self.load = None
        self.kept = []

    def config(self):
        wal = self.random.choice(("32MiB", "48MiB"))
        return CONFIG.format(wal=wal, flush=self.random.choice(("50ms", "500ms", "5s")))

    def round(self, number):
        """One life of the server, from its start to its kill."""
        self.start()
        self.load = Load(Api(self.server.address), self.checker, self.random.random())
        self.look_around(number)
        self.ack_late()
        self.start_load(number)
        if self.drains(number):
            self.pause(0.2)
            self.drain()
            # Now every ack is long durable: nothing at all may come again.
            self.pause(ACK_SETTLES_SECONDS + 0.1)
        else:
            self.pause(self.random.uniform(0.05, 1.2))
        self.load.is_ending = True
        self.checker.killed()
        self.server.kill()
        self.load.end()
        self.kept = self.load.kept
        self.blame(self.load.breakdowns)

    def look_around(self, number):
        if number == 0:
            for topic in TOPICS:
                self.load.create_topic(topic, "fixed")
                for kind in ("stream", "pull", "hoard"):
                    self.load.create_subscription(subscription(topic, kind), topic)
        topics, subscriptions = self.load.api.list_all()
        self.checker.check_resources(topics, subscriptions)

    def ack_late(self):
        """Ack ids from before the kill still count, and before anybody else gets the messages."""
        late = [one for one in self.kept if self.random.random() < 0.5]
        for name, token, ack_id in late:
            self.load.acknowledge(name, [(token, ack_id)])

    def start_load(self, number):
        load = self.load
        for topic in TOPICS:
            stream, pull = subscription(topic, "stream"), subscription(topic, "pull")
            for _ in range(2):
                load.start(load.consumers, load.stream_loop, stream)
            load.start(load.consumers, load.pull_loop, pull, True)
            load.start(load.publishers, load.publish_loop, topic, pull)
        load.start(load.publishers, load.churn_loop, f"churn-{number}")

    def drain(self):
        """Everything owed must come, in this life."""
        load, checker = self.load, self.checker
        load.stop_publishing()
        fixed = [subscription(topic, kind) for topic in TOPICS for kind in ("stream", "pull")]
        for name, known in list(checker.subscriptions.items()):
            if name not in fixed and known.status == PRESENT:
                load.drain(self.random, name)
        ends = time.monotonic() + DRAIN_SECONDS_MAX
        while any(checker.owed(name) for name in fixed) and time.monotonic() < ends:
            self.settle_kept()
            self.pause(0.01)
        checker.check_drained()
        self.forget()

    def settle_kept(self):
        """What a puller kept would come again only after its deadline: acks it now."""
        while self.load.kept:
            name, token, ack_id = self.load.kept.pop()
            self.load.acknowledge(name, [(token, ack_id)])

    def forget(self):
        """Deletes what the churn left, so that the number of resources stays bounded."""
        for name, known in list(self.checker.subscriptions.items()):
            if "/churn-" in name and known.status == PRESENT:
                self.load.delete("DeleteSubscription", name, subscription=name)
        for name, known in list(self.checker.topics.items()):
            if "/churn-" in name and known.status == PRESENT:
                self.load.delete("DeleteTopic", name, topic=name)

    def told(self):
        checker = self.checker
        return (
            f"{len(checker.messages)} published, {checker.delivered_count} delivered, "
            f"{checker.acked_count} acked, {checker.nacked_count} nacked"
        )


if __name__ == "__main__":
    sys.exit(cycle.main(Rounds, "kill", "kill -9 rounds under load", rounds=100))
