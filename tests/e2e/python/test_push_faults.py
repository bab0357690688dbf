"""L1: a hundred rounds of random endpoint faults, then health, and every backlog drains.

The seed decides the faults; `TEST_SEED` repeats a run as far as the machine allows.
"""

import random
import threading
import time

import pytest

import answers
from program import Server
from push import Pushing, retry
from receiver import Receiver, status
from seeds import seed, told
from waiting import until

ROUNDS = 100
ROUND_SECONDS = 0.15
DRAIN_SECONDS_MAX = 90
CONFIG = """
[storage]
wal_segment = "16MiB"
wal_max = "32MiB"
progress_flush = "50ms"
"""

FAULTS = [
    status(500),
    status(503, headers={"Retry-After": "1"}),
    status(429),
    status(301),
    status(400, headers={"postrider-error-class": "permanent", "postrider-error": "no"}),
    answers.after(0.3),
    answers.after(1.5),
    answers.never,
    answers.nothing,
    answers.reset,
    answers.half_a_head,
    answers.garbage,
]
# These answer 200, so they count, however they go on.
ODD_SUCCESSES = [
    answers.half_a_body(),
    answers.stalled_body(),
    answers.trickling_body(),
    answers.endless_body(),
]
KINDS = {
    "plain": {},
    "keys": {"enableMessageOrdering": True},
    "fifo": {"postrider": {"fifo": True}},
    "policy": {"retryPolicy": retry(0.1, 1)},
    "ladder": {"postrider": {"fifo": True, "backoff": ["100ms", "300ms"]}},
    "batch": {"postrider": {"fifo": True, "batch": {"messages": 8}}, "retryPolicy": retry(0.1, 1)},
}


class Moody:
    """One endpoint that answers as its mood is, and keeps what it has answered with success."""

    def __init__(self, path):
        self.path = path
        self.mood = status(200)
        self.lock = threading.Lock()
        self.seen = []

    def __call__(self, exchange):
        body = exchange.request.json
        envelopes = body if isinstance(body, list) else [body]
        with self.lock:
            self.seen += [(one["message"]["messageId"], one) for one in envelopes]
        return self.mood(exchange)

    def ids(self):
        with self.lock:
            return {id for id, _ in self.seen}

    def first_seen(self):
        """Ids in the order of their first arrival, by lane."""
        lanes, known = {}, set()
        with self.lock:
            seen = list(self.seen)
        for id, envelope in seen:
            if id not in known:
                known.add(id)
                key = envelope["message"].get("orderingKey", "")
                lanes.setdefault(key, []).append(int(id))
        return lanes


@pytest.fixture
def world(tmp_path):
    """A server and two receivers, whose endpoints are of every kind."""
    server = Server(tmp_path, config=CONFIG).start()
    with Receiver() as one, Receiver() as two:
        push = Pushing(server, one)
        try:
            topic = push.clients.topic()
            endpoints = dict(
                endpoint(push, receiver, topic, kind) for receiver in (one, two) for kind in KINDS
            )
            yield push, topic, endpoints, (one, two)
            assert server.alive(), server.tail()
        finally:
            push.close()
            server.stop()
    assert "panicked" not in server.log.read_text(errors="replace"), server.tail()


def endpoint(push, receiver, topic, kind):
    """A subscription of this kind, and the endpoint it pushes to."""
    moody = Moody(f"/{kind}")
    receiver.on(moody.path, moody)
    config = {"pushEndpoint": receiver.url(moody.path), "timeoutSeconds": 1}
    return push.subscribe(topic, config=config, **KINDS[kind]), (kind, moody)


def change_moods(source, endpoints):
    for _, moody in endpoints.values():
        luck = source.random()
        if luck < 0.4:
            moody.mood = status(200)
        elif luck < 0.5:
            moody.mood = source.choice(ODD_SUCCESSES)
        else:
            moody.mood = source.choice(FAULTS)


def fault_rounds(source, push, topic, endpoints, receivers):
    """Publishes a little in each round; the ids of all that was published."""
    published, plugged = [], [True, True]
    for _ in range(ROUNDS):
        change_moods(source, endpoints)
        for n, receiver in enumerate(receivers):
            if plugged[n] and source.random() < 0.05:
                receiver.unplug()
                plugged[n] = False
            elif not plugged[n] and source.random() < 0.5:
                receiver.listen()
                plugged[n] = True
        messages = [
            {"data": b"x", "ordering_key": source.choice(("ann", "bob", "cid"))}
            for _ in range(source.randrange(4))
        ]
        if messages:
            published += push.clients.publish_messages(topic, *messages)
        # Not to wait for something: the faults shall last that long.
        time.sleep(ROUND_SECONDS)
    for n, receiver in enumerate(receivers):
        if not plugged[n]:
            receiver.listen()
    return published


def test_after_random_faults_everything_drains(world):
    push, topic, endpoints, receivers = world
    chosen = seed()
    published = fault_rounds(random.Random(chosen), push, topic, endpoints, receivers)
    for _, moody in endpoints.values():
        moody.mood = status(200)
    well = time.monotonic()
    # New ones on top: an endpoint that is well must take them too.
    published += push.publish(topic, *[b"x"] * 5, key="ann")
    last = int(published[-1])
    for name, (kind, moody) in endpoints.items():
        left = DRAIN_SECONDS_MAX - (time.monotonic() - well)
        said = f"{told(chosen)}: {kind} of {name}"

        def settled():
            return push.rest.cursor(name)["offset"] == last

        try:
            until(settled, max(left, 1))
        except AssertionError:
            cursor, missing = push.rest.cursor(name), set(published) - moody.ids()
            raise AssertionError(f"{said}: {cursor}, {len(missing)} never came") from None
        assert moody.ids() == set(published), said
        lanes = moody.first_seen()
        if kind in ("fifo", "ladder", "batch"):
            assert [id for id, _ in dict(moody.seen).items()] == published, said
        if kind == "keys":
            assert all(ids == sorted(ids) for ids in lanes.values()), said
        assert push.pull_from_now_on(name) == [], said
    print(f"{len(published)} messages drained {time.monotonic() - well:.1f} s after the faults")
