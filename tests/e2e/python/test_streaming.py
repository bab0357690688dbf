"""StreamingPull: bare streams, and the high-level subscriber of the official client."""

import collections
import contextlib
import threading
import time

import pytest
from google.cloud import pubsub_v1

from clients import Clients
from statuses import status_of
from streams import END, Stream


@contextlib.contextmanager
def stream(clients, subscription, **fields):
    opened = Stream(clients, subscription, **fields)
    try:
        yield opened
    finally:
        opened.close()


def numbered(count):
    return [b"%d" % n for n in range(count)]


def test_a_stream_gets_what_is_there_and_what_comes(grpc_clients):
    topic, subscription = grpc_clients.pair()
    grpc_clients.publish(topic, *numbered(10))
    with stream(grpc_clients, subscription) as opened:
        backlog = opened.take(10)
        grpc_clients.publish(topic, b"new")
        fresh = opened.take(1)
        assert sorted(one.message.data for one in backlog) == numbered(10)
        assert fresh[0].message.data == b"new"
        opened.ack(backlog + fresh)
        opened.modify(backlog, 0)
        grpc_clients.publish(topic, b"marker")
        assert opened.take(1)[0].message.data == b"marker"


def test_outstanding_messages_are_held_to_the_limit(grpc_clients):
    topic, subscription = grpc_clients.pair()
    with stream(grpc_clients, subscription, max_outstanding_messages=5) as opened:
        grpc_clients.publish(topic, *numbered(20))
        first = opened.take(5)
        # The other fifteen are free: had the stream been given them, this would not come.
        others = grpc_clients.pull_exactly(subscription, 15)
        assert opened.waiting() == 0
        grpc_clients.modify(subscription, others, 0)
        opened.ack(first[:2])
        opened.take(2)
        assert len(grpc_clients.pull_exactly(subscription, 13)) == 13
        assert opened.waiting() == 0


def test_outstanding_bytes_are_held_to_the_limit(grpc_clients):
    topic, subscription = grpc_clients.pair()
    with stream(grpc_clients, subscription, max_outstanding_bytes=10_000) as opened:
        grpc_clients.publish(topic, *[b"x" * 3000] * 10)
        others = grpc_clients.pull_exactly(subscription, 7)
        assert len(others) == 7
        first = opened.take(3)
        assert opened.waiting() == 0
        opened.ack(first[:1])
        grpc_clients.modify(subscription, others[:1], 0)
        opened.take(1)


def test_a_message_larger_than_the_byte_limit_still_comes(grpc_clients):
    topic, subscription = grpc_clients.pair()
    with stream(grpc_clients, subscription, max_outstanding_bytes=1000) as opened:
        grpc_clients.publish(topic, b"x" * 5000)
        opened.ack(opened.take(1))
        grpc_clients.publish(topic, b"y" * 5000)
        assert opened.take(1)[0].message.data[:1] == b"y"


def test_a_nack_on_the_stream_brings_the_message_back(grpc_clients):
    topic, subscription = grpc_clients.pair()
    with stream(grpc_clients, subscription) as opened:
        grpc_clients.publish(topic, b"x")
        first = opened.take(1)
        opened.modify(first, 0)
        second = opened.take(1)
        assert second[0].message.message_id == first[0].message.message_id


def test_a_deadline_set_on_the_stream_expires(grpc_clients):
    topic, subscription = grpc_clients.pair(ack_deadline_seconds=600)
    with stream(grpc_clients, subscription, deadline=600) as opened:
        grpc_clients.publish(topic, b"x")
        first = opened.take(1)
        before = time.monotonic()
        opened.modify(first, 1)
        second = opened.take(1)
        assert second[0].message.message_id == first[0].message.message_id
        assert 0.8 < time.monotonic() - before < 5


def test_the_stream_s_own_ack_deadline_is_used(grpc_clients):
    topic, subscription = grpc_clients.pair(ack_deadline_seconds=600)
    with stream(grpc_clients, subscription, deadline=10) as opened:
        grpc_clients.publish(topic, b"x")
        before = time.monotonic()
        opened.take(1)
        opened.take(1)
        assert 9.5 < time.monotonic() - before < 14


def test_leases_of_a_closed_stream_come_back_to_others(grpc_clients):
    topic, subscription = grpc_clients.pair()
    grpc_clients.publish(topic, b"x")
    with stream(grpc_clients, subscription) as opened:
        opened.modify(opened.take(1), 1)
    # The stream may have been cancelled before its last request was read.
    assert grpc_clients.pull_exactly(subscription, 1)[0].message.data == b"x"


