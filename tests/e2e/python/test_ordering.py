"""Ordering keys: lanes by key, redelivery in order, independence of keys."""

import collections

import pytest
from google.cloud import pubsub_v1

from statuses import refused
from streams import opened
from waiting import data, until


def keyed(key, *datas):
    return [{"data": one, "ordering_key": key} for one in datas]


@pytest.fixture
def ordered(grpc_clients):
    topic = grpc_clients.topic()
    return grpc_clients, topic, grpc_clients.subscription(topic, enable_message_ordering=True)


def by_key(received):
    sorted_out = collections.defaultdict(list)
    for one in received:
        sorted_out[one.message.ordering_key].append(one.message.data)
    return sorted_out


def test_each_key_comes_in_its_order(clients):
    topic = clients.topic()
    subscription = clients.subscription(topic, enable_message_ordering=True)
    assert clients.get(subscription).enable_message_ordering
    wanted = collections.defaultdict(list)
    for n in range(60):
        key, one = f"key-{n % 5}", b"%d" % n
        clients.publish_messages(topic, *keyed(key, one))
        wanted[key].append(one)
    got = collections.defaultdict(list)
    for _ in range(100):
        received = clients.pull(subscription, 7)
        for key, datas in by_key(received).items():
            got[key] += datas
        clients.ack(subscription, received)
        if sum(map(len, got.values())) >= 60:
            break
    assert got == wanted


def test_a_stream_is_sent_a_key_in_order_ahead_of_its_acks(ordered):
    clients, topic, subscription = ordered
    wanted = [b"%d" % n for n in range(50)]
    clients.publish_messages(topic, *keyed("k", *wanted))
    with opened(clients, subscription) as stream:
        assert data(stream.take(50)) == wanted


def test_messages_without_a_key_and_other_keys_go_freely(ordered):
    clients, topic, subscription = ordered
    clients.publish_messages(topic, *keyed("held", b"1", b"2"))
    held = clients.pull_exactly(subscription, 2)
    assert data(held) == [b"1", b"2"]
    clients.publish_messages(topic, *keyed("held", b"3"), *keyed("free", b"4"), {"data": b"5"})
    others = clients.pull_exactly(subscription, 2)
    assert set(data(others)) == {b"4", b"5"}
    assert clients.pull_now(subscription) == [], "the key is held by the first pull"
    clients.ack(subscription, held)
    assert data(clients.pull_exactly(subscription, 1)) == [b"3"]


def test_a_key_belongs_to_the_consumer_that_holds_it(ordered):
    clients, topic, subscription = ordered
    with opened(clients, subscription) as one, opened(clients, subscription) as two:
        clients.publish_messages(topic, *keyed("k", b"1"))
        first = until(lambda: next((it for it in (one, two) if it.waiting()), None))
        second = two if first is one else one
        clients.publish_messages(topic, *keyed("k", b"2", b"3"))
        held = first.take(3)
        assert data(held) == [b"1", b"2", b"3"]
        assert clients.pull_now(subscription) == []
        assert second.waiting() == 0


def test_a_nack_brings_back_all_later_ones_of_its_key_in_order(ordered):
    """Those already acked behind it included, as Google documents."""
    clients, topic, subscription = ordered
    with opened(clients, subscription) as stream:
        clients.publish_messages(topic, *keyed("k", b"1", b"2", b"3", b"4"), *keyed("o", b"x"))
        received = {one.message.data: one for one in stream.take(5)}
        stream.ack([received[b"1"], received[b"3"], received[b"x"]])
        stream.nack([received[b"2"]])
        again = stream.take(3)
        assert data(again) == [b"2", b"3", b"4"]
        clients.publish_messages(topic, *keyed("k", b"5"))
        assert data(stream.take(1)) == [b"5"]
        stream.ack(again)


def test_an_expired_lease_brings_back_all_later_ones_of_its_key(ordered):
    clients, topic, subscription = ordered
    clients.publish_messages(topic, *keyed("k", b"1", b"2", b"3"))
    received = clients.pull_exactly(subscription, 3)
    clients.ack(subscription, received[2:])
    clients.modify(subscription, received[:1], 1)
    again = clients.pull_exactly(subscription, 3)
    assert data(again) == [b"1", b"2", b"3"]
    # The ids of before are void: the lane came back.
    clients.ack(subscription, received)
    clients.nack(subscription, again)
    assert data(clients.pull_exactly(subscription, 3)) == [b"1", b"2", b"3"]


