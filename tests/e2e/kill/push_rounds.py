"""kill -9 at random moments under push load, round after round on one data folder.

    push_rounds.py [--rounds 50] [--seed N]

Each round: publishing, pushes to receivers that sometimes fail, kill, restart. Every few rounds
everything owed must arrive, so that a lost message is found. The checker watches the order of
every lane over all lives.
"""

import itertools
import random
import socket
import sys
import threading

import cycle  # First: it says where the rest is.
import answers
from load import Api
from push_checker import ACK_SETTLES_SECONDS, PushChecker
from receiver import Receiver, status
from rest import Rest
from threads import Threads

PROJECT = "projects/kill"
TOPIC = f"{PROJECT}/topics/orders"
KEYS = ["ann", "bob", "cid", "dan"]
DRAIN_SECONDS_MAX = 60
BACKLOG_MAX = 300
CONFIG = """
[storage]
wal_segment = "16MiB"
wal_max = "32MiB"
tail_memory = "1MiB"
progress_flush = "{flush}"
"""
RETRY = {"minimumBackoff": "0.02s", "maximumBackoff": "0.1s"}
# Name → (ordering the checker is to expect, settings, share of requests that fail).
SUBSCRIPTIONS = {
    "plain": ("none", {}, 0),
    "flaky": ("none", {"retryPolicy": RETRY}, 0.02),
    "keys": ("key", {"enableMessageOrdering": True}, 0),
    "flaky-keys": ("key", {"enableMessageOrdering": True, "retryPolicy": RETRY}, 0.02),
    "fifo": ("fifo", {"postrider": {"fifo": True}}, 0),
    "flaky-fifo": ("fifo", {"postrider": {"fifo": True}, "retryPolicy": RETRY}, 0.02),
    "batch": ("fifo", {"postrider": {"fifo": True, "batch": {"messages": 20}}}, 0),
    "flaky-batch": (
        "fifo",
        {"postrider": {"fifo": True, "batch": {"messages": 20}}, "retryPolicy": RETRY},
        0.02,
    ),
}


class Endpoint:
    """Tells the checker of every request, and answers; some with a failure."""

    def __init__(self, checker, name, failing, seed):
        self.checker = checker
        self.name = name
        self.failing = failing
        self.random = random.Random(seed)
        self.lock = threading.Lock()

    def __call__(self, exchange):
        body = exchange.request.json
        messages = [
            (
                int(one["message"]["messageId"]),
                one["message"]["attributes"]["token"],
                one["message"].get("orderingKey", ""),
            )
            for one in (body if isinstance(body, list) else [body])
        ]
        self.checker.arrived(self.name, messages)
        with self.lock:
            fails, how = self.random.random() < self.failing, self.random.random()
        self.checker.answers(self.name, messages, "failed" if fails else "acked")
        if not fails:
            return status(200)(exchange)
        return (status(500) if how < 0.7 else answers.reset)(exchange)


class PushRounds(cycle.Cycle):
    DRAIN_EVERY = 4
    KILLED_STARTS = 0.3

    def __init__(self, folder, seed):
        super().__init__(folder, seed, PushChecker())
        self.receiver = Receiver()
        self.numbers = itertools.count(1)
        self.load = None
        for name, (ordering, _, failing) in SUBSCRIPTIONS.items():
            self.checker.add(name, ordering)
            endpoint = Endpoint(self.checker, name, failing, self.random.random())
            self.receiver.on(f"/{name}", endpoint)

    def config(self):
        return CONFIG.format(flush=self.random.choice(("50ms", "500ms", "5s")))

    def create(self):
        rest = Rest(self.server)
        rest.topic(TOPIC)
        for name, (_, settings, _) in SUBSCRIPTIONS.items():
            config = {"pushEndpoint": self.receiver.url(f"/{name}")}
            full = f"{PROJECT}/subscriptions/{name}"
            rest.subscription(full, TOPIC, pushConfig=config, **settings)

    def round(self, number):
        """One life of the server, from its start to its kill."""
        drains = self.drains(number)
        self.start()
        if number == 0:
            self.create()
        self.load = Threads(Api(self.server.address), self.random.random())
        for _ in range(2):
            self.load.start(self.load.publishers, self.publish_loop)
        self.pause(0.2 if drains else self.random.uniform(0.05, 1))
        if drains:
            self.drain()
        self.load.is_ending = True
        self.checker.killed()
        self.server.kill()
        self.load.end()
        self.await_the_end()
        self.receiver.requests.clear()
        self.blame(self.load.breakdowns)

    def start_and_kill(self):
        """Even so short a life may push."""
        self.checker.started()
        self.server.spawn()
        self.pause(self.random.uniform(0, 0.05))
        self.checker.killed()
        self.server.kill()
        self.await_the_end()

    def await_the_end(self):
        """Waits until all that the dead server has sent is dealt with."""
        # What it connected last may not be accepted yet. Connections are accepted in order.
        with socket.create_connection(("127.0.0.1", self.receiver.port), timeout=60) as last:
            last.sendall(b"POST /last HTTP/1.1\r\nHost: receiver\r\nContent-Length: 0\r\n\r\n")
            assert last.recv(12) == b"HTTP/1.1 200"
        self.receiver.wait_until(
            lambda: not self.receiver.connections, what="the end of the connections of this life"
        )

    def drain(self):
        self.load.stop_publishing()
        self.checker.check_drained(DRAIN_SECONDS_MAX)
        # Now every ack is long durable: nothing at all may come again.
        self.pause(ACK_SETTLES_SECONDS + 0.1)

    # Publishing.

    def publish_loop(self, source):
        while self.load.publishing.is_set():
            if any(self.checker.owed_about(name) > BACKLOG_MAX for name in SUBSCRIPTIONS):
                self.pause(0.005)
            else:
                self.publish(source)

    def publish(self, source):
        count = source.choice((1, 1, 3, 10))
        key = source.choice(KEYS)
        pairs = [(f"token-{next(self.numbers)}", key) for _ in range(count)]
        self.checker.publish_begins(pairs)
        messages = [
            {"data": token.encode(), "attributes": {"token": token}, "ordering_key": key}
            for token, key in pairs
        ]
        answer = self.load.api.call("Publish", topic=TOPIC, messages=messages)
        self.checker.publish_answered(pairs, answer.message_ids)

    def told(self):
        repeats = sum(known.repeats for known in self.checker.subscriptions.values())
        return (
            f"{len(self.checker.published)} published, {self.checker.arrivals} requests, "
            f"{repeats} repeats"
        )

    def close(self):
        self.receiver.close()


if __name__ == "__main__":
    sys.exit(cycle.main(PushRounds, "push-kill", "kill -9 rounds under push load", rounds=50))