def test_two_streams_share_a_subscription_fairly(grpc_clients):
    topic, subscription = grpc_clients.pair()
    count, step = 2000, 20
    limits = {"max_outstanding_messages": 100, "deadline": 60}
    with (
        stream(grpc_clients, subscription, **limits) as first,
        stream(grpc_clients, subscription, **limits) as second,
    ):
        shares = collections.Counter()
        seen = collections.Counter()
        changed = threading.Condition()

        def consume(name, opened):
            while (one := opened.incoming.get()) is not END:
                opened.ack([one])
                with changed:
                    shares[name] += 1
                    seen[one.message.message_id] += 1
                    changed.notify()

        consumers = [
            threading.Thread(target=consume, args=(name, opened), daemon=True)
            for name, opened in (("first", first), ("second", second))
        ]
        for one in consumers:
            one.start()
        for published in range(step, count + step, step):
            grpc_clients.publish(topic, *[b"x"] * step)
            # Both have read all there was: the server decides who gets what, and not the speed of
            # these threads.
            with changed:
                arrived = changed.wait_for(lambda: len(seen) >= published, 60)
            assert arrived, f"{len(seen)} of {published} arrived: {shares}"
        assert min(shares.values()) >= count * 0.3, shares
        assert max(seen.values()) == 1, "a message came twice although nobody was late"


@pytest.mark.parametrize(
    "fields",
    [
        {"stream_ack_deadline_seconds": 9},
        {"stream_ack_deadline_seconds": 601},
        {"stream_ack_deadline_seconds": 0},
        {"subscription": ""},
        {"subscription": "rubbish"},
    ],
    ids=str,
)
def test_a_bad_first_request_ends_the_stream(grpc_clients, fields):
    _, subscription = grpc_clients.pair()
    request = {"subscription": subscription, "deadline": 10}
    if "stream_ack_deadline_seconds" in fields:
        request["deadline"] = fields["stream_ack_deadline_seconds"]
    request.update({key: value for key, value in fields.items() if key == "subscription"})
    opened = Stream(grpc_clients, **request)
    assert status_of(opened.end()) == "INVALID_ARGUMENT"


def test_a_stream_on_a_missing_subscription_is_not_found(grpc_clients):
    opened = Stream(grpc_clients, grpc_clients.subscription_name())
    assert status_of(opened.end()) == "NOT_FOUND"


@pytest.mark.parametrize(
    "fields",
    [
        {"modify_deadline_ack_ids": ["a", "b"], "modify_deadline_seconds": [10]},
        {"modify_deadline_ack_ids": ["a"], "modify_deadline_seconds": [601]},
        {"stream_ack_deadline_seconds": 5},
    ],
    ids=str,
)
def test_a_bad_later_request_ends_the_stream(grpc_clients, fields):
    _, subscription = grpc_clients.pair()
    opened = Stream(grpc_clients, subscription)
    opened.send(**fields)
    assert status_of(opened.end()) == "INVALID_ARGUMENT"


def test_a_later_request_must_not_name_the_subscription(grpc_clients):
    _, subscription = grpc_clients.pair()
    opened = Stream(grpc_clients, subscription)
    opened.send(subscription=subscription)
    assert status_of(opened.end()) == "INVALID_ARGUMENT"


def test_a_stream_ends_when_its_subscription_is_deleted(grpc_clients):
    topic, subscription = grpc_clients.pair()
    opened = Stream(grpc_clients, subscription)
    grpc_clients.publish(topic, b"x")
    opened.take(1)
    grpc_clients.subscriber.delete_subscription(request={"subscription": subscription})
    assert status_of(opened.end()) == "NOT_FOUND"


@pytest.fixture
def high_level(server, monkeypatch):
    """The official high-level clients, found through the environment as users do it."""
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.address)
    publisher = pubsub_v1.PublisherClient()
    subscriber = pubsub_v1.SubscriberClient()
    yield publisher, subscriber
    subscriber.close()


