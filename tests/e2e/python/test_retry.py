"""Retry policies: backoff on nack and on expiry, its bounds, and that it survives a crash."""

import datetime

import pytest

from statuses import refused
from streams import opened
from waiting import Stopwatch, data


def seconds(count):
    return datetime.timedelta(seconds=count)


def policy(least, most=600):
    return {"minimum_backoff": seconds(least), "maximum_backoff": seconds(most)}


def test_without_a_policy_a_nacked_message_comes_again_at_once(grpc_clients):
    topic, name = grpc_clients.pair()
    grpc_clients.publish(topic, b"x")
    for _ in range(10):
        received = grpc_clients.pull_exactly(name, 1)
        watch = Stopwatch()
        grpc_clients.nack(name, received)
    again = grpc_clients.pull_exactly(name, 1)
    assert watch.seconds() < 1
    grpc_clients.ack(name, again)


def test_a_nacked_message_waits_its_backoff_which_doubles(grpc_clients):
    clients = grpc_clients
    topic = clients.topic()
    name = clients.subscription(topic, retry_policy=policy(1, 600))
    clients.publish(topic, b"bad")
    with opened(clients, name) as stream:
        received = stream.take(1)
        for least in (1, 2):
            watch = Stopwatch()
            stream.nack(received)
            clients.publish(topic, b"good")
            # What does not fail does not wait.
            good = stream.take(1)
            assert data(good) == [b"good"] and watch.seconds() < least
            stream.ack(good)
            received = stream.take(1)
            assert data(received) == [b"bad"]
            assert least - 0.05 <= watch.seconds() < least * 1.1 + 1
        stream.ack(received)


def test_the_backoff_ends_at_its_maximum(grpc_clients):
    clients = grpc_clients
    topic = clients.topic()
    name = clients.subscription(topic, retry_policy=policy(0.3, 0.3))
    clients.publish(topic, b"bad")
    with opened(clients, name) as stream:
        received = stream.take(1)
        for _ in range(4):
            watch = Stopwatch()
            stream.nack(received)
            received = stream.take(1)
            assert 0.28 <= watch.seconds() < 1.3


def test_an_expired_lease_waits_its_backoff_too(grpc_clients):
    clients = grpc_clients
    topic = clients.topic()
    name = clients.subscription(topic, retry_policy=policy(1))
    clients.publish(topic, b"x")
    received = clients.pull_exactly(name, 1)
    watch = Stopwatch()
    clients.modify(name, received, 1)
    clients.pull_exactly(name, 1)
    assert 1.95 <= watch.seconds() < 3.5


def test_a_pull_finds_nothing_while_all_is_backing_off(clients):
    topic = clients.topic()
    name = clients.subscription(topic, retry_policy=policy(600))
    clients.publish(topic, b"x", b"y")
    clients.nack(name, clients.pull_exactly(name, 2))
    assert clients.pull_now(name) == []


def test_a_late_ack_ends_a_backoff(grpc_clients):
    topic = grpc_clients.topic()
    name = grpc_clients.subscription(topic, retry_policy=policy(1))
    grpc_clients.publish(topic, b"x")
    received = grpc_clients.pull_exactly(name, 1)
    grpc_clients.nack(name, received)
    grpc_clients.ack(name, received)
    watch = Stopwatch()
    grpc_clients.publish(topic, b"y")
    with opened(grpc_clients, name) as stream:
        assert data(stream.take(1)) == [b"y"]
        while watch.seconds() < 1.5:
            assert stream.waiting() == 0, "what was acked came again"


def test_a_key_that_backs_off_holds_no_other_back(grpc_clients):
    clients = grpc_clients
    topic = clients.topic()
    name = clients.subscription(topic, retry_policy=policy(1), enable_message_ordering=True)
    bad = [{"data": b"bad-%d" % n, "ordering_key": "bad"} for n in range(3)]
    clients.publish_messages(topic, *bad)
    received = clients.pull_exactly(name, 3)
    watch = Stopwatch()
    clients.nack(name, received[:1])
    clients.publish_messages(
        topic, *[{"data": b"good", "ordering_key": f"good-{n}"} for n in range(20)]
    )
    assert set(data(clients.pull_exactly(name, 20))) == {b"good"}
    assert watch.seconds() < 1
    assert data(clients.pull_exactly(name, 3)) == [b"bad-0", b"bad-1", b"bad-2"]
    assert 0.95 <= watch.seconds() < 3


