"""Google's limits and name rules, each with its status code, over gRPC and REST."""

import pytest
from google.protobuf import duration_pb2

from statuses import refused

DAY = 24 * 3600
MEGABYTE = 1_000_000

BAD_IDS = [
    "ab",
    "a" * 256,
    "1abc",
    "-abc",
    "_abc",
    "goog-topic",
    "with space",
    "with/slash",
    "ümlaut",
    "a*bc",
]
GOOD_IDS = ["abc", "a" * 255, "Abc-_.~+%25", "agoog"]


def seconds(count):
    return duration_pb2.Duration(seconds=count)


@pytest.mark.parametrize("id", BAD_IDS)
def test_a_bad_topic_id_is_refused(grpc_clients, id):
    with refused("INVALID_ARGUMENT"):
        grpc_clients.publisher.create_topic(
            request={"name": f"{grpc_clients.project}/topics/{id}"}
        )


@pytest.mark.parametrize("id", BAD_IDS)
def test_a_bad_subscription_id_is_refused(grpc_clients, id):
    topic = grpc_clients.topic()
    with refused("INVALID_ARGUMENT"):
        grpc_clients.subscriber.create_subscription(
            request={"name": f"{grpc_clients.project}/subscriptions/{id}", "topic": topic}
        )


@pytest.mark.parametrize("id", GOOD_IDS)
def test_a_good_id_is_accepted(grpc_clients, id):
    topic = f"{grpc_clients.project}/topics/{id}"
    name = f"{grpc_clients.project}/subscriptions/{id}"
    assert grpc_clients.publisher.create_topic(request={"name": topic}).name == topic
    made = grpc_clients.subscriber.create_subscription(request={"name": name, "topic": topic})
    assert made.name == name


@pytest.mark.parametrize(
    "name", ["", "topic", "projects/p", "projects//topics/abc", "topics/abc", "projects/p/topic/abc"]
)
def test_a_name_of_the_wrong_shape_is_refused(grpc_clients, name):
    with refused("INVALID_ARGUMENT"):
        grpc_clients.publisher.create_topic(request={"name": name})
    with refused("INVALID_ARGUMENT"):
        grpc_clients.publisher.get_topic(request={"topic": name})


MESSAGES = {
    "neither data nor attributes": {},
    "an empty attribute key": {"data": b"x", "attributes": {"": "v"}},
    "an attribute key of 257 bytes": {"data": b"x", "attributes": {"k" * 257: "v"}},
    "an attribute value of 1025 bytes": {"data": b"x", "attributes": {"k": "v" * 1025}},
    "a reserved attribute key": {"data": b"x", "attributes": {"googclient": "v"}},
    "101 attributes": {"data": b"x", "attributes": {f"k{n}": "v" for n in range(101)}},
    "an ordering key of 1025 bytes": {"data": b"x", "ordering_key": "k" * 1025},
}


@pytest.mark.parametrize("what", MESSAGES)
def test_a_message_beyond_the_limits_is_refused(clients, what):
    topic, subscription = clients.pair()
    with refused("INVALID_ARGUMENT") as raised:
        clients.publisher.publish(
            request={"topic": topic, "messages": [{"data": b"good"}, MESSAGES[what]]}
        )
    assert "messages[1]" in str(raised.value)
    # The good one of the same request was not published either.
    assert clients.pull_now(subscription) == []


def test_a_message_at_the_limits_is_accepted(clients):
    topic, subscription = clients.pair()
    message = {
        "data": b"",
        "attributes": {f"{n:03}".ljust(256, "k"): "v" * 1024 for n in range(100)},
        "ordering_key": "o" * 1024,
    }
    clients.publisher.publish(request={"topic": topic, "messages": [message]})
    received = clients.pull_exactly(subscription, 1)[0].message
    assert dict(received.attributes) == message["attributes"]
    assert received.ordering_key == message["ordering_key"]


def test_no_messages_are_refused(clients):
    topic = clients.topic()
    with refused("INVALID_ARGUMENT"):
        clients.publisher.publish(request={"topic": topic, "messages": []})


def test_1001_messages_are_refused_and_1000_accepted(clients):
    topic = clients.topic()
    with refused("INVALID_ARGUMENT"):
        clients.publish(topic, *[b"x"] * 1001)
    assert len(clients.publish(topic, *[b"x"] * 1000)) == 1000


