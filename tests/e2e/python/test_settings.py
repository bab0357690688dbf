"""Settings of a subscription: refused by name when they are wrong, warned about when they are
risky, and what is not Google's over labels and the REST resource's postrider object."""

import pytest
from google.protobuf import duration_pb2, field_mask_pb2
from google.pubsub_v1.types import Subscription

from clients import Clients
from statuses import refused

DEAD = "projects/p/topics/dead"


def seconds(count):
    return duration_pb2.Duration(seconds=count)


def dead(topic=DEAD, attempts=0):
    return {
        "dead_letter_policy": {"dead_letter_topic": topic, "max_delivery_attempts": attempts}
    }


def retry(**bounds):
    return {"retry_policy": {bound: seconds(count) for bound, count in bounds.items()}}


WRONG = {
    "filter": ({"filter": "attributes.kind = 5"}, "filter: at 19: "),
    "filter of two kinds": (
        {"filter": "attributes:a AND attributes:b OR attributes:c"},
        "filter: at ",
    ),
    "long filter": ({"filter": "attributes:" + "a" * 250}, "filter: "),
    "backoff too long": (retry(minimum_backoff=601), "inimum"),
    "longest backoff too long": (retry(maximum_backoff=601), "aximum"),
    "negative backoff": (retry(minimum_backoff=-1), "inimum"),
    "bounds in the wrong order": (retry(minimum_backoff=6, maximum_backoff=5), "is longer"),
    "no dead letter topic": (dead(topic=""), "etter"),
    "dead letter topic by its id": (dead(topic="dead"), "projects/{project}/topics/{topic}"),
    "subscription as dead letter topic": (dead(topic="projects/p/subscriptions/dead"), "etter"),
    "too few attempts": (dead(attempts=4), "4, 5 to 100 are allowed"),
    "too many attempts": (dead(attempts=101), "101, 5 to 100 are allowed"),
    "negative attempts": (dead(attempts=-1), "-1, 5 to 100 are allowed"),
    "attempts that disagree": (
        {**dead(attempts=7), "labels": {"postrider-max-attempts": "8"}},
        "maxAttempts is 8",
    ),
    "unknown reserved label": ({"labels": {"postrider-fifa": "true"}}, "postrider-fifa"),
    "label that is no switch": ({"labels": {"postrider-fifo": "yes"}}, "postrider-fifo"),
    "label out of range": ({"labels": {"postrider-max-attempts": "0"}}, "postrider-max-attempts"),
    "halt without lanes": (
        {"labels": {"postrider-poison": "halt", "postrider-max-attempts": "5"}},
        "halt needs lanes",
    ),
    "halt without an end": (
        {"labels": {"postrider-poison": "halt"}, "enable_message_ordering": True},
        "halt needs a limit on attempts",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_setting_is_refused_and_nothing_is_made(clients, what):
    fields, words = WRONG[what]
    topic = clients.topic()
    with refused("INVALID_ARGUMENT") as raised:
        clients.subscription(topic, **fields)
    assert words in str(raised.value)
    assert list(clients.publisher.list_topic_subscriptions(request={"topic": topic})) == []


def test_attempts_of_a_dead_letter_policy_need_its_topic(clients):
    _, name = clients.pair()
    with refused("INVALID_ARGUMENT") as raised:
        clients.subscriber.update_subscription(
            request={
                "subscription": {"name": name, **dead(topic="", attempts=7)},
                "update_mask": field_mask_pb2.FieldMask(
                    paths=["dead_letter_policy.max_delivery_attempts"]
                ),
            }
        )
    assert "needs a dead letter topic" in str(raised.value)


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"postrider": {"fifo": "yes"}}, "postrider.fifo"),
        ({"postrider": {"laneBy": "kind", "fifo": True}}, "postrider.laneBy"),
        ({"postrider": {"laneBy": "kind"}, "enableMessageOrdering": True}, "postrider.laneBy"),
        ({"postrider": {"laneBy": "k" * 257}}, "postrider.laneBy"),
        ({"postrider": {"poison": "stop"}}, "postrider.poison"),
        ({"postrider": {"maxAttempts": 101}}, "postrider.maxAttempts"),
        ({"postrider": {"fifa": True}}, "postrider.fifa"),
        ({"fifo_mode": True, "postrider": {"fifo": False}}, "fifoMode"),
        ({"is_enabled": True, "postrider": {"paused": True}}, "isEnabled"),
        ({"labels": {"postrider-paused": "true"}, "is_enabled": True}, "postrider-paused"),
    ],
    ids=str,
)
def test_a_wrong_postrider_object_is_refused(rest, project, fields, words):
    topic = f"{project}/topics/orders"
    rest.topic(topic)
    answer = rest.put(f"/v1/{project}/subscriptions/billing", {"topic": topic, **fields})
    assert (answer.code, answer.status) == (400, "INVALID_ARGUMENT"), answer
    assert words in answer.message


