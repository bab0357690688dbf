"""Subscriptions: create, get, update with masks, list, delete, over gRPC and REST."""

import pytest
from google.protobuf import duration_pb2, field_mask_pb2

from statuses import refused

DAY = 24 * 3600


def update(clients, subscription, paths):
    return clients.subscriber.update_subscription(
        request={
            "subscription": subscription,
            "update_mask": field_mask_pb2.FieldMask(paths=paths),
        }
    )


def get(clients, name):
    return clients.subscriber.get_subscription(request={"subscription": name})


def seconds(count):
    return duration_pb2.Duration(seconds=count)


def test_a_new_subscription_shows_google_s_defaults(clients):
    topic, name = clients.pair()
    shown = get(clients, name)
    assert shown.name == name
    assert shown.topic == topic
    assert shown.ack_deadline_seconds == 10
    assert shown.message_retention_duration.total_seconds() == 7 * DAY
    assert shown.expiration_policy.ttl.total_seconds() == 31 * DAY
    assert not shown.retain_acked_messages
    assert not shown.push_config.push_endpoint
    assert not shown.enable_message_ordering
    assert not shown.filter
    assert "retry_policy" not in shown
    assert "dead_letter_policy" not in shown
    assert not shown.enable_exactly_once_delivery
    assert shown.state.name == "ACTIVE"


def test_what_was_asked_for_is_shown(clients):
    topic, dead = clients.topic(), clients.topic()
    name = clients.subscription(
        topic,
        ack_deadline_seconds=42,
        labels={"team": "blue"},
        retain_acked_messages=True,
        message_retention_duration=seconds(3600),
        expiration_policy={"ttl": seconds(2 * DAY)},
        enable_message_ordering=True,
        filter='attributes.kind = "a"',
        retry_policy={"minimum_backoff": seconds(1)},
        dead_letter_policy={"dead_letter_topic": dead},
        enable_exactly_once_delivery=True,
    )
    shown = get(clients, name)
    assert shown.ack_deadline_seconds == 42
    assert dict(shown.labels) == {"team": "blue"}
    assert shown.retain_acked_messages
    assert shown.message_retention_duration.total_seconds() == 3600
    assert shown.expiration_policy.ttl.total_seconds() == 2 * DAY
    assert shown.enable_message_ordering
    assert shown.filter == 'attributes.kind = "a"'
    assert shown.retry_policy.minimum_backoff.total_seconds() == 1
    assert shown.retry_policy.maximum_backoff.total_seconds() == 600
    assert shown.dead_letter_policy.dead_letter_topic == dead
    assert shown.dead_letter_policy.max_delivery_attempts == 5
    assert shown.enable_exactly_once_delivery
    assert not shown.detached


def test_a_subscription_needs_its_topic(clients):
    with refused("NOT_FOUND") as raised:
        clients.subscription(clients.project + "/topics/no-such-topic")
    assert "no-such-topic" in str(raised.value)


def test_a_subscription_exists_only_once(clients):
    topic, name = clients.pair()
    with refused("ALREADY_EXISTS"):
        clients.subscriber.create_subscription(request={"name": name, "topic": topic})


def test_a_missing_subscription_is_not_found(clients):
    name = clients.subscription_name()
    for call in (
        lambda: get(clients, name),
        lambda: clients.subscriber.delete_subscription(request={"subscription": name}),
        lambda: clients.pull_now(name),
        lambda: clients.subscriber.acknowledge(
            request={"subscription": name, "ack_ids": ["unknown"]}
        ),
        lambda: clients.subscriber.modify_ack_deadline(
            request={"subscription": name, "ack_ids": ["unknown"], "ack_deadline_seconds": 10}
        ),
        lambda: update(
            clients, {"name": name, "ack_deadline_seconds": 20}, ["ack_deadline_seconds"]
        ),
    ):
        with refused("NOT_FOUND"):
            call()


def test_an_update_changes_only_what_its_mask_names(clients):
    _, name = clients.pair(ack_deadline_seconds=42, labels={"team": "blue"})
    changed = update(
        clients,
        {"name": name, "ack_deadline_seconds": 60, "labels": {"team": "red"}},
        ["ack_deadline_seconds"],
    )
    assert changed.ack_deadline_seconds == 60
    assert dict(changed.labels) == {"team": "blue"}
    changed = update(
        clients,
        {
            "name": name,
            "labels": {},
            "retain_acked_messages": True,
            "message_retention_duration": seconds(3600),
            "expiration_policy": {},
        },
        ["labels", "retain_acked_messages", "message_retention_duration", "expiration_policy"],
    )
    assert changed.ack_deadline_seconds == 60
    assert dict(changed.labels) == {}
    assert changed.retain_acked_messages
    assert changed.message_retention_duration.total_seconds() == 3600
    # A policy without a ttl never expires.
    assert not changed.expiration_policy.ttl
    assert get(clients, name) == changed