class Counted:
    """Counts callbacks and tells when enough different messages were seen."""

    def __init__(self, count):
        self.count = count
        self.lock = threading.Lock()
        self.seen = collections.Counter()
        self.running = 0
        self.running_most = 0
        self.done = threading.Event()

    def enter(self, message):
        with self.lock:
            self.seen[message.data] += 1
            self.running += 1
            self.running_most = max(self.running_most, self.running)

    def leave(self):
        with self.lock:
            self.running -= 1
            if len(self.seen) >= self.count:
                self.done.set()


def test_the_high_level_subscriber_gets_and_acks_everything(high_level, grpc_clients):
    publisher, subscriber = high_level
    topic, subscription = grpc_clients.pair()
    futures = [publisher.publish(topic, b"%d" % n, kind="test") for n in range(500)]
    ids = [future.result(timeout=30) for future in futures]
    assert len(set(ids)) == 500
    counted = Counted(500)

    def callback(message):
        counted.enter(message)
        assert message.attributes == {"kind": "test"}
        message.ack()
        counted.leave()

    pulling = subscriber.subscribe(subscription, callback)
    assert counted.done.wait(60)
    pulling.cancel()
    pulling.result(timeout=30)
    assert set(counted.seen.values()) == {1}
    assert grpc_clients.pull_now(subscription) == []


def test_the_high_level_subscriber_s_flow_control_holds(high_level, grpc_clients):
    publisher, subscriber = high_level
    topic, subscription = grpc_clients.pair()
    grpc_clients.publish(topic, *numbered(40))
    counted = Counted(40)
    gate = threading.Semaphore(0)

    def callback(message):
        counted.enter(message)
        gate.acquire()
        message.ack()
        counted.leave()

    pulling = subscriber.subscribe(
        subscription, callback, flow_control=pubsub_v1.types.FlowControl(max_messages=4)
    )
    gate.release(40)
    assert counted.done.wait(60)
    pulling.cancel()
    pulling.result(timeout=30)
    assert counted.running_most <= 4
    assert set(counted.seen.values()) == {1}


def test_a_nack_of_the_high_level_subscriber_brings_the_message_back(high_level, grpc_clients):
    _, subscriber = high_level
    topic, subscription = grpc_clients.pair()
    grpc_clients.publish(topic, *numbered(10))
    counted = Counted(10)
    acked = collections.Counter()
    done = threading.Event()

    def callback(message):
        counted.enter(message)
        if counted.seen[message.data] < 2:
            message.nack()
        else:
            acked[message.data] += 1
            message.ack()
        counted.leave()
        if len(acked) == 10:
            done.set()

    pulling = subscriber.subscribe(subscription, callback)
    assert done.wait(60), counted.seen
    pulling.cancel()
    pulling.result(timeout=30)
    assert set(counted.seen.values()) == {2}


def test_the_high_level_subscriber_keeps_long_leases_alive(high_level, grpc_clients):
    """A callback slower than the ack deadline: the client extends, nothing comes twice."""
    _, subscriber = high_level
    topic, subscription = grpc_clients.pair(ack_deadline_seconds=10)
    grpc_clients.publish(topic, b"slow")
    counted = Counted(1)

    def callback(message):
        counted.enter(message)
        # Longer than the deadline: this is the thing tested, not a wait for a signal.
        time.sleep(13)
        message.ack()
        counted.leave()

    pulling = subscriber.subscribe(
        subscription, callback, flow_control=pubsub_v1.types.FlowControl(max_messages=1)
    )
    assert counted.done.wait(60)
    pulling.cancel()
    pulling.result(timeout=30)
    assert counted.seen == {b"slow": 1}
    assert grpc_clients.pull_now(subscription) == []


@pytest.mark.parametrize("how", ["term", "kill"])
def test_the_high_level_subscriber_goes_on_after_a_restart(own_server, monkeypatch, how):
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", own_server.address)
    clients = Clients(own_server, "grpc")
    topic, subscription = clients.pair()
    subscriber = pubsub_v1.SubscriberClient()
    before, after = Counted(20), Counted(40)

    def callback(message):
        for counted in (before, after):
            counted.enter(message)
        message.ack()
        for counted in (before, after):
            counted.leave()

    pulling = subscriber.subscribe(subscription, callback)
    clients.publish(topic, *numbered(20))
    assert before.done.wait(30)
    own_server.restart(how)
    clients.close()
    clients = Clients(own_server, "grpc")
    clients.publish(topic, *[b"%d" % n for n in range(20, 40)])
    assert after.done.wait(60), after.seen
    pulling.cancel()
    pulling.result(timeout=30)
    subscriber.close()
    clients.close()