def test_what_was_acked_in_order_does_not_come_again(ordered):
    clients, topic, subscription = ordered
    clients.publish_messages(topic, *keyed("k", b"1", b"2", b"3", b"4"))
    received = clients.pull_exactly(subscription, 4)
    clients.ack(subscription, received[:2])
    clients.nack(subscription, received[2:3])
    again = clients.pull_exactly(subscription, 2)
    assert data(again) == [b"3", b"4"]
    clients.ack(subscription, again)
    assert clients.pull_now(subscription) == []


def test_a_key_that_fails_holds_no_other_back(ordered):
    clients, topic, subscription = ordered
    with opened(clients, subscription) as stream:
        clients.publish_messages(topic, *keyed("bad", b"bad"))
        for n in range(20):
            stream.nack(stream.take(1))
        failing = stream.take(1)
        clients.publish_messages(topic, *[keyed(f"good-{n}", b"good")[0] for n in range(50)])
        assert {one.message.ordering_key for one in stream.take(50)} == {
            f"good-{n}" for n in range(50)
        }
        stream.ack(failing)


def test_ordering_cannot_be_changed_later(clients):
    _, subscription = clients.pair()
    with refused("INVALID_ARGUMENT") as raised:
        clients.update(
            subscription, ["enable_message_ordering"], enable_message_ordering=True
        )
    assert "ordering" in str(raised.value).lower()


def test_without_the_setting_keys_do_not_matter(grpc_clients):
    topic, subscription = grpc_clients.pair()
    grpc_clients.publish_messages(topic, *keyed("k", b"1", b"2"))
    received = grpc_clients.pull_exactly(subscription, 2)
    grpc_clients.nack(subscription, received[:1])
    assert data(grpc_clients.pull_exactly(subscription, 1)) == data(received[:1])


def test_a_restart_in_the_middle_of_an_ordered_redelivery(own_server, connect):
    clients = connect()
    topic = clients.topic()
    subscription = clients.subscription(topic, enable_message_ordering=True)
    clients.publish_messages(topic, *keyed("k", *[b"%d" % n for n in range(1, 7)]))
    received = clients.pull_exactly(subscription, 6)
    clients.ack(subscription, received[:1])
    # Acked behind what comes back: that ack is provisional and must not outlive the crash.
    clients.ack(subscription, received[3:4])
    clients.nack(subscription, received[1:2])
    again = clients.pull_exactly(subscription, 5)
    assert data(again) == [b"2", b"3", b"4", b"5", b"6"]
    clients.ack(subscription, again[:1])
    # Synced after the acks, so those that count are durable.
    clients.publish_messages(topic, *keyed("k", b"7"))
    own_server.restart("kill")
    clients = connect()
    left = clients.pull_exactly(subscription, 5)
    assert data(left) == [b"3", b"4", b"5", b"6", b"7"]
    clients.ack(subscription, left)
    assert clients.pull_now(subscription) == []


def in_order_at_last(seen):
    """Whether the last deliveries of a key's messages are in order, all of them."""
    last = {n: place for place, n in enumerate(seen)}
    return len(last) == 30 and sorted(last, key=last.get) == sorted(last)


def test_the_high_level_clients_keep_the_order_of_each_key(server, grpc_clients, monkeypatch):
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.address)
    topic = grpc_clients.topic()
    subscription = grpc_clients.subscription(topic, enable_message_ordering=True)
    options = pubsub_v1.types.PublisherOptions(enable_message_ordering=True)
    publisher = pubsub_v1.PublisherClient(publisher_options=options)
    futures = [
        publisher.publish(topic, b"%d" % n, ordering_key=f"key-{n % 3}") for n in range(90)
    ]
    for future in futures:
        future.result(timeout=30)
    seen = collections.defaultdict(list)

    def callback(message):
        number = int(message.data)
        is_new = number not in seen[message.ordering_key]
        seen[message.ordering_key].append(number)
        if is_new and number in (9, 40, 71):
            message.nack()
        else:
            message.ack()

    subscriber = pubsub_v1.SubscriberClient()
    pulling = subscriber.subscribe(subscription, callback)

    def is_done():
        again = [seen[f"key-{n % 3}"].count(n) >= 2 for n in (9, 40, 71)]
        return all(again) and all(map(in_order_at_last, list(seen.values())))

    until(is_done)
    pulling.cancel()
    pulling.result(timeout=30)
    subscriber.close()
    for key, numbers in seen.items():
        first = list(dict.fromkeys(numbers))
        assert first == sorted(first), f"{key}: {numbers}"
