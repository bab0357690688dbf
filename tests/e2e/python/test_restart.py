"""Everything answered OK is still there after SIGTERM and after kill -9."""

import pytest
from google.protobuf import duration_pb2

from clients import Clients
from statuses import refused

HOW = ["term", "kill"]


@pytest.fixture(params=["grpc", "rest"])
def own(own_server, request):
    """A function that gives clients for the server as it runs now."""
    opened = []

    def connect():
        opened.append(Clients(own_server, request.param))
        return opened[-1]

    yield connect
    for clients in opened:
        clients.close()


@pytest.mark.parametrize("how", HOW)
def test_resources_are_still_there(own_server, own, how):
    clients = own()
    topic = clients.topic(
        labels={"team": "blue"}, message_retention_duration=duration_pb2.Duration(seconds=3600)
    )
    subscription = clients.subscription(topic, ack_deadline_seconds=33, labels={"a": "b"})
    gone_topic, gone = clients.pair()
    orphan_topic, orphan = clients.pair()
    clients.subscriber.delete_subscription(request={"subscription": gone})
    clients.publisher.delete_topic(request={"topic": gone_topic})
    clients.publisher.delete_topic(request={"topic": orphan_topic})
    shown = [
        clients.publisher.get_topic(request={"topic": topic}),
        clients.subscriber.get_subscription(request={"subscription": subscription}),
        clients.subscriber.get_subscription(request={"subscription": orphan}),
    ]
    own_server.restart(how)
    again = own()
    assert shown == [
        again.publisher.get_topic(request={"topic": topic}),
        again.subscriber.get_subscription(request={"subscription": subscription}),
        again.subscriber.get_subscription(request={"subscription": orphan}),
    ]
    assert shown[2].topic == "_deleted-topic_"
    for call in (
        lambda: again.publisher.get_topic(request={"topic": gone_topic}),
        lambda: again.subscriber.get_subscription(request={"subscription": gone}),
        lambda: again.publisher.get_topic(request={"topic": orphan_topic}),
    ):
        with refused("NOT_FOUND"):
            call()


@pytest.mark.parametrize("how", HOW)
def test_messages_are_still_there_byte_for_byte(own_server, own, how):
    clients = own()
    topic, subscription = clients.pair()
    sent = [
        {"data": bytes([n]) * (1 + 997 * n), "attributes": {"n": str(n)}, "ordering_key": f"k{n}"}
        for n in range(64)
    ]
    ids = clients.publish_messages(topic, *sent)
    own_server.restart(how)
    again = own()
    received = again.pull_exactly(subscription, len(sent))
    by_id = {one.message.message_id: one.message for one in received}
    for message_id, want in zip(ids, sent):
        got = by_id[message_id]
        assert got.data == want["data"]
        assert dict(got.attributes) == want["attributes"]
        assert got.ordering_key == want["ordering_key"]


@pytest.mark.parametrize("how", HOW)
def test_what_was_acked_does_not_come_again(own_server, own, how):
    clients = own()
    topic, subscription = clients.pair()
    ids = clients.publish(topic, *[b"%d" % n for n in range(30)])
    received = clients.pull_exactly(subscription, 30)
    odd = [one for one in received if int(one.message.data) % 2]
    clients.ack(subscription, odd)
    # A publish is synced with everything before it in the log, so the acks are durable too.
    clients.publish(topic, b"100")
    own_server.restart(how)
    again = own()
    left = again.pull_exactly(subscription, 16)
    assert sorted(int(one.message.data) for one in left) == [*range(0, 30, 2), 100]
    again.ack(subscription, left)
    assert again.pull_now(subscription) == []
    assert ids[0] == next(one.message.message_id for one in left if one.message.data == b"0")


@pytest.mark.parametrize("how", HOW)
def test_an_ack_id_from_before_the_restart_still_counts(own_server, own, how):
    clients = own()
    topic, subscription = clients.pair()
    clients.publish(topic, b"a", b"b")
    received = clients.pull_exactly(subscription, 2)
    own_server.restart(how)
    again = own()
    again.ack(subscription, [one for one in received if one.message.data == b"a"])
    left = again.pull_exactly(subscription, 1)
    assert left[0].message.data == b"b"
    again.ack(subscription, left)
    assert again.pull_now(subscription) == []


@pytest.mark.parametrize("how", HOW)
def test_ids_go_on_growing(own_server, own, how):
    clients = own()
    topic = clients.topic()
    before = int(clients.publish(topic, b"a", b"b")[-1])
    own_server.restart(how)
    assert int(own().publish(topic, b"c")[0]) > before


def test_a_backlog_larger_than_the_write_ahead_log_survives(own_server, own):
    clients = own()
    topic, subscription = clients.pair()
    # 48 MiB beside a write-ahead log of at most 32 MiB: most of it moves to topic segments.
    block = bytes(range(256)) * 64
    batches = [
        clients.publish(topic, *[b"%06d" % (batch * 60 + n) + block for n in range(60)])
        for batch in range(50)
    ]
    own_server.restart("kill")
    again = own()
    seen = {}
    while len(seen) < 3000:
        received = again.pull(subscription, 100)
        for one in received:
            assert one.message.data[6:] == block
            seen[one.message.message_id] = int(one.message.data[:6])
        again.ack(subscription, received)
    wanted = {id: n for n, id in enumerate(id for batch in batches for id in batch)}
    assert seen == wanted
    assert again.pull_now(subscription) == []


def test_ten_kills_in_a_row_lose_nothing(own_server, own):
    clients = own()
    topic, subscription = clients.pair()
    wanted = set()
    for round in range(10):
        wanted.update(own().publish(topic, b"round %d" % round))
        own_server.restart("kill")
    received = own().pull_exactly(subscription, 10)
    assert {one.message.message_id for one in received} == wanted
