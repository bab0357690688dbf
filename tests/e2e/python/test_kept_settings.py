"""Settings that mean something at Google only: kept, shown and warned of, over gRPC and REST."""

import pytest
from google.protobuf import field_mask_pb2

from statuses import refused

KEY = "projects/p/locations/l/keyRings/r/cryptoKeys/k"
REGIONS = {"allowed_persistence_regions": ["europe-west1", "us-east1"], "enforce_in_transit": True}
TAGS = {"123456/environment": "test"}


def update(clients, topic, *paths):
    return clients.publisher.update_topic(
        request={"topic": topic, "update_mask": field_mask_pb2.FieldMask(paths=paths)}
    )


def test_a_topic_keeps_its_key_and_its_regions(clients):
    name = clients.topic(kms_key_name=KEY, message_storage_policy=REGIONS, tags=TAGS)
    shown = clients.publisher.get_topic(request={"topic": name})
    assert shown.kms_key_name == KEY
    assert list(shown.message_storage_policy.allowed_persistence_regions) == [
        "europe-west1",
        "us-east1",
    ]
    assert shown.message_storage_policy.enforce_in_transit
    assert not shown.tags, "tags are input only"
    assert not shown.satisfies_pzs


def test_they_can_be_changed_and_tags_cannot(clients):
    name = clients.topic(kms_key_name=KEY, message_storage_policy=REGIONS, tags=TAGS)
    changed = update(clients, {"name": name, "kms_key_name": KEY + "2"}, "kms_key_name")
    assert changed.kms_key_name == KEY + "2"
    changed = update(clients, {"name": name}, "kms_key_name", "message_storage_policy")
    assert not changed.kms_key_name
    assert not changed.message_storage_policy.allowed_persistence_regions
    with refused("INVALID_ARGUMENT") as raised:
        update(clients, {"name": name, "tags": {"1/a": "b"}}, "tags")
    assert "tags" in str(raised.value)


@pytest.mark.parametrize(
    "fields, named",
    [
        ({"kms_key_name": "k"}, ("kms_key_name", "kmsKeyName")),
        (
            {"message_storage_policy": {"allowed_persistence_regions": ["Mars"]}},
            ("allowed_persistence_regions", "allowedPersistenceRegions"),
        ),
        ({"tags": {"environment": "test"}}, ("tags", "tags")),
    ],
    ids=str,
)
def test_bad_ones_are_refused_by_name(clients, fields, named):
    name = clients.topic_name()
    with refused("INVALID_ARGUMENT") as raised:
        clients.publisher.create_topic(request={"name": name, **fields})
    assert any(one in str(raised.value) for one in named), raised.value
    with refused("NOT_FOUND"):
        clients.publisher.get_topic(request={"topic": name})


def test_tags_of_subscriptions_and_snapshots_are_accepted_and_not_shown(clients):
    topic = clients.topic()
    subscription = clients.subscription(topic, tags=TAGS)
    assert not clients.get(subscription).tags
    snapshot = clients.snapshot_name()
    clients.subscriber.create_snapshot(
        request={"name": snapshot, "subscription": subscription, "tags": TAGS}
    )
    with refused("INVALID_ARGUMENT"):
        clients.subscriber.create_snapshot(
            request={"name": snapshot + "-b", "subscription": subscription, "tags": {"a": "b"}}
        )


def test_warnings_come_with_the_answer(rest, project):
    topic, subscription = f"{project}/topics/keyed", f"{project}/subscriptions/tagged"
    regions = {"allowedPersistenceRegions": ["europe-west1"]}
    body = {"kmsKeyName": KEY, "messageStoragePolicy": regions, "tags": TAGS}
    made = rest.ok("PUT", f"/v1/{topic}", body)
    assert len(made["warnings"]) == 3, made
    assert "warnings" not in rest.ok("GET", f"/v1/{topic}")
    # What was answered can be sent back.
    patch = {"topic": {**made, "labels": {"a": "b"}}, "updateMask": "labels,kmsKeyName"}
    changed = rest.ok("PATCH", f"/v1/{topic}", patch)
    assert changed["labels"] == {"a": "b"} and "warnings" not in changed, changed
    made = rest.ok("PUT", f"/v1/{subscription}", {"topic": topic, "tags": TAGS})
    assert len(made["warnings"]) == 1, made
    body = {"subscription": subscription, "tags": TAGS}
    made = rest.ok("PUT", f"/v1/{project}/snapshots/tagged", body)
    assert len(made["warnings"]) == 1, made
