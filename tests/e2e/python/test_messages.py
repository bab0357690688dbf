"""Publish, pull, acknowledge and deadlines, over gRPC and REST."""

import threading
import time

from google.api_core import exceptions

from clients import Clients
from program import Server
from statuses import refused

import pytest


def test_a_message_arrives_byte_for_byte(clients):
    topic, subscription = clients.pair()
    sent = [
        {"data": bytes(range(256)) * 5, "attributes": {"kind": "binary", "ключ": "значение ✓"}},
        {"data": b"", "attributes": {"only": "attributes", "empty": ""}},
        {"data": b"\0", "ordering_key": "key-1"},
        {"data": "grüße".encode()},
    ]
    ids = clients.publish_messages(topic, *sent)
    received = clients.pull_exactly(subscription, len(sent))
    by_id = {one.message.message_id: one.message for one in received}
    for message_id, want in zip(ids, sent):
        got = by_id[message_id]
        assert got.data == want["data"]
        assert dict(got.attributes) == want.get("attributes", {})
        assert got.ordering_key == want.get("ordering_key", "")
        assert abs(got.publish_time.timestamp() - time.time()) < 60


def test_ids_are_unique_and_grow(clients):
    topic = clients.topic()
    ids = [int(id) for _ in range(5) for id in clients.publish(topic, *[b"x"] * 20)]
    assert ids == sorted(set(ids)) and len(ids) == 100


def test_every_subscription_gets_every_message(clients):
    topic, first = clients.pair()
    second = clients.subscription(topic)
    published = clients.publish(topic, *[b"%d" % n for n in range(50)])
    for subscription in (first, second):
        received = clients.pull_exactly(subscription, 50)
        assert sorted(one.message.message_id for one in received) == sorted(published)
        clients.ack(subscription, received)
        assert clients.pull_now(subscription) == []


def test_a_subscription_made_later_starts_at_latest(clients):
    topic = clients.topic()
    clients.publish(topic, b"before")
    subscription = clients.subscription(topic)
    clients.publish(topic, b"after")
    received = clients.pull_exactly(subscription, 1)
    assert received[0].message.data == b"after"
    assert clients.pull_now(subscription) == []


def test_a_leased_message_is_not_given_to_another_pull(clients):
    topic, subscription = clients.pair()
    clients.publish(topic, b"a", b"b", b"c")
    first = clients.pull(subscription, 2)
    second = clients.pull_exactly(subscription, 3 - len(first))
    ids = [one.message.message_id for one in first + second]
    assert len(set(ids)) == 3
    assert clients.pull_now(subscription) == []


def test_a_pull_waits_for_a_message(clients):
    topic, subscription = clients.pair()
    got = []
    started = threading.Event()

    def wait():
        started.set()
        received = clients.pull(subscription, 10, timeout=60)
        got.append((time.monotonic(), received))

    waiting = threading.Thread(target=wait)
    waiting.start()
    started.wait()
    # The pull must be waiting inside the server; nothing outside tells when it is.
    waiting.join(timeout=1.0)
    assert waiting.is_alive(), "the pull came back before anything was published"
    published_at = time.monotonic()
    clients.publish(topic, b"at last")
    waiting.join(timeout=30)
    assert not waiting.is_alive()
    received_at, received = got[0]
    assert received[0].message.data == b"at last"
    assert received_at - published_at < 0.5


def test_many_waiting_pulls_each_get_their_share(grpc_clients):
    clients = grpc_clients
    topic, subscription = clients.pair()
    got = []

    def take():
        got.extend(clients.pull_exactly(subscription, 1))

    waiting = [threading.Thread(target=take) for _ in range(8)]
    for one in waiting:
        one.start()
    for n in range(8):
        clients.publish(topic, b"%d" % n)
    for one in waiting:
        one.join(timeout=30)
    assert sorted(one.message.data for one in got) == [b"%d" % n for n in range(8)]


def test_a_pull_that_must_not_wait_does_not(clients):
    _, subscription = clients.pair()
    before = time.monotonic()
    assert clients.pull_now(subscription) == []
    assert time.monotonic() - before < 5


