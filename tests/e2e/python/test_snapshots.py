"""Snapshots: made, shown, changed, listed, deleted, expired, and gone back to."""

import datetime

import pytest
from google.protobuf import field_mask_pb2

from statuses import refused
from waiting import data, until

DAY = datetime.timedelta(days=1)
HOUR = datetime.timedelta(hours=1)


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def snapshot(clients, subscription, **fields):
    name = clients.snapshot_name()
    clients.subscriber.create_snapshot(
        request={"name": name, "subscription": subscription, **fields}
    )
    return name


def get(clients, name):
    return clients.subscriber.get_snapshot(request={"snapshot": name})


def update(clients, name, paths, **fields):
    return clients.subscriber.update_snapshot(
        request={
            "snapshot": {"name": name, **fields},
            "update_mask": field_mask_pb2.FieldMask(paths=paths),
        }
    )


def test_a_snapshot_is_made_shown_and_deleted(clients):
    topic, subscription = clients.pair()
    name = clients.snapshot_name()
    made = clients.subscriber.create_snapshot(
        request={"name": name, "subscription": subscription, "labels": {"team": "blue"}}
    )
    assert (made.name, made.topic, dict(made.labels)) == (name, topic, {"team": "blue"})
    assert abs(made.expire_time - (now() + 7 * DAY)) < datetime.timedelta(minutes=1)
    assert get(clients, name) == made
    with refused("ALREADY_EXISTS"):
        clients.subscriber.create_snapshot(request={"name": name, "subscription": subscription})
    clients.subscriber.delete_snapshot(request={"snapshot": name})
    for call in (
        lambda: get(clients, name),
        lambda: clients.subscriber.delete_snapshot(request={"snapshot": name}),
        lambda: update(clients, name, ["labels"]),
        lambda: clients.seek(subscription, snapshot=name),
    ):
        with refused("NOT_FOUND") as raised:
            call()
        assert name in str(raised.value)


def test_what_was_unacked_then_comes_again(clients):
    topic, subscription = clients.pair()
    clients.publish(topic, *[b"%d" % n for n in range(6)])
    received = {one.message.data: one for one in clients.pull_exactly(subscription, 6)}
    clients.ack(subscription, [received[b"0"], received[b"2"]])
    name = snapshot(clients, subscription)
    clients.ack(subscription, [received[b"%d" % n] for n in (1, 3, 4, 5)])
    clients.publish(topic, b"later")
    clients.ack(subscription, clients.pull_exactly(subscription, 1))
    assert clients.pull_now(subscription) == []
    for _ in range(2):
        clients.seek(subscription, snapshot=name)
        again = clients.pull_exactly(subscription, 5)
        assert set(data(again)) == {b"1", b"3", b"4", b"5", b"later"}
        clients.ack(subscription, again)
        assert clients.pull_now(subscription) == []


def test_another_subscription_of_the_topic_can_go_there_too(clients):
    topic, subscription = clients.pair()
    clients.publish(topic, b"1", b"2")
    clients.ack(subscription, [clients.pull_exactly(subscription, 2)[0]])
    name = snapshot(clients, subscription)
    other = clients.subscription(topic)
    clients.seek(other, snapshot=name)
    assert len(clients.pull_exactly(other, 1)) == 1
    assert clients.pull_now(other) == []


def test_a_snapshot_of_another_topic_is_refused(clients):
    _, subscription = clients.pair()
    topic, other = clients.pair()
    name = snapshot(clients, subscription)
    with refused("INVALID_ARGUMENT") as raised:
        clients.seek(other, snapshot=name)
    assert topic in str(raised.value)
    # A new topic of the same name is another topic.
    old_topic = clients.get(subscription).topic
    clients.publisher.delete_topic(request={"topic": old_topic})
    clients.publisher.create_topic(request={"name": old_topic})
    again = clients.subscription(old_topic)
    with refused("INVALID_ARGUMENT"):
        clients.seek(again, snapshot=name)
    assert get(clients, name).topic == "_deleted-topic_"


def test_labels_and_expiry_can_be_changed_and_nothing_else(clients):
    _, subscription = clients.pair()
    name = snapshot(clients, subscription, labels={"team": "blue"})
    before = get(clients, name)
    changed = update(clients, name, ["labels"], labels={"team": "red"})
    assert dict(changed.labels) == {"team": "red"}
    assert changed.expire_time == before.expire_time
    changed = update(clients, name, ["expire_time"], expire_time=now() + DAY)
    assert abs(changed.expire_time - (now() + DAY)) < datetime.timedelta(minutes=1)
    assert dict(changed.labels) == {"team": "red"}
    assert get(clients, name) == changed
    for paths, fields in (
        ([], {}),
        (["name"], {}),
        (["topic"], {"topic": "projects/p/topics/other"}),
        (["no_such_field"], {}),
        (["expire_time"], {"expire_time": now() - DAY}),
        (["expire_time"], {"expire_time": now() + 8 * DAY}),
        (["labels"], {"labels": {"Bad Label": "x"}}),
    ):
        with refused("INVALID_ARGUMENT"):
            update(clients, name, paths, **fields)
    assert get(clients, name) == changed


