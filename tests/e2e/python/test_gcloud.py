"""What scripts do with gcloud: each test is one script. Skipped where it is not installed."""

import base64
import json

import pytest

from clients import numbers
from gcloud import GCLOUD, Gcloud

pytestmark = pytest.mark.skipif(GCLOUD is None, reason="gcloud is not installed")

AVRO = {"type": "record", "name": "Order", "fields": [{"name": "n", "type": "long"}]}
WIDER = {
    **AVRO,
    "fields": [*AVRO["fields"], {"name": "note", "type": ["null", "string"], "default": None}],
}


@pytest.fixture
def gcloud(server, tmp_path):
    return Gcloud(server, tmp_path / "gcloud", f"gcloud-{next(numbers)}")


def write(folder, name, content):
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_topics_and_subscriptions(gcloud):
    gcloud.ok("topics", "create", "orders", "--labels=team=blue", "--message-retention-duration=1h")
    [topic] = gcloud.ok("topics", "list")
    assert topic["labels"] == {"team": "blue"}
    gcloud.ok("topics", "create", "letters")
    gcloud.ok(
        "subscriptions", "create", "billing", "--topic=orders", "--enable-message-ordering",
        "--ack-deadline=20", "--dead-letter-topic=letters", "--max-delivery-attempts=7",
        "--min-retry-delay=5s", "--max-retry-delay=60s", "--message-filter=attributes.kind = \"new\"",
    )
    shown = gcloud.ok("subscriptions", "describe", "billing")
    assert shown["ackDeadlineSeconds"] == 20
    assert shown["deadLetterPolicy"]["maxDeliveryAttempts"] == 7
    gcloud.ok("subscriptions", "update", "billing", "--ack-deadline=30", "--clear-retry-policy")
    shown = gcloud.ok("subscriptions", "describe", "billing")
    assert shown["ackDeadlineSeconds"] == 30 and "retryPolicy" not in shown
    gcloud.ok("topics", "publish", "orders", "--message=hello", "--attribute=kind=new")
    [received] = gcloud.ok("subscriptions", "pull", "billing", "--auto-ack")
    assert base64.b64decode(received["message"]["data"]) == b"hello"
    gcloud.ok("snapshots", "create", "before", "--subscription=billing")
    assert len(gcloud.ok("snapshots", "list")) == 1
    gcloud.ok("subscriptions", "seek", "billing", "--snapshot=before")
    gcloud.ok("snapshots", "delete", "before")
    gcloud.ok("topics", "detach-subscription", "billing")
    gcloud.ok("subscriptions", "delete", "billing")
    gcloud.ok("topics", "delete", "orders", "letters")
    assert "NOT_FOUND" in gcloud.fails("topics", "describe", "orders")


def test_all_of_schemas(gcloud, tmp_path):
    first = write(tmp_path, "order.avsc", AVRO)
    wider = write(tmp_path, "wider.avsc", WIDER)
    kind = "--type=avro"
    gcloud.ok("schemas", "validate-schema", kind, f"--definition-file={first}")
    gcloud.ok("schemas", "create", "order", kind, f"--definition-file={first}")
    good = ("--message-encoding=json", '--message={"n": 1}')
    gcloud.ok("schemas", "validate-message", *good, "--schema-name=order")
    gcloud.ok("schemas", "validate-message", *good, kind, f"--definition-file={first}")
    bad = gcloud.fails(
        "schemas", "validate-message", "--message-encoding=json", "--message={}",
        "--schema-name=order",
    )
    assert "INVALID_ARGUMENT" in bad
    assert [one["name"] for one in gcloud.ok("schemas", "list")] == [
        f"projects/{gcloud.project}/schemas/order"
    ]
    old = gcloud.ok("schemas", "describe", "order")["revisionId"]
    gcloud.ok("schemas", "commit", "order", kind, f"--definition-file={wider}")
    new = gcloud.ok("schemas", "describe", "order")["revisionId"]
    assert old != new
    assert len(gcloud.ok("schemas", "list-revisions", "order")) == 2
    gcloud.ok(
        "topics", "create", "orders", "--schema=order", "--message-encoding=json",
        f"--first-revision-id={old}", f"--last-revision-id={new}",
    )
    gcloud.ok("topics", "publish", "orders", '--message={"n": 1}')
    assert "INVALID_ARGUMENT" in gcloud.fails("topics", "publish", "orders", "--message=x")
    gcloud.ok("topics", "update", "orders", "--clear-schema-settings")
    back = gcloud.ok("schemas", "rollback", "order", f"--revision-id={old}")
    assert json.loads(back["definition"]) == AVRO
    gcloud.ok("schemas", "delete-revision", f"order@{old}")
    gcloud.ok("schemas", "delete", "order")
    assert gcloud.ok("schemas", "list") == []


def test_transforms(gcloud, tmp_path):
    code = "function upper(message) { message.data = message.data.toUpperCase(); return message; }"
    one = {"javascriptUdf": {"functionName": "upper", "code": code}}
    single = write(tmp_path, "one.json", one)
    several = write(tmp_path, "several.json", [one])
    gcloud.ok("message-transforms", "validate", f"--message-transform-file={single}")
    told = gcloud.ok(
        "message-transforms", "test", "--message=abc", f"--message-transforms-file={several}"
    )
    assert [one["data"] for one in told] == ["ABC"]
    gcloud.ok("topics", "create", "orders", f"--message-transforms-file={several}")
    gcloud.ok("subscriptions", "create", "all", "--topic=orders")
    gcloud.ok("topics", "publish", "orders", "--message=abc")
    [received] = gcloud.ok("subscriptions", "pull", "all", "--auto-ack")
    assert base64.b64decode(received["message"]["data"]) == b"ABC"
    gcloud.ok("topics", "update", "orders", "--clear-message-transforms")
    assert "messageTransforms" not in gcloud.ok("topics", "describe", "orders")