def test_a_pull_given_up_by_its_caller_holds_no_message(grpc_clients):
    clients = grpc_clients
    topic, subscription = clients.pair()
    for _ in range(5):
        with pytest.raises(exceptions.DeadlineExceeded):
            clients.pull(subscription, 10, timeout=0.2)
    clients.publish(topic, b"x")
    assert clients.pull_exactly(subscription, 1)[0].message.data == b"x"


def test_a_nacked_message_comes_back_at_once(clients):
    topic, subscription = clients.pair()
    clients.publish(topic, b"x")
    first = clients.pull_exactly(subscription, 1)
    clients.modify(subscription, first, 0)
    second = clients.pull_exactly(subscription, 1)
    assert second[0].message.message_id == first[0].message.message_id
    assert second[0].ack_id != first[0].ack_id
    clients.ack(subscription, second)
    assert clients.pull_now(subscription) == []


def test_an_expired_lease_is_redelivered(clients):
    topic, subscription = clients.pair()
    clients.publish(topic, b"x")
    first = clients.pull_exactly(subscription, 1)
    before = time.monotonic()
    clients.modify(subscription, first, 1)
    second = clients.pull_exactly(subscription, 1)
    assert second[0].message.message_id == first[0].message.message_id
    assert 0.9 < time.monotonic() - before < 5


def test_the_subscription_s_ack_deadline_is_kept(grpc_clients):
    topic, subscription = grpc_clients.pair(ack_deadline_seconds=10)
    grpc_clients.publish(topic, b"x")
    before = time.monotonic()
    first = grpc_clients.pull_exactly(subscription, 1)
    second = grpc_clients.pull_exactly(subscription, 1)
    assert second[0].message.message_id == first[0].message.message_id
    assert 9.9 < time.monotonic() - before < 14


def test_an_extended_lease_is_not_redelivered_at_the_old_deadline(clients):
    topic, subscription = clients.pair()
    clients.publish(topic, b"kept")
    kept = clients.pull_exactly(subscription, 1)
    clients.modify(subscription, kept, 1)
    clients.modify(subscription, kept, 60)
    # Another lease of one second that ends later marks the time that has passed.
    clients.publish(topic, b"marker")
    marker = clients.pull_exactly(subscription, 1)
    clients.modify(subscription, marker, 2)
    again = clients.pull_exactly(subscription, 1)
    assert again[0].message.data == b"marker"
    clients.ack(subscription, again + kept)
    assert clients.pull_now(subscription) == []


def test_a_late_ack_still_counts(clients):
    topic, subscription = clients.pair()
    clients.publish(topic, b"x")
    first = clients.pull_exactly(subscription, 1)
    clients.modify(subscription, first, 1)
    second = clients.pull_exactly(subscription, 1)
    # The first id's lease is over; its ack settles the message and ends the newer lease.
    clients.ack(subscription, first)
    clients.modify(subscription, second, 0)
    assert clients.pull_now(subscription) == []


def test_a_late_nack_is_ignored(clients):
    topic, subscription = clients.pair()
    clients.publish(topic, b"x")
    first = clients.pull_exactly(subscription, 1)
    clients.modify(subscription, first, 0)
    clients.pull_exactly(subscription, 1)
    clients.modify(subscription, first, 0)
    assert clients.pull_now(subscription) == []


def test_an_ack_may_be_repeated(clients):
    topic, subscription = clients.pair()
    clients.publish(topic, b"x")
    received = clients.pull_exactly(subscription, 1)
    for _ in range(3):
        clients.ack(subscription, received)
    assert clients.pull_now(subscription) == []


def test_a_publish_to_a_subscription_name_is_refused(clients):
    _, subscription = clients.pair()
    if clients.transport == "grpc":
        with refused("INVALID_ARGUMENT"):
            clients.publish(subscription, b"x")


@pytest.mark.parametrize("transport", ["grpc", "rest"])
def test_the_memory_engine_serves_the_same_calls(tmp_path, transport):
    server = Server(tmp_path, args=["--engine", "memory"]).start()
    clients = Clients(server, transport)
    try:
        topic, subscription = clients.pair()
        clients.publish(topic, *[b"%d" % n for n in range(10)])
        received = clients.pull_exactly(subscription, 10)
        clients.ack(subscription, received)
        assert clients.pull_now(subscription) == []
    finally:
        clients.close()
        server.stop()
