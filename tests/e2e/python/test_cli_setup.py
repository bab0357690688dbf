"""A whole set-up from the command line: apply and export, schemas and snapshots."""

import json

import pytest

from cli import Cli
from clients import numbers

SETUP = """
[[schemas]]
name = "order"
type = "AVRO"
definition = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}'

[[topics]]
name = "orders"
message_retention = "1d"
labels = { team = "shop" }
schema_settings = { schema = "%(project)s/schemas/order", encoding = "JSON" }

[[topics]]
name = "dead"

[[subscriptions]]
name = "billing"
topic = "orders"
filter = 'attributes.kind = "paid"'
retry_policy = { minimum_backoff = "250ms", maximum_backoff = "1m" }
dead_letter_policy = { dead_letter_topic = "%(project)s/topics/dead", max_delivery_attempts = 7 }
fifo = true

[[subscriptions]]
name = "hook"
topic = "orders"
push_endpoint = "http://127.0.0.1:9/push"
push_timeout_seconds = 7
headers = { x-tenant = "blue" }
expiration = "never"

[[subscriptions]]
name = "table"
topic = "dead"
bigquery_config = { table = "my-project.dataset.table", write_metadata = true }
"""


@pytest.fixture
def cli(server):
    return Cli(server, f"setup-{next(numbers)}")


@pytest.fixture
def setup(cli, tmp_path):
    file = tmp_path / "setup.toml"
    file.write_text(SETUP % {"project": f"projects/{cli.project}"})
    return file


def signs(text):
    return [line.split(" ")[:2] for line in text.splitlines() if line[:1] in "+~-"]


def test_a_setup_is_planned_applied_and_then_there_is_nothing_to_do(cli, setup):
    plan = cli.ok("apply", "-f", setup, "--dry-run")
    kinds = ["schema", "topic", "topic", "subscription", "subscription", "subscription"]
    assert signs(plan) == [["+", kind] for kind in kinds], plan
    assert cli.ok("topic", "list") == "no topics\n", "nothing was done"
    said = cli.fails(2, "apply", "-f", setup, stdin="")
    assert "--yes" in said
    done = cli.ok("apply", "-f", setup, "--yes")
    assert "done: 6 steps" in done
    assert cli.ok("apply", "-f", setup) == "nothing to do\n"
    hook = cli.json("subscription", "describe", "hook")["subscription"]
    assert hook["pushConfig"]["timeoutSeconds"] == 7
    assert cli.json("apply", "-f", setup) == {"steps": [], "applied": False}


def test_what_differs_is_shown_field_by_field_and_changed(cli, setup):
    cli.ok("apply", "-f", setup, "--yes")
    cli.ok("subscription", "update", "billing", "--fifo", "false", "--ack-deadline", "60")
    cli.ok("topic", "update", "orders", "--retention", "10m")
    cli.ok("subscription", "update", "hook", "--endpoint", "none")
    plan = cli.ok("apply", "-f", setup, "--dry-run")
    assert "    message_retention: 10m -> 24h\n" in plan
    assert "    ack_deadline: 1m -> 10s\n" in plan
    assert "    fifo: false -> true\n" in plan
    cli.ok("apply", "-f", setup, "--yes")
    assert cli.ok("apply", "-f", setup, "--dry-run") == "nothing to do\n"
    text = setup.read_text().replace('"name": "id"', '"name": "number"')
    setup.write_text(text)
    plan = cli.ok("apply", "-f", setup, "--dry-run")
    assert signs(plan) == [["~", "schema"]], plan
    setup.write_text(text.replace('"paid"', '"sent"'))
    said = cli.fails(1, "apply", "-f", setup, "--yes")
    assert "filter" in said and "cannot be changed" in said