def test_an_update_sets_changes_and_ends_policies(clients):
    dead, name = clients.pair()
    changed = update(
        clients,
        {
            "name": name,
            "retry_policy": {"minimum_backoff": seconds(1), "maximum_backoff": seconds(60)},
            "dead_letter_policy": {
                "dead_letter_topic": dead,
                "max_delivery_attempts": 7,
            },
            "enable_exactly_once_delivery": True,
        },
        ["retry_policy", "dead_letter_policy", "enable_exactly_once_delivery"],
    )
    assert changed.retry_policy.maximum_backoff.total_seconds() == 60
    assert changed.dead_letter_policy.max_delivery_attempts == 7
    assert changed.enable_exactly_once_delivery
    changed = update(
        clients,
        {
            "name": name,
            "retry_policy": {"minimum_backoff": seconds(2)},
            "dead_letter_policy": {"max_delivery_attempts": 9},
        },
        ["retry_policy.minimum_backoff", "dead_letter_policy.max_delivery_attempts"],
    )
    assert changed.retry_policy.minimum_backoff.total_seconds() == 2
    assert changed.retry_policy.maximum_backoff.total_seconds() == 60
    assert changed.dead_letter_policy.dead_letter_topic == dead
    assert changed.dead_letter_policy.max_delivery_attempts == 9
    changed = update(clients, {"name": name}, ["retry_policy", "dead_letter_policy"])
    assert "retry_policy" not in changed
    assert "dead_letter_policy" not in changed
    assert get(clients, name) == changed


@pytest.mark.parametrize(
    "paths",
    [
        [],
        ["topic"],
        ["filter"],
        ["enable_message_ordering"],
        ["detached"],
        ["no_such_field"],
        ["retry_policy.no_such_field"],
        ["postrider.start"],
    ],
    ids=str,
)
def test_a_bad_update_mask_is_refused(clients, paths):
    _, name = clients.pair()
    other = {
        "name": name,
        "topic": f"{clients.project}/topics/other",
        "filter": "attributes:other",
        "enable_message_ordering": True,
        "detached": True,
        "ack_deadline_seconds": 20,
    }
    with refused("INVALID_ARGUMENT"):
        update(clients, other, paths)


def test_a_mask_may_name_what_cannot_change_as_it_is(clients):
    topic = clients.topic()
    name = clients.subscription(topic, filter="attributes:a")
    # kombu names the filter with each update.
    wanted = {"name": name, "filter": "attributes:a", "ack_deadline_seconds": 20}
    changed = update(clients, wanted, ["filter", "ack_deadline_seconds"])
    assert changed.ack_deadline_seconds == 20
    assert changed.filter == "attributes:a"


def test_an_update_keeps_to_the_limits(clients):
    _, name = clients.pair()
    with refused("INVALID_ARGUMENT"):
        update(clients, {"name": name, "ack_deadline_seconds": 601}, ["ack_deadline_seconds"])
    assert get(clients, name).ack_deadline_seconds == 10


def test_listing_pages_through_every_subscription_of_the_project_once(clients):
    topic = clients.topic()
    names = {clients.subscription(topic) for _ in range(7)}
    pages = list(
        clients.subscriber.list_subscriptions(
            request={"project": clients.project, "page_size": 3}
        ).pages
    )
    assert [len(page.subscriptions) for page in pages] == [3, 3, 1]
    listed = [one.name for page in pages for one in page.subscriptions]
    assert len(listed) == 7 and set(listed) == names


@pytest.mark.parametrize("token", ["rubbish", "!!!"])
def test_a_page_token_we_did_not_give_is_refused(clients, token):
    with refused("INVALID_ARGUMENT"):
        list(
            clients.subscriber.list_subscriptions(
                request={"project": clients.project, "page_token": token}
            )
        )


def test_a_negative_page_size_is_refused(clients):
    with refused("INVALID_ARGUMENT"):
        list(
            clients.subscriber.list_subscriptions(
                request={"project": clients.project, "page_size": -1}
            )
        )


def test_a_deleted_subscription_is_gone_and_a_new_one_starts_afresh(clients):
    topic, name = clients.pair()
    clients.publish(topic, b"before")
    clients.subscriber.delete_subscription(request={"subscription": name})
    with refused("NOT_FOUND"):
        get(clients, name)
    clients.subscriber.create_subscription(request={"name": name, "topic": topic})
    clients.publish(topic, b"after")
    received = clients.pull_exactly(name, 1)
    assert received[0].message.data == b"after"
    assert clients.pull_now(name) == []
