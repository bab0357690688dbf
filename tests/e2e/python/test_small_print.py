"""The small print of Google's API: generated names, one key in a publish, lists under change."""

import pytest

from statuses import refused, status_of
from streams import opened


def test_a_subscription_and_a_snapshot_without_a_name_get_one(grpc_clients):
    clients = grpc_clients
    topic = clients.topic()
    made = clients.subscriber.create_subscription(request={"topic": topic})
    other = clients.subscriber.create_subscription(request={"topic": topic})
    assert made.name.startswith(f"{clients.project}/subscriptions/")
    assert made.name != other.name
    assert clients.get(made.name).topic == topic
    snapshot = clients.subscriber.create_snapshot(request={"subscription": made.name})
    assert snapshot.name.startswith(f"{clients.project}/snapshots/")
    assert clients.subscriber.get_snapshot(request={"snapshot": snapshot.name}) == snapshot


def test_all_messages_of_a_publish_have_one_ordering_key(clients):
    topic = clients.topic()
    for keys in (("a", "b"), ("a", ""), ("", "a")):
        messages = [{"data": b"x", "ordering_key": key} for key in keys]
        with refused("FAILED_PRECONDITION") as raised:
            clients.publisher.publish(request={"topic": topic, "messages": messages})
        assert "messages[1].ordering" in str(raised.value)
    messages = [{"data": b"x", "ordering_key": "a"}] * 3
    answer = clients.publisher.publish(request={"topic": topic, "messages": messages})
    assert len(answer.message_ids) == 3


def test_a_dead_letter_topic_must_be_there_when_it_is_named(clients):
    topic, name = clients.pair()
    missing = {"dead_letter_topic": clients.topic_name(), "max_delivery_attempts": 5}
    for call in (
        lambda: clients.subscription(topic, dead_letter_policy=missing),
        lambda: clients.update(name, ["dead_letter_policy"], dead_letter_policy=missing),
    ):
        with refused("NOT_FOUND") as raised:
            call()
        assert missing["dead_letter_topic"] in str(raised.value)
    there = {**missing, "dead_letter_topic": clients.topic()}
    clients.update(name, ["dead_letter_policy"], dead_letter_policy=there)
    # It may be deleted later, and other things can still be changed.
    clients.publisher.delete_topic(request={"topic": there["dead_letter_topic"]})
    clients.update(name, ["ack_deadline_seconds"], ack_deadline_seconds=20)


def test_a_push_config_always_shows_a_version(clients):
    topic = clients.topic()
    push = {"push_endpoint": "http://127.0.0.1:9/"}
    name = clients.subscription(topic, push_config=push)
    assert dict(clients.get(name).push_config.attributes) == {"x-goog-version": "v1"}
    beta = {**push, "attributes": {"x-goog-version": "v1beta2"}}
    clients.subscriber.modify_push_config(request={"subscription": name, "push_config": beta})
    clients.subscriber.modify_push_config(request={"subscription": name, "push_config": push})
    assert clients.get(name).push_config.attributes["x-goog-version"] == "v1beta2"
    with refused("INVALID_ARGUMENT"):
        bad = {**push, "attributes": {"x-goog-version": "v9"}}
        clients.subscription(topic, push_config=bad)


def test_lists_keep_their_order_while_things_come_and_go(clients):
    names = sorted(clients.topic() for _ in range(6))
    first = next(
        clients.publisher.list_topics(
            request={"project": clients.project, "page_size": 2}
        ).pages
    )
    assert [one.name for one in first.topics] == names[:2]
    # The one the page ended with goes, and so does one that comes later; others come.
    clients.publisher.delete_topic(request={"topic": names[1]})
    clients.publisher.delete_topic(request={"topic": names[3]})
    early, late = f"{clients.project}/topics/aaa", f"{clients.project}/topics/zzz"
    for name in (early, late):
        clients.publisher.create_topic(request={"name": name})
    request = {
        "project": clients.project,
        "page_size": 2,
        "page_token": first.next_page_token,
    }
    rest = [one.name for one in clients.publisher.list_topics(request=request)]
    assert rest == [names[2], names[4], names[5], late]
    everything = clients.publisher.list_topics(request={"project": clients.project})
    assert [one.name for one in everything] == [early, names[0], *rest]


@pytest.mark.parametrize(
    "later, is_fine",
    [
        ({"stream_ack_deadline_seconds": 20}, True),
        ({"client_id": "me"}, True),
        ({"client_id": "you"}, False),
        ({"max_outstanding_messages": 5}, False),
        ({"max_outstanding_bytes": 5}, False),
    ],
    ids=str,
)
def test_what_a_stream_is_opened_with_does_not_change(grpc_clients, later, is_fine):
    topic, name = grpc_clients.pair()
    with opened(grpc_clients, name, client_id="me", max_outstanding_messages=10) as stream:
        stream.send(**later)
        if is_fine:
            grpc_clients.publish(topic, b"x")
            assert [one.message.data for one in stream.take(1)] == [b"x"]
        else:
            error = stream.end()
            assert status_of(error) == "INVALID_ARGUMENT"
            assert next(iter(later)) in str(error)