def test_what_is_not_named_is_deleted_if_asked(cli, setup):
    cli.ok("apply", "-f", setup, "--yes")
    cli.ok("topic", "create", "other")
    cli.ok("subscription", "create", "more", "--topic", "other")
    assert cli.ok("apply", "-f", setup, "--yes") == "nothing to do\n"
    plan = cli.ok("apply", "-f", setup, "--prune", "--dry-run")
    assert signs(plan) == [["-", "subscription"], ["-", "topic"]], plan
    cli.ok("apply", "-f", setup, "--prune", "--yes")
    cli.fails(3, "topic", "describe", "other")
    assert cli.ok("apply", "-f", setup, "--prune") == "nothing to do\n"


def test_what_is_exported_can_be_applied_unchanged_and_elsewhere(cli, setup, tmp_path, server):
    cli.ok("apply", "-f", setup, "--yes")
    text = cli.ok("export")
    file = tmp_path / "exported.toml"
    file.write_text(text)
    assert cli.ok("apply", "-f", file, "--prune") == "nothing to do\n", text
    other = Cli(server, f"setup-{next(numbers)}")
    file.write_text(text.replace(f"projects/{cli.project}/", f"projects/{other.project}/"))
    other.ok("apply", "-f", file, "--yes")
    again = other.ok("export")
    assert again.replace(other.project, cli.project) == text
    assert len(cli.json("export")["subscriptions"]) == 3


def test_mistakes_in_a_file_are_named(cli, tmp_path):
    file = tmp_path / "setup.toml"
    for text, named in [
        ("[[topics]]\nname = \"orders\"\ncolour = 1\n", "topics[0].colour"),
        ("[[topics]]\nmessage_retention = \"1d\"\n", "topics[0].name"),
        ("listen = \"x\"\n", "[[topics]]"),
    ]:
        file.write_text(text)
        assert named in cli.fails(2, "apply", "-f", file)
    assert "none.toml" in cli.fails(1, "apply", "-f", tmp_path / "none.toml")


def test_snapshots_are_taken_listed_labelled_and_deleted(cli):
    cli.ok("topic", "create", "orders")
    cli.ok("subscription", "create", "billing", "--topic", "orders")
    assert cli.ok("snapshot", "list") == "no snapshots\n"
    cli.ok("snapshot", "create", "before", "--subscription", "billing", "--label", "a=b")
    cli.ok("snapshot", "create", "--subscription", "billing")
    assert len(cli.json("snapshot", "list")["snapshots"]) == 2
    changed = cli.json("snapshot", "update", "before", "--label", "c=d", "--remove-label", "a")
    assert changed["labels"] == {"c": "d"}
    assert "Labels           c=d\n" in cli.ok("snapshot", "describe", "before")
    cli.fails(2, "snapshot", "update", "before")
    cli.ok("seek", "billing", "--snapshot", "before")
    cli.ok("snapshot", "delete", "before")
    cli.fails(3, "snapshot", "describe", "before")


def test_revisions_of_a_schema_are_listed_rolled_back_and_deleted(cli, tmp_path):
    file = tmp_path / "order.avsc"

    def define(*names):
        fields = [{"name": name, "type": "string", "default": ""} for name in names]
        file.write_text(json.dumps({"type": "record", "name": "Order", "fields": fields}))

    define("id")
    first = cli.json("schema", "create", "order", "--file", file)["revisionId"]
    define("id", "number")
    second = cli.json("schema", "commit", "order", "--file", file)["revisionId"]
    revisions = cli.json("schema", "revisions", "order")["revisions"]
    assert [one["revisionId"] for one in revisions] == [second, first]
    third = cli.json("schema", "rollback", "order", first)["revisionId"]
    assert "number" not in cli.json("schema", "get", "order")["schema"]["definition"]
    said = cli.fails(2, "schema", "delete-revision", "order")
    assert "name@revision" in said
    cli.ok("schema", "delete-revision", f"order@{second}")
    left = cli.json("schema", "revisions", "order")["revisions"]
    assert [one["revisionId"] for one in left] == [third, first]
    message = tmp_path / "order.json"
    message.write_text('{"id": "7"}')
    assert "good" in cli.ok("schema", "validate-message", "order", "--message", message)
    message.write_text('{"id": 7}')
    cli.fails(1, "schema", "validate-message", "order", "--message", message)