def test_snapshots_are_listed_in_pages_by_project_and_by_topic(clients):
    topic, subscription = clients.pair()
    _, other = clients.pair()
    mine = {snapshot(clients, subscription) for _ in range(5)}
    theirs = snapshot(clients, other)
    pages = list(
        clients.subscriber.list_snapshots(
            request={"project": clients.project, "page_size": 4}
        ).pages
    )
    assert [len(page.snapshots) for page in pages] == [4, 2]
    assert {one.name for page in pages for one in page.snapshots} == mine | {theirs}
    pages = list(
        clients.publisher.list_topic_snapshots(request={"topic": topic, "page_size": 3}).pages
    )
    assert [len(page.snapshots) for page in pages] == [3, 2]
    assert {name for page in pages for name in page.snapshots} == mine
    with refused("INVALID_ARGUMENT"):
        list(
            clients.subscriber.list_snapshots(
                request={"project": clients.project, "page_token": "rubbish"}
            )
        )
    with refused("NOT_FOUND"):
        list(clients.publisher.list_topic_snapshots(request={"topic": clients.topic_name()}))


def test_a_snapshot_ends_at_its_time(grpc_clients):
    clients = grpc_clients
    _, subscription = clients.pair()
    name, kept = snapshot(clients, subscription), snapshot(clients, subscription)
    update(clients, name, ["expire_time"], expire_time=now() + datetime.timedelta(seconds=1))
    assert get(clients, name).name == name

    def listed():
        found = clients.subscriber.list_snapshots(request={"project": clients.project})
        return [one.name for one in found]

    until(lambda: listed() == [kept], seconds=10)
    with refused("NOT_FOUND"):
        get(clients, name)
    with refused("NOT_FOUND"):
        clients.seek(subscription, snapshot=name)


def test_bad_snapshots_are_refused(clients):
    _, subscription = clients.pair()
    name = clients.snapshot_name()
    with refused("NOT_FOUND"):
        clients.subscriber.create_snapshot(
            request={"name": name, "subscription": clients.subscription_name()}
        )
    for fields in (
        {"name": f"{clients.project}/snapshots/goog-x", "subscription": subscription},
        {"name": name, "subscription": "rubbish"},
        {"name": name, "subscription": subscription, "labels": {"Bad Label": "x"}},
    ):
        with refused("INVALID_ARGUMENT"):
            clients.subscriber.create_snapshot(request=fields)
    with refused("NOT_FOUND"):
        get(clients, name)


def test_a_snapshot_survives_crashes_and_the_end_of_its_subscription(own_server, connect):
    clients = connect()
    topic, subscription = clients.pair()
    clients.publish(topic, *[b"%d" % n for n in range(20)])
    received = clients.pull_exactly(subscription, 20)
    clients.ack(subscription, [one for one in received if int(one.message.data) < 10])
    name = snapshot(clients, subscription, labels={"team": "blue"})
    clients.ack(subscription, [one for one in received if int(one.message.data) >= 10])
    clients.subscriber.delete_subscription(request={"subscription": subscription})
    own_server.restart("kill")
    clients = connect()
    assert dict(get(clients, name).labels) == {"team": "blue"}
    other = clients.subscription(topic)
    clients.seek(other, snapshot=name)
    own_server.restart("kill")
    clients = connect()
    again = clients.pull_exactly(other, 10)
    assert sorted(int(one.message.data) for one in again) == list(range(10, 20))


def test_a_snapshot_keeps_its_messages_on_disk(own_server, connect):
    """More than the write-ahead log holds, all acked: what the snapshot needs is moved, not lost."""
    clients = connect()
    topic, subscription = clients.pair()
    clients.publish(topic, *[b"kept %d" % n for n in range(10)])
    name = snapshot(clients, subscription)
    clients.ack(subscription, clients.pull_exactly(subscription, 10))
    block = b"x" * 200_000
    for _ in range(10):
        clients.publish(topic, *[block] * 20)
        clients.ack(subscription, clients.pull_exactly(subscription, 20))
    own_server.restart("kill")
    clients = connect()
    clients.seek(subscription, snapshot=name)
    found = set()
    while len(found) < 10:
        received = clients.pull(subscription, 100)
        found |= {one for one in data(received) if one.startswith(b"kept")}
        clients.ack(subscription, received)
    assert found == {b"kept %d" % n for n in range(10)}