def test_a_message_of_almost_ten_megabytes_passes(clients):
    topic, subscription = clients.pair()
    data = bytes(range(256)) * (9 * MEGABYTE // 256)
    clients.publish(topic, data)
    assert clients.pull_exactly(subscription, 1)[0].message.data == data


def test_a_message_above_ten_megabytes_is_refused(grpc_clients):
    topic, subscription = grpc_clients.pair()
    for size in (11 * MEGABYTE, 30 * MEGABYTE):
        with refused("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"):
            grpc_clients.publish(topic, b"x" * size)
    grpc_clients.publish(topic, b"still here")
    assert grpc_clients.pull_exactly(subscription, 1)[0].message.data == b"still here"


SUBSCRIPTIONS = {
    "an ack deadline of 9 s": {"ack_deadline_seconds": 9},
    "an ack deadline of 601 s": {"ack_deadline_seconds": 601},
    "a negative ack deadline": {"ack_deadline_seconds": -1},
    "a retention below ten minutes": {"message_retention_duration": seconds(599)},
    "a retention above 31 days": {"message_retention_duration": seconds(31 * DAY + 1)},
    "an expiration below a day": {"expiration_policy": {"ttl": seconds(DAY - 1)}},
    "65 labels": {"labels": {f"k{n}": "v" for n in range(65)}},
    "a label key in capitals": {"labels": {"Team": "blue"}},
    "a label value in capitals": {"labels": {"team": "Blue"}},
    "a label key of 64 characters": {"labels": {"k" * 64: "v"}},
    "a label value of 64 characters": {"labels": {"k": "v" * 64}},
    "an empty label key": {"labels": {"": "v"}},
    "a label key that starts with a digit": {"labels": {"1k": "v"}},
}


@pytest.mark.parametrize("what", SUBSCRIPTIONS)
def test_a_subscription_beyond_the_limits_is_refused(clients, what):
    topic = clients.topic()
    with refused("INVALID_ARGUMENT"):
        clients.subscription(topic, **SUBSCRIPTIONS[what])
    assert list(clients.publisher.list_topic_subscriptions(request={"topic": topic})) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"ack_deadline_seconds": 10},
        {"ack_deadline_seconds": 600},
        {"message_retention_duration": seconds(600)},
        {"message_retention_duration": seconds(7 * DAY)},
        {"labels": {f"k{n}": "" for n in range(64)}},
        {"labels": {"k" * 63: "v" * 63, "a-b_c1": "1-b_c"}},
    ],
    ids=str,
)
def test_a_subscription_at_the_limits_is_accepted(clients, fields):
    topic = clients.topic()
    clients.subscription(topic, **fields)


@pytest.mark.parametrize("retention", [599, 31 * DAY + 1])
def test_a_topic_retention_beyond_the_limits_is_refused(clients, retention):
    with refused("INVALID_ARGUMENT"):
        clients.topic(message_retention_duration=seconds(retention))


@pytest.mark.parametrize("retention", [600, 31 * DAY])
def test_a_topic_retention_at_the_limits_is_accepted(clients, retention):
    clients.topic(message_retention_duration=seconds(retention))


@pytest.mark.parametrize("count", [0, -1])
def test_a_pull_of_nothing_is_refused(clients, count):
    _, subscription = clients.pair()
    with refused("INVALID_ARGUMENT"):
        clients.pull(subscription, count)


def test_a_pull_of_more_than_a_thousand_is_capped(clients):
    topic, subscription = clients.pair()
    for _ in range(2):
        clients.publish(topic, *[b"x"] * 800)
    assert 0 < len(clients.pull(subscription, 100_000)) <= 1000


@pytest.mark.parametrize("deadline", [-1, 601])
def test_a_deadline_beyond_the_limits_is_refused(clients, deadline):
    topic, subscription = clients.pair()
    clients.publish(topic, b"x")
    received = clients.pull_exactly(subscription, 1)
    with refused("INVALID_ARGUMENT"):
        clients.modify(subscription, received, deadline)


@pytest.mark.parametrize("ack_ids", [[], [""], ["rubbish"], ["x" * 2000]], ids=lambda ids: str(ids)[:12])
def test_an_ack_id_we_did_not_give_is_refused(clients, ack_ids):
    _, subscription = clients.pair()
    with refused("INVALID_ARGUMENT"):
        clients.subscriber.acknowledge(
            request={"subscription": subscription, "ack_ids": ack_ids}
        )


def test_an_ack_id_of_another_subscription_is_refused_and_settles_nothing(clients):
    topic, mine = clients.pair()
    other = clients.subscription(topic)
    clients.publish(topic, b"x")
    received = clients.pull_exactly(mine, 1)
    with refused("INVALID_ARGUMENT"):
        clients.ack(other, received)
    assert len(clients.pull_exactly(other, 1)) == 1
