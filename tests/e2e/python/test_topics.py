"""Topics: create, get, update, list, delete, over gRPC and REST."""

import pytest
from google.protobuf import duration_pb2, field_mask_pb2

from statuses import refused


def update(clients, topic, paths):
    return clients.publisher.update_topic(
        request={"topic": topic, "update_mask": field_mask_pb2.FieldMask(paths=paths)}
    )


def test_a_created_topic_can_be_read_back(clients):
    name = clients.topic_name()
    created = clients.publisher.create_topic(
        request={
            "name": name,
            "labels": {"team": "blue"},
            "message_retention_duration": duration_pb2.Duration(seconds=3600),
        }
    )
    read = clients.publisher.get_topic(request={"topic": name})
    assert created == read
    assert read.name == name
    assert dict(read.labels) == {"team": "blue"}
    assert read.message_retention_duration.total_seconds() == 3600


def test_a_topic_exists_only_once(clients):
    name = clients.topic()
    with refused("ALREADY_EXISTS"):
        clients.publisher.create_topic(request={"name": name})


def test_a_missing_topic_is_not_found(clients):
    name = clients.topic_name()
    for call in (
        lambda: clients.publisher.get_topic(request={"topic": name}),
        lambda: clients.publisher.delete_topic(request={"topic": name}),
        lambda: clients.publish(name, b"x"),
        lambda: list(clients.publisher.list_topic_subscriptions(request={"topic": name})),
        lambda: update(clients, {"name": name, "labels": {"a": "b"}}, ["labels"]),
    ):
        with refused("NOT_FOUND") as raised:
            call()
        assert name in str(raised.value)


def test_an_update_changes_only_what_its_mask_names(clients):
    name = clients.topic(labels={"team": "blue"})
    changed = update(
        clients,
        {
            "name": name,
            "labels": {"team": "red"},
            "message_retention_duration": duration_pb2.Duration(seconds=7200),
        },
        ["message_retention_duration"],
    )
    assert dict(changed.labels) == {"team": "blue"}
    assert changed.message_retention_duration.total_seconds() == 7200
    changed = update(clients, {"name": name, "labels": {"team": "red"}}, ["labels"])
    assert dict(changed.labels) == {"team": "red"}
    assert changed.message_retention_duration.total_seconds() == 7200
    assert clients.publisher.get_topic(request={"topic": name}) == changed


def test_an_update_can_clear_a_field(clients):
    name = clients.topic(
        labels={"team": "blue"}, message_retention_duration=duration_pb2.Duration(seconds=3600)
    )
    changed = update(clients, {"name": name}, ["labels", "message_retention_duration"])
    assert dict(changed.labels) == {}
    assert not changed.message_retention_duration


@pytest.mark.parametrize("paths", [[], ["state"], ["no_such_field"]])
def test_a_bad_update_mask_is_refused(clients, paths):
    name = clients.topic()
    with refused("INVALID_ARGUMENT"):
        update(clients, {"name": name, "labels": {"a": "b"}}, paths)


def test_listing_pages_through_every_topic_of_the_project_once(clients):
    names = {clients.topic() for _ in range(25)}
    pages = list(
        clients.publisher.list_topics(request={"project": clients.project, "page_size": 10}).pages
    )
    assert [len(page.topics) for page in pages] == [10, 10, 5]
    listed = [topic.name for page in pages for topic in page.topics]
    assert len(listed) == 25 and set(listed) == names


def test_another_project_sees_none_of_it(clients):
    clients.topic()
    other = clients.project + "0"
    assert list(clients.publisher.list_topics(request={"project": other})) == []


def test_a_page_token_outlives_the_deletion_of_what_it_points_at(clients):
    names = sorted(clients.topic() for _ in range(6))
    first = next(
        iter(clients.publisher.list_topics(request={"project": clients.project, "page_size": 3}).pages)
    )
    seen = {topic.name for topic in first.topics}
    rest = [name for name in names if name not in seen]
    clients.publisher.delete_topic(request={"topic": sorted(seen)[-1]})
    clients.publisher.delete_topic(request={"topic": rest[0]})
    second = clients.publisher.list_topics(
        request={
            "project": clients.project,
            "page_size": 3,
            "page_token": first.next_page_token,
        }
    )
    assert [topic.name for topic in second] == rest[1:]


@pytest.mark.parametrize("token", ["rubbish", "!!!", "AAAA", "x" * 5000])
def test_a_page_token_we_did_not_give_is_refused(clients, token):
    clients.topic()
    with refused("INVALID_ARGUMENT") as raised:
        list(
            clients.publisher.list_topics(
                request={"project": clients.project, "page_token": token}
            )
        )
    assert "page_token" in str(raised.value) or "pageToken" in str(raised.value)


def test_a_topic_lists_its_own_subscriptions_in_pages(clients):
    topic, other = clients.topic(), clients.topic()
    mine = {clients.subscription(topic) for _ in range(5)}
    clients.subscription(other)
    pages = list(
        clients.publisher.list_topic_subscriptions(request={"topic": topic, "page_size": 2}).pages
    )
    assert [len(page.subscriptions) for page in pages] == [2, 2, 1]
    assert {name for page in pages for name in page.subscriptions} == mine


def test_a_deleted_topic_leaves_its_subscriptions_and_their_backlog(clients):
    topic, subscription = clients.pair()
    clients.publish(topic, b"before")
    clients.publisher.delete_topic(request={"topic": topic})
    with refused("NOT_FOUND"):
        clients.publish(topic, b"after")
    shown = clients.subscriber.get_subscription(request={"subscription": subscription})
    assert shown.topic == "_deleted-topic_"
    # A new topic of the same name is another topic.
    clients.publisher.create_topic(request={"name": topic})
    clients.publish(topic, b"unrelated")
    shown = clients.subscriber.get_subscription(request={"subscription": subscription})
    assert shown.topic == "_deleted-topic_"
    assert list(clients.publisher.list_topic_subscriptions(request={"topic": topic})) == []
    received = clients.pull_exactly(subscription, 1)
    assert received[0].message.data == b"before"
    clients.ack(subscription, received)
    assert clients.pull_now(subscription) == []


def test_ids_grow_over_the_deletion_of_a_topic(clients):
    topic = clients.topic()
    before = int(clients.publish(topic, b"a", b"b")[-1])
    clients.publisher.delete_topic(request={"topic": topic})
    clients.publisher.create_topic(request={"name": topic})
    assert int(clients.publish(topic, b"c")[0]) > before
