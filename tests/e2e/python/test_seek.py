"""Seek: back and forward in time, what it does to leases and streams, and across a crash."""

import datetime

import pytest

from statuses import refused
from streams import opened
from waiting import data, until

HOUR = datetime.timedelta(hours=1)


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def between():
    """A time after whatever was published before, and before whatever is published next: the
    server has the same clock, and an answer comes after the time it is of."""
    moment = now()
    until(lambda: now() > moment)
    return moment


def retained(clients, **fields):
    """A topic that keeps its messages, and a subscription on it."""
    topic = clients.topic(message_retention_duration=HOUR)
    return topic, clients.subscription(topic, **fields)


def test_back_in_time_replays_what_was_acked_since(clients):
    topic, name = clients.pair(retain_acked_messages=True)
    clients.publish(topic, b"1", b"2")
    moment = between()
    clients.publish(topic, b"3", b"4")
    clients.ack(name, clients.pull_exactly(name, 4))
    assert clients.pull_now(name) == []
    clients.seek(name, time=moment)
    received = clients.pull_exactly(name, 2)
    assert set(data(received)) == {b"3", b"4"}
    clients.ack(name, received)
    clients.seek(name, time=now() - HOUR)
    assert set(data(clients.pull_exactly(name, 4))) == {b"1", b"2", b"3", b"4"}


def test_the_topic_s_retention_is_enough_to_go_back(clients):
    topic, name = retained(clients)
    clients.publish(topic, b"1", b"2")
    clients.ack(name, clients.pull_exactly(name, 2))
    clients.seek(name, time=now() - HOUR)
    assert set(data(clients.pull_exactly(name, 2))) == {b"1", b"2"}


def test_back_in_time_reaches_before_the_subscription(clients):
    topic = clients.topic(message_retention_duration=HOUR)
    clients.publish(topic, b"before")
    name = clients.subscription(topic)
    assert clients.pull_now(name) == []
    clients.seek(name, time=now() - HOUR)
    assert data(clients.pull_exactly(name, 1)) == [b"before"]


def test_forward_in_time_marks_everything_acked(clients):
    topic, name = clients.pair()
    clients.publish(topic, b"1", b"2")
    moment = between()
    clients.publish(topic, b"3")
    clients.seek(name, time=moment)
    received = clients.pull_exactly(name, 1)
    assert data(received) == [b"3"]
    clients.seek(name, time=now() + HOUR)
    clients.nack(name, received)
    assert clients.pull_now(name) == []
    clients.publish(topic, b"4")
    assert data(clients.pull_exactly(name, 1)) == [b"4"], "what comes later is delivered"


def test_a_seek_ends_leases_and_voids_their_ids(clients):
    topic, name = retained(clients)
    clients.publish(topic, b"1", b"2")
    before = clients.pull_exactly(name, 2)
    clients.seek(name, time=now() - HOUR)
    # Without exactly-once a late ack is no error; after a seek it does not count either.
    clients.ack(name, before)
    again = clients.pull_exactly(name, 2)
    assert set(data(again)) == {b"1", b"2"}
    clients.ack(name, again)
    assert clients.pull_now(name) == []


def test_an_open_stream_gets_the_replay(grpc_clients):
    clients = grpc_clients
    topic, name = retained(clients)
    with opened(clients, name, max_outstanding_messages=3) as stream:
        clients.publish(topic, b"1", b"2", b"3")
        stream.ack(stream.take(3))
        clients.publish(topic, b"4")
        stream.ack(stream.take(1))
        clients.seek(name, time=now() - HOUR)
        replayed = []
        while len(replayed) < 4:
            received = stream.take(1)
            replayed += data(received)
            stream.ack(received)
        assert sorted(replayed) == [b"1", b"2", b"3", b"4"]


def test_an_ordered_subscription_is_replayed_in_order(grpc_clients):
    clients = grpc_clients
    topic, name = retained(clients, enable_message_ordering=True)
    clients.publish_messages(
        topic, *[{"data": b"%d" % n, "ordering_key": "k"} for n in range(5)]
    )
    received = clients.pull_exactly(name, 5)
    clients.ack(name, received[:3])
    clients.seek(name, time=now() - HOUR)
    assert data(clients.pull_exactly(name, 5)) == [b"%d" % n for n in range(5)]


def test_filters_hold_in_a_replay(grpc_clients):
    clients = grpc_clients
    topic, name = retained(clients, filter="attributes:want")
    clients.publish_messages(
        topic, {"data": b"no"}, {"data": b"yes", "attributes": {"want": ""}}, {"data": b"no"}
    )
    clients.ack(name, clients.pull_exactly(name, 1))
    clients.seek(name, time=now() - HOUR)
    received = clients.pull_exactly(name, 1)
    assert data(received) == [b"yes"]
    clients.ack(name, received)
    assert clients.pull_now(name) == []


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_restart_in_the_middle_of_a_seek(own_server, connect, exactly_once):
    clients = connect()
    topic, name = retained(clients, enable_exactly_once_delivery=exactly_once)
    clients.publish(topic, *[b"%d" % n for n in range(40)])
    before = clients.pull_exactly(name, 40)
    clients.ack(name, before)
    clients.seek(name, time=now() - HOUR)
    # The answer alone means that it is durable.
    own_server.restart("kill")
    clients = connect()
    replayed = clients.pull_exactly(name, 40)
    assert {int(one.message.data) for one in replayed} == set(range(40))
    clients.ack(name, [one for one in replayed if int(one.message.data) % 2])
    clients.publish(topic, b"99")
    own_server.restart("kill")
    clients = connect()
    if not exactly_once:
        clients.ack(name, before)
    left = clients.pull_exactly(name, 21)
    assert sorted(int(one.message.data) for one in left) == [*range(0, 40, 2), 99]
    clients.ack(name, left)
    assert clients.pull_now(name) == []


def test_a_forward_seek_survives_a_crash(own_server, connect):
    clients = connect()
    topic, name = clients.pair()
    clients.publish(topic, *[b"%d" % n for n in range(40)])
    clients.seek(name, time=now() + HOUR)
    own_server.restart("kill")
    clients = connect()
    assert clients.pull_now(name) == []
    clients.publish(topic, b"after")
    assert data(clients.pull_exactly(name, 1)) == [b"after"]


def test_a_seek_forgets_attempts(grpc_clients):
    clients = grpc_clients
    dead = clients.topic()
    topic, name = retained(clients, dead_letter_policy={"dead_letter_topic": dead})
    clients.publish(topic, b"x")
    for _ in range(3):
        received = clients.pull_exactly(name, 1)
        clients.nack(name, received)
    assert received[0].delivery_attempt == 3
    clients.seek(name, time=now() - HOUR)
    assert clients.pull_exactly(name, 1)[0].delivery_attempt == 1


def test_bad_seeks_are_refused(clients):
    _, name = clients.pair()
    with refused("INVALID_ARGUMENT"):
        clients.seek(name)
    with refused("INVALID_ARGUMENT"):
        clients.seek(name, snapshot="before")
    with refused("NOT_FOUND"):
        clients.seek(name, snapshot=clients.snapshot_name())
    with refused("NOT_FOUND"):
        clients.seek(clients.subscription_name(), time=now())
