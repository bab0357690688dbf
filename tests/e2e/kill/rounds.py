"""kill -9 at random moments under load, round after round on one data folder.

    rounds.py [--rounds 100] [--seed N]

Each round: load, kill, perhaps kills again while it recovers, restart, check. Every few rounds
everything owed is drained, so that a lost message is found. The seed decides the choices; the
scheduler of the machine decides the rest.
"""

import argparse
import os
import pathlib
import random
import shutil
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "python"))

from checker import ACK_SETTLES_SECONDS, PRESENT, Checker  # noqa: E402
from load import PROJECT, Api, Load  # noqa: E402
from program import ROOT, Server  # noqa: E402

DRAIN_EVERY = 10
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


class Rounds:
    def __init__(self, folder, seed):
        self.random = random.Random(seed)
        self.checker = Checker()
        self.server = Server(folder, config=self.config())
        self.load = None
        self.kept = []
        self.killed_starts = 0

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
        if (number + 1) % DRAIN_EVERY == 0:
            self.pause(0.2)
            self.drain()
            # Now every ack is long durable: nothing at all may come again.
            self.pause(ACK_SETTLES_SECONDS + 0.1)
        else:
            self.pause(self.random.uniform(0.05, 1.2))
        self.checker.killed()
        self.server.kill()
        self.load.end()
        self.kept = self.load.kept
        for breakdown in self.load.breakdowns:
            self.checker.fault(f"L1 {breakdown}")

    def start(self):
        """Starts the server; in some rounds it is killed again while it recovers."""
        self.server.config.write_text(self.config())
        while self.random.random() < 0.4:
            self.server.spawn()
            self.pause(self.random.uniform(0, 0.05))
            self.server.kill()
            self.killed_starts += 1
        self.server.start()
        self.checker.started()

    def pause(self, seconds):
        time.sleep(seconds)

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


def main():
    parser = argparse.ArgumentParser(description="kill -9 rounds under load")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    parent = pathlib.Path(os.environ.get("E2E_FOLDER", ROOT / "target/e2e/run"))
    folder = parent / f"kill-{os.getpid()}"
    print(f"{options.rounds} rounds, seed {options.seed}", flush=True)
    rounds = Rounds(folder, options.seed)
    # The last round drains, so that nothing published stays unchecked.
    total = -(-options.rounds // DRAIN_EVERY) * DRAIN_EVERY
    began = time.monotonic()
    passed, failed = 0, 0
    try:
        for number in range(total):
            rounds.round(number)
            checker = rounds.checker
            if checker.faults:
                failed = 1
                break
            passed += 1
            if passed % DRAIN_EVERY == 0:
                print(
                    f"{passed} rounds, {rounds.killed_starts} killed starts, "
                    f"{len(checker.messages)} published, "
                    f"{checker.delivered_count} delivered, {checker.acked_count} acked, "
                    f"{checker.nacked_count} nacked, {time.monotonic() - began:.0f} s",
                    flush=True,
                )
    except Exception as error:
        failed = 1
        rounds.checker.fault(f"L1 round {passed} broke down: {error!r}")
    finally:
        rounds.server.kill()
    if failed:
        print(f"round {passed} of seed {options.seed}; data and log in {folder}")
        for fault in rounds.checker.faults:
            print(f"  {fault}")
    else:
        shutil.rmtree(folder)
    print(f"{failed} failed, {passed} passed in {time.monotonic() - began:.1f}s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
