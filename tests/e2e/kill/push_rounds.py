"""kill -9 at random moments under push load, round after round on one data folder.

    push_rounds.py [--rounds 50] [--seed N]

Each round: publishing, pushes to receivers that sometimes fail, kill, restart. Every few rounds
everything owed must arrive, so that a lost message is found. The checker watches the order of
every lane over all lives. The seed decides the choices; the scheduler of the machine the rest.
"""

import argparse
import itertools
import os
import pathlib
import random
import shutil
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "python"))

import grpc  # noqa: E402

import answers  # noqa: E402
from load import EXPECTED_AT_A_KILL, Api  # noqa: E402
from program import ROOT, Server  # noqa: E402
from push_checker import ACK_SETTLES_SECONDS, PushChecker  # noqa: E402
from receiver import Receiver, status  # noqa: E402
from rest import Rest  # noqa: E402

PROJECT = "projects/kill"
TOPIC = f"{PROJECT}/topics/orders"
KEYS = ["ann", "bob", "cid", "dan"]
DRAIN_EVERY = 4
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


class PushRounds:
    def __init__(self, folder, seed):
        self.random = random.Random(seed)
        self.checker = PushChecker()
        self.server = Server(folder, config=self.config())
        self.receiver = Receiver()
        self.numbers = itertools.count(1)
        self.publishing = threading.Event()
        self.breakdowns = []
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
        self.start()
        if number == 0:
            self.create()
        api = Api(self.server.address)
        self.publishing.set()
        publishers = [
            threading.Thread(target=self.publish_loop, args=(api, self.random.random()))
            for _ in range(2)
        ]
        for thread in publishers:
            thread.start()
        drains = (number + 1) % DRAIN_EVERY == 0
        self.pause(0.2 if drains else self.random.uniform(0.05, 1))
        if drains:
            self.drain(publishers)
        self.checker.killed()
        self.server.kill()
        self.publishing.clear()
        api.close()
        for thread in publishers:
            thread.join(timeout=60)
        self.await_the_end()
        self.receiver.requests.clear()
        for breakdown in self.breakdowns:
            self.checker.fault(f"L1 {breakdown}")

    def start(self):
        """Starts the server; in some rounds it is killed again while it recovers."""
        self.server.config.write_text(self.config())
        while self.random.random() < 0.3:
            self.checker.started()
            self.server.spawn()
            self.pause(self.random.uniform(0, 0.05))
            self.checker.killed()
            self.server.kill()
            self.await_the_end()
        self.checker.started()
        self.server.start()

    def await_the_end(self):
        """Waits until all that the dead server has sent is dealt with."""
        # What it connected last may not be accepted yet. Connections are accepted in order.
        with socket.create_connection(("127.0.0.1", self.receiver.port), timeout=60) as last:
            last.sendall(b"POST /last HTTP/1.1\r\nHost: receiver\r\nContent-Length: 0\r\n\r\n")
            assert last.recv(12) == b"HTTP/1.1 200"
        self.receiver.wait_until(
            lambda: not self.receiver.connections, what="the end of the connections of this life"
        )

    def pause(self, seconds):
        time.sleep(seconds)

    def drain(self, publishers):
        self.publishing.clear()
        for thread in publishers:
            thread.join(timeout=60)
        self.checker.check_drained(DRAIN_SECONDS_MAX)
        # Now every ack is long durable: nothing at all may come again.
        self.pause(ACK_SETTLES_SECONDS + 0.1)

    # Publishing.

    def publish_loop(self, api, seed):
        source = random.Random(seed)
        try:
            while self.publishing.is_set():
                if any(self.checker.owed_about(name) > BACKLOG_MAX for name in SUBSCRIPTIONS):
                    self.pause(0.005)
                else:
                    self.publish(api, source)
        except grpc.RpcError as error:
            # The server was killed.
            if error.code() not in EXPECTED_AT_A_KILL:
                self.breakdowns.append(f"publish: {error.code()} {error.details()}")
        except ValueError as error:
            # A call on a channel that was closed meanwhile.
            if self.publishing.is_set():
                self.breakdowns.append(f"publish: {error}")

    def publish(self, api, source):
        count = source.choice((1, 1, 3, 10))
        pairs = [(f"token-{next(self.numbers)}", source.choice(KEYS)) for _ in range(count)]
        self.checker.publish_begins(pairs)
        messages = [
            {"data": token.encode(), "attributes": {"token": token}, "ordering_key": key}
            for token, key in pairs
        ]
        answer = api.call("Publish", topic=TOPIC, messages=messages)
        self.checker.publish_answered(pairs, answer.message_ids)

    def repeats(self):
        return sum(known.repeats for known in self.checker.subscriptions.values())

    def run(self, total, tell=lambda text: None):
        """Runs the rounds; how many passed."""
        total = -(-total // DRAIN_EVERY) * DRAIN_EVERY
        passed = 0
        try:
            for number in range(total):
                self.round(number)
                if self.checker.faults:
                    break
                passed += 1
                if passed % DRAIN_EVERY == 0:
                    tell(
                        f"{passed} rounds, {len(self.checker.published)} published, "
                        f"{self.checker.arrivals} requests, {self.repeats()} repeats"
                    )
        except Exception as error:
            self.checker.fault(f"L1 round {passed} broke down: {error!r}")
        finally:
            self.server.kill()
            self.receiver.close()
        return passed


def main():
    parser = argparse.ArgumentParser(description="kill -9 rounds under push load")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    parent = pathlib.Path(os.environ.get("E2E_FOLDER", ROOT / "target/e2e/run"))
    folder = parent / f"push-kill-{os.getpid()}"
    print(f"{options.rounds} rounds, seed {options.seed}", flush=True)
    rounds = PushRounds(folder, options.seed)
    began = time.monotonic()
    passed = rounds.run(options.rounds, lambda text: print(text, flush=True))
    failed = 1 if rounds.checker.faults else 0
    if failed:
        print(f"round {passed} of seed {options.seed}; data and log in {folder}")
        for fault in rounds.checker.faults:
            print(f"  {fault}")
    else:
        shutil.rmtree(folder)
    print(f"{failed} failed, {passed} passed in {time.monotonic() - began:.1f}s")
    return failed


if __name__ == "__main__":
    sys.exit(main())