def test_settings_by_label_and_object_are_one(rest, grpc_clients):
    topic = grpc_clients.topic()
    name = grpc_clients.subscription(
        topic, labels={"postrider-fifo": "true", "postrider-max-attempts": "7", "team": "blue"}
    )
    shown = rest.ok("GET", f"/v1/{name}")
    assert shown["fifo_mode"] is True
    assert shown["postrider"] == {
        "start": "latest",
        "fifo": True,
        "paused": False,
        "poison": "skip",
        "maxAttempts": 7,
    }
    # The object takes the labels along: they never say another thing.
    changed = rest.ok(
        "PATCH",
        f"/v1/{name}",
        {"subscription": {"fifo_mode": False}, "updateMask": "fifoMode,postrider.maxAttempts"},
    )
    assert changed["postrider"]["fifo"] is False
    assert changed["labels"] == {"postrider-fifo": "false", "team": "blue"}


def test_a_grpc_update_clears_nothing_of_ours(rest, grpc_clients):
    topic = grpc_clients.topic()
    name = grpc_clients.subscription_name()
    ours = {"laneBy": "kind", "description": "kept", "metadata": {"owner": "Ann"}, "paused": True}
    rest.subscription(name, topic, postrider=ours)
    grpc_clients.subscriber.update_subscription(
        request={
            "subscription": {"name": name, "labels": {"team": "red"}},
            "update_mask": field_mask_pb2.FieldMask(paths=["labels"]),
        }
    )
    with refused("INVALID_ARGUMENT"):
        grpc_clients.subscriber.update_subscription(
            request={
                "subscription": {"name": name},
                "update_mask": field_mask_pb2.FieldMask(paths=["postrider.description"]),
            }
        )
    shown = rest.ok("GET", f"/v1/{name}")
    assert shown["labels"] == {"team": "red"}
    assert shown["postrider"].items() >= ours.items()


def test_a_risky_setting_is_warned_about(rest, grpc_clients):
    topic = grpc_clients.topic()
    made = rest.subscription(grpc_clients.subscription_name(), topic, fifoMode=True)
    assert len(made["warnings"]) == 1 and "throughput" in made["warnings"][0]
    assert "warnings" not in rest.ok("GET", f"/v1/{made['name']}")

    call = grpc_clients.channel.unary_unary(
        "/google.pubsub.v1.Subscriber/CreateSubscription",
        request_serializer=Subscription.serialize,
        response_deserializer=Subscription.deserialize,
    )
    wanted = Subscription(
        name=grpc_clients.subscription_name(),
        topic=topic,
        labels={"postrider-fifo": "true"},
        **dead(topic=topic),
    )
    _, made = call.with_call(wanted)
    warnings = [value for key, value in made.trailing_metadata() if key == "postrider-warning"]
    assert len(warnings) == 2, warnings
    assert "throughput" in warnings[0] and "own topic" in warnings[1]
    assert "postrider-warning" not in dict(made.initial_metadata())


def test_every_setting_survives_a_restart(own_server):
    clients = Clients(own_server, "grpc")
    try:
        topic = clients.topic()
        name = clients.subscription(
            topic,
            enable_message_ordering=True,
            filter="attributes:kind",
            enable_exactly_once_delivery=True,
            labels={"postrider-poison": "halt", "postrider-paused": "true"},
            **retry(minimum_backoff=1, maximum_backoff=2),
            **dead(topic=topic, attempts=9),
        )
        before = clients.subscriber.get_subscription(request={"subscription": name})
        own_server.kill()
        own_server.start()
        assert clients.subscriber.get_subscription(request={"subscription": name}) == before
        assert before.retry_policy.maximum_backoff.total_seconds() == 2
    finally:
        clients.close()