def test_a_restart_in_the_middle_of_a_backoff_keeps_its_time(own_server, connect):
    clients = connect()
    topic = clients.topic()
    name = clients.subscription(topic, retry_policy=policy(3))
    ordered = clients.subscription(topic, retry_policy=policy(3), enable_message_ordering=True)
    clients.publish_messages(topic, *[{"data": b"%d" % n, "ordering_key": "k"} for n in range(2)])
    free, in_lane = clients.pull_exactly(name, 2), clients.pull_exactly(ordered, 2)
    watch = Stopwatch()
    clients.nack(name, free)
    clients.nack(ordered, in_lane[:1])
    # Synced after the nacks, so the backoffs are durable.
    clients.publish(clients.topic(), b"barrier")
    own_server.restart("kill")
    clients = connect()
    assert clients.pull_now(name) == [] and clients.pull_now(ordered) == []
    assert watch.seconds() < 2.5, "the restart took so long that nothing was tested"
    assert set(data(clients.pull_exactly(name, 2))) == {b"0", b"1"}
    assert 2.95 <= watch.seconds() <= 3.3 + 1
    assert data(clients.pull_exactly(ordered, 2)) == [b"0", b"1"]
    assert 2.95 <= watch.seconds() <= 3.3 + 1.5


def test_backoffs_grow_over_restarts(own_server, connect):
    clients = connect()
    topic = clients.topic()
    name = clients.subscription(topic, retry_policy=policy(0.5, 600))
    clients.publish(topic, b"x")
    for _ in range(2):
        clients.nack(name, clients.pull_exactly(name, 1))
    received = clients.pull_exactly(name, 1)
    clients.publish(clients.topic(), b"barrier")
    own_server.restart("kill")
    clients = connect()
    received = clients.pull_exactly(name, 1)
    watch = Stopwatch()
    clients.nack(name, received)
    clients.pull_exactly(name, 1)
    # Two failed before, and the crash ended a lease without a failure: this is the third.
    assert 1.95 <= watch.seconds() < 2.2 + 1


BAD = {
    "a minimum above 600 s": policy(601, 601),
    "a maximum above 600 s": policy(1, 601),
    "a negative minimum": policy(-1),
    "a minimum above the maximum": policy(20, 10),
}


@pytest.mark.parametrize("what", BAD)
def test_bounds_out_of_range_are_refused_by_name(clients, what):
    topic = clients.topic()
    with refused("INVALID_ARGUMENT") as raised:
        clients.subscription(topic, retry_policy=BAD[what])
    told = str(raised.value)
    assert "retry_policy." in told or "retryPolicy." in told, told
    _, name = clients.pair()
    with refused("INVALID_ARGUMENT"):
        clients.update(name, ["retry_policy"], retry_policy=BAD[what])


def test_a_policy_is_shown_changed_and_removed(clients):
    topic = clients.topic()
    name = clients.subscription(topic, retry_policy={})
    shown = clients.get(name).retry_policy
    assert shown.minimum_backoff == seconds(10) and shown.maximum_backoff == seconds(600)
    changed = clients.update(name, ["retry_policy"], retry_policy=policy(5, 20)).retry_policy
    assert changed.minimum_backoff == seconds(5) and changed.maximum_backoff == seconds(20)
    changed = clients.update(
        name, ["retry_policy.minimum_backoff"], retry_policy={"minimum_backoff": seconds(7)}
    ).retry_policy
    assert changed.minimum_backoff == seconds(7) and changed.maximum_backoff == seconds(20)
    assert not clients.update(name, ["retry_policy"]).retry_policy


def test_a_policy_given_later_counts_for_what_fails_then(grpc_clients):
    clients = grpc_clients
    topic, name = clients.pair()
    clients.publish(topic, b"x")
    received = clients.pull_exactly(name, 1)
    clients.update(name, ["retry_policy"], retry_policy=policy(1))
    watch = Stopwatch()
    clients.nack(name, received)
    assert clients.pull_now(name) == []
    received = clients.pull_exactly(name, 1)
    assert 0.95 <= watch.seconds() < 2.5
    clients.update(name, ["retry_policy"])
    clients.nack(name, received)
    assert len(clients.pull_exactly(name, 1)) == 1
