"""kill -9 and SIGTERM at random moments under pull load, round after round on one data folder.

    pull_rounds.py [--rounds 60] [--seed N]

Order by key and FIFO with several streams, exactly-once, dead letters and their replay, filters,
seeks and snapshots, with nacks at once. Each round: load, an end, restart; then the whole life is
judged.
"""

import sys
import time

import cycle
from load import Api
from pull_checker import PullChecker
from pull_load import (
    ACK_DEADLINE_SECONDS, DEAD, LETTERS, PROJECT, TOPIC, PullLoad, full,
)
from rest import Rest
from seek_checker import SeekChecker
from seek_load import Seeker

# Every so many rounds the server is asked to end, under load, and not killed.
TERM_EVERY = 3
DRAIN_SECONDS_MAX = 90
# `shutdown_grace`, and what a busy machine may add to it.
STOP_SECONDS_MAX = 5 + 10
ATTEMPTS_MAX = 5
CONFIG = """
[storage]
wal_segment = "16MiB"
wal_max = "32MiB"
tail_memory = "{tail}"
progress_flush = "{flush}"
"""
KEYED = {"enableMessageOrdering": True}
ONCE = {"enableExactlyOnceDelivery": True}
DEAD_LETTERS = {
    "deadLetterPolicy": {"deadLetterTopic": DEAD, "maxDeliveryAttempts": ATTEMPTS_MAX}
}
FILTER = {"filter": 'attributes.kind = "a"'}
# Name → (what the checker is to expect, settings, streams, pullers).
SUBSCRIPTIONS = {
    "keys": ({"ordering": "key"}, KEYED, 3, 0),
    "keys-pulled": ({"ordering": "key"}, KEYED, 1, 2),
    "fifo": ({"ordering": "fifo"}, {"postrider": {"fifo": True}}, 2, 0),
    "once": ({"once": True}, ONCE, 1, 1),
    "once-keys": ({"ordering": "key", "once": True}, {**KEYED, **ONCE}, 2, 1),
    "letters": ({"attempts_max": ATTEMPTS_MAX}, DEAD_LETTERS, 1, 1),
    "letters-keys": (
        {"ordering": "key", "attempts_max": ATTEMPTS_MAX}, {**KEYED, **DEAD_LETTERS}, 2, 0,
    ),
    "filtered": ({"ordering": "key", "kind": "a"}, {**KEYED, **FILTER}, 2, 0),
}
SOUGHT = {
    "sought": (False, {**ONCE, "retainAckedMessages": True}),
    "sought-keys": (True, {**KEYED, **ONCE, "retainAckedMessages": True}),
}


class PullRounds(cycle.Cycle):
    DRAIN_EVERY = 8

    def __init__(self, folder, seed):
        super().__init__(folder, seed, PullChecker())
        self.rest = Rest(self.server)
        self.load = None
        self.stops = 0
        for name, (rules, _, _, _) in SUBSCRIPTIONS.items():
            self.checker.add(name, **rules)
        self.sought = [SeekChecker(name, ordered) for name, (ordered, _) in SOUGHT.items()]

    def config(self):
        return CONFIG.format(
            tail=self.random.choice(("1MiB", "32MiB")),
            flush=self.random.choice(("50ms", "500ms", "5s")),
        )

    def create(self):
        settings = {name: fields for name, (_, fields, _, _) in SUBSCRIPTIONS.items()}
        settings |= {name: fields for name, (_, fields) in SOUGHT.items()}
        self.rest.topic(TOPIC)
        self.rest.topic(DEAD)
        self.rest.subscription(LETTERS, DEAD, ackDeadlineSeconds=ACK_DEADLINE_SECONDS)
        for name, fields in settings.items():
            fields = {"ackDeadlineSeconds": ACK_DEADLINE_SECONDS, **fields}
            self.rest.subscription(full(name), TOPIC, **fields)

    def round(self, number):
        """One life of the server, from its start to its end."""
        drains = self.drains(number)
        self.start()
        if number == 0:
            self.create()
        api = Api(self.server.address)
        self.load = PullLoad(api, self.rest, self.checker, self.random.random(), drains)
        self.start_load()
        self.pause(0.3 if drains else self.random.uniform(0.1, 1.2))
        if drains:
            self.drain()
        asked_to_end = self.end(number)
        self.load.end()
        self.checker.ended(asked_to_end)
        for checker in self.sought:
            checker.killed()
            self.checker.faults += checker.faults
        if drains:
            self.checker.forget()
        self.blame(self.load.breakdowns)

    def start_load(self):
        load = self.load
        for name, (_, _, streams, pullers) in SUBSCRIPTIONS.items():
            for _ in range(streams):
                load.start(load.consumers, load.stream_loop, name)
            for _ in range(pullers):
                load.start(load.consumers, load.pull_loop, name)
        for checker in self.sought:
            load.start(load.consumers, Seeker(load, checker, self.checker).loop)
        load.start(load.consumers, load.letter_loop)
        for _ in range(2):
            load.start(load.publishers, load.publish_loop)
        load.start(load.publishers, load.replay_loop, ["letters", "letters-keys"])

    def end(self, number):
        """Kills the server, or asks it to end and gives the time when."""
        self.load.is_ending = True
        if number % TERM_EVERY != 1:
            self.server.kill()
            return 0.0
        self.stops += 1
        began = time.monotonic()
        code = self.server.terminate()
        took = time.monotonic() - began
        if code != 0 or took > STOP_SECONDS_MAX:
            self.checker.fault(f"L1 asked to end it ended with {code} after {took:.1f} s")
        return began

    def drain(self):
        """Everything owed must come in this life, and every letter known by now be replayed."""
        load, checker = self.load, self.checker
        load.stop_publishing()
        ends = time.monotonic() + DRAIN_SECONDS_MAX
        # What is poison becomes a letter first, so that nothing but replays is left.
        checker.check_drained(ends, {})
        replayed = {name: checker.letters_to_replay(name) for name in ("letters", "letters-keys")}
        for name, letters in replayed.items():
            while letters and not load.replay(name, letters.values()):
                self.pause(0.05)
        checker.check_drained(ends, replayed)
        for sought in self.sought:
            while (owed := sought.owed()) and time.monotonic() < ends:
                self.pause(0.02)
            if owed:
                checker.fault(f"D1 {len(owed)} owed to {sought.name}, first {owed[0]}")
        # Acks from before this publish are durable: none of them may be taken back.
        load.publish(self.random, 1)

    def told(self):
        checker = self.checker
        return (
            f"{self.stops} stops, {checker.delivered_count} delivered, "
            f"{checker.nacked_count} nacked, {len(checker.letters.of)} letters"
        )


if __name__ == "__main__":
    sys.exit(cycle.main(PullRounds, "pull-kill", "kill -9 rounds under pull load", rounds=60))
