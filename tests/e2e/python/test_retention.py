"""Retention and expiry: what is kept for whom, the limits of both, and disk space coming back."""

import datetime

import pytest

from program import Server
from rest import Rest, encode
from statuses import refused
from waiting import data, until

DAY = datetime.timedelta(days=1)
MINUTE = datetime.timedelta(minutes=1)

FLUSHING = """
[storage]
wal_segment = "1MiB"
wal_max = "8MiB"
topic_segment = "1MiB"
progress_flush = "50ms"
"""


def test_a_topic_s_retention_keeps_what_everybody_has_acked(rest, grpc_clients):
    clients = grpc_clients
    topic = clients.topic(message_retention_duration=10 * MINUTE)
    name = clients.subscription(topic)
    clients.publish(topic, b"1", b"2")
    clients.ack(name, clients.pull_exactly(name, 2))
    late = clients.subscription_name()
    rest.subscription(late, topic, postrider={"start": "earliest"})
    assert set(data(clients.pull_exactly(late, 2))) == {b"1", b"2"}


def test_the_topic_s_retention_is_shown_with_the_subscription(clients):
    topic = clients.topic(message_retention_duration=20 * MINUTE)
    name = clients.subscription(topic)
    assert clients.get(name).topic_message_retention_duration == 20 * MINUTE


RETENTIONS = {"9 minutes": 9 * MINUTE, "32 days": 32 * DAY, "negative": -MINUTE}


@pytest.mark.parametrize("what", RETENTIONS)
def test_a_retention_out_of_range_is_refused(clients, what):
    topic, name = clients.pair()
    given = {"message_retention_duration": RETENTIONS[what]}
    for call in (
        lambda: clients.subscription(topic, **given),
        lambda: clients.update(name, ["message_retention_duration"], **given),
        lambda: clients.topic(**given),
    ):
        with refused("INVALID_ARGUMENT") as raised:
            call()
        told = str(raised.value)
        assert "message_retention_duration" in told or "messageRetentionDuration" in told


def test_the_bounds_of_retention_are_fine(clients):
    topic = clients.topic()
    for span in (10 * MINUTE, 31 * DAY):
        name = clients.subscription(topic, message_retention_duration=span)
        assert clients.get(name).message_retention_duration == span


def test_expiry_is_31_days_at_least_a_day_or_never(clients):
    topic, name = clients.pair()
    assert clients.get(name).expiration_policy.ttl == 31 * DAY
    changed = clients.update(name, ["expiration_policy"], expiration_policy={"ttl": 7 * DAY})
    assert changed.expiration_policy.ttl == 7 * DAY
    changed = clients.update(name, ["expiration_policy"], expiration_policy={})
    assert not changed.expiration_policy.ttl
    changed = clients.update(name, ["expiration_policy"])
    assert changed.expiration_policy.ttl == 31 * DAY
    for given in (
        {"expiration_policy": {"ttl": DAY - MINUTE}},
        # A subscription must outlive its messages.
        {"expiration_policy": {"ttl": DAY}, "message_retention_duration": 2 * DAY},
    ):
        with refused("INVALID_ARGUMENT") as raised:
            clients.subscription(topic, **given)
        assert "ttl" in str(raised.value)


def test_retain_acked_messages_can_be_turned_on_and_off(clients):
    topic, name = clients.pair()
    path = "retain_acked_messages"
    assert clients.update(name, [path], retain_acked_messages=True).retain_acked_messages
    clients.publish(topic, b"x")
    clients.ack(name, clients.pull_exactly(name, 1))
    clients.seek(name, time=datetime.datetime.now(datetime.timezone.utc) - DAY)
    assert data(clients.pull_exactly(name, 1)) == [b"x"]
    assert not clients.update(name, [path]).retain_acked_messages


@pytest.fixture
def small(tmp_path):
    """A server with small files, that saves its progress every 50 ms."""
    server = Server(tmp_path, config=FLUSHING).start()
    yield server, Rest(server)
    server.stop()


def bytes_of_segments(server):
    return sum(file.stat().st_size for file in (server.data / "topics").rglob("*") if file.is_file())


TOPIC, NAME = "projects/p/topics/orders", "projects/p/subscriptions/billing"


def publish_much(rest):
    """24 MiB, three times what the write-ahead log may hold."""
    for _ in range(24):
        messages = [{"data": encode(b"x" * 65_536)}] * 16
        rest.ok("POST", f"/v1/{TOPIC}:publish", {"messages": messages})


def ack_all(rest, count=24 * 16):
    acked = 0
    while acked < count:
        received = rest.pull(NAME, 100)
        rest.ack(NAME, received)
        acked += len(received)


def test_disk_space_comes_back_once_all_is_acked(small):
    server, rest = small
    rest.topic(TOPIC)
    rest.subscription(NAME, TOPIC)
    publish_much(rest)
    assert bytes_of_segments(server) > 10 << 20, "most of it was moved out of the log"
    ack_all(rest)

    def is_free_again():
        """Room is made when the log needs it, so that much is published and acked again."""
        rest.publish(TOPIC, *["x" * 65_536] * 16)
        ack_all(rest, 16)
        return bytes_of_segments(server) < 4 << 20

    until(is_free_again)


@pytest.mark.parametrize("how", ["retain_acked", "topic", "snapshot"])
def test_what_a_promise_needs_is_not_trimmed(small, how):
    server, rest = small
    topic = {"messageRetentionDuration": "3600s"} if how == "topic" else {}
    rest.ok("PUT", f"/v1/{TOPIC}", topic)
    rest.subscription(NAME, TOPIC, retainAckedMessages=how == "retain_acked")
    first = rest.publish(TOPIC, "first")
    if how == "snapshot":
        snapshot = "projects/p/snapshots/before"
        rest.ok("PUT", f"/v1/{snapshot}", {"subscription": NAME})
    publish_much(rest)
    ack_all(rest, 24 * 16 + 1)
    server.restart("kill")
    target = {"time": "2000-01-01T00:00:00Z"} if how != "snapshot" else {"snapshot": snapshot}
    rest.ok("POST", f"/v1/{NAME}:seek", target)
    seen = set()
    while len(seen) < 24 * 16 + 1:
        received = rest.pull(NAME, 100)
        seen |= {int(one["message"]["messageId"]) for one in received}
        rest.ack(NAME, received)
    assert min(seen) == first[0]
