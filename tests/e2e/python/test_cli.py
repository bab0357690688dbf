"""The command line: topics, subscriptions, publish, pull, seek, names, errors and exit codes."""

import base64
import json
import socket

import pytest

import program
from cli import Cli
from clients import numbers


@pytest.fixture
def cli(server):
    return Cli(server, f"cli-{next(numbers)}")


@pytest.fixture
def pair(cli):
    """A topic `orders` with a subscription `billing`."""
    cli.ok("topic", "create", "orders")
    cli.ok("subscription", "create", "billing", "--topic", "orders")
    return cli


def texts(cli, *words):
    """The data of messages that are pulled and acked."""
    return cli.ok("pull", "billing", "--ack", "--data", *words).splitlines()


# Topics.


def test_topics_are_made_listed_shown_changed_and_deleted(cli):
    name = cli.name("topics", "orders")
    made = cli.json("topic", "create", "orders", "--retention", "1h", "--label", "team=shop")
    assert made["name"] == name
    assert made["messageRetentionDuration"] == "3600s"
    assert cli.ok("topic", "create", "parcels") == f"made {cli.name('topics', 'parcels')}\n"
    listed = cli.json("topic", "list")["topics"]
    assert [one["name"] for one in listed] == [name, cli.name("topics", "parcels")]
    assert name in cli.ok("topic", "list")
    cli.ok("subscription", "create", "billing", "--topic", name)
    shown = cli.json("topic", "describe", "orders")
    assert shown["topic"] == made
    assert shown["subscriptions"] == [cli.name("subscriptions", "billing")]
    assert "Retention        1h\n" in cli.ok("topic", "describe", name)
    changed = cli.json(
        "topic", "update", "orders",
        "--retention", "none", "--label", "owner=ann", "--remove-label", "team",
    )
    assert changed["labels"] == {"owner": "ann"}
    assert "messageRetentionDuration" not in changed
    assert cli.json("topic", "delete", "orders", "parcels")["deleted"] == [
        name, cli.name("topics", "parcels"),
    ]
    assert cli.ok("topic", "list") == "no topics\n"


# Subscriptions.


def test_subscriptions_are_made_listed_shown_changed_and_deleted(cli):
    cli.ok("topic", "create", "orders")
    made = cli.json(
        "subscription", "create", "billing", "--topic", "orders", "--ack-deadline", "30s",
        "--filter", 'attributes.kind = "order"', "--ordering", "--label", "team=shop",
        "--min-backoff", "1s", "--max-backoff", "60s", "--description", "who is billed",
    )
    name = cli.name("subscriptions", "billing")
    assert made["name"] == name
    assert made["ackDeadlineSeconds"] == 30
    assert made["filter"] == 'attributes.kind = "order"'
    assert made["enableMessageOrdering"] is True
    assert made["retryPolicy"] == {"minimumBackoff": "1s", "maximumBackoff": "60s"}
    assert made["postrider"]["description"] == "who is billed"
    (listed,) = cli.json("subscription", "list")["subscriptions"]
    assert listed["name"] == name
    assert "by key" in cli.ok("subscription", "list", "--topic", "orders")
    assert cli.json("subscription", "list", "--topic", "other")["subscriptions"] == []
    shown = cli.json("subscription", "describe", "billing")
    assert shown["subscription"]["name"] == name and "offset" in shown["cursor"]
    assert "Ack deadline     30s" in cli.ok("subscription", "describe", name)
    changed = cli.json(
        "subscription", "update", "billing", "--ack-deadline", "60s", "--paused",
        "--max-backoff", "600s", "--label", "owner=ann", "--remove-label", "team",
    )
    assert changed["ackDeadlineSeconds"] == 60
    assert changed["postrider"]["paused"] is True
    assert changed["postrider"]["description"] == "who is billed", "what is not named stays"
    assert changed["retryPolicy"] == {"minimumBackoff": "1s", "maximumBackoff": "600s"}
    assert changed["labels"] == {"owner": "ann"}
    assert cli.ok("subscription", "delete", "billing") == f"deleted {name}\n"
    assert cli.json("subscription", "list")["subscriptions"] == []


def test_every_setting_of_a_push_subscription_can_be_given(cli):
    cli.ok("topic", "create", "orders")
    cli.ok("topic", "create", "dead")
    made = cli.json(
        "subscription", "create", "hooks", "--topic", "orders",
        "--endpoint", "http://127.0.0.1:9/push", "--timeout", "7s", "--oidc-account", "a@b.org",
        "--dead-letter-topic", "dead", "--max-attempts", "9", "--fifo", "--poison", "halt",
        "--backoff", "1s,5s", "--header", "x-tenant=blue", "--method", "PUT", "--sign",
        "--batch", "20", "--rate-limit", "50", "--start", "earliest", "--expires-after", "never",
    )
    assert made["pushConfig"]["pushEndpoint"] == "http://127.0.0.1:9/push"
    assert made["pushConfig"]["timeoutSeconds"] == 7
    assert made["pushConfig"]["oidcToken"]["serviceAccountEmail"] == "a@b.org"
    assert made["deadLetterPolicy"] == {
        "deadLetterTopic": cli.name("topics", "dead"), "maxDeliveryAttempts": 9,
    }
    ours = made["postrider"]
    assert ours["fifo"] and ours["poison"] == "halt" and ours["backoff"] == ["1s", "5s"]
    assert ours["headers"] == {"x-tenant": "blue"} and ours["method"] == "PUT"
    assert ours["batch"]["messages"] == 20 and ours["rateLimit"] == 50
    assert ours["signing"]["secret"].startswith("whsec_")
    more = cli.json("subscription", "update", "hooks", "--max-attempts", "12")
    assert more["deadLetterPolicy"]["maxDeliveryAttempts"] == 12
    rotated = cli.json("subscription", "rotate-secret", "hooks")
    assert rotated["secret"].startswith("whsec_")
    assert rotated["secret"] != ours["signing"]["secret"]
    pulled = cli.json(
        "subscription", "update", "hooks", "--endpoint", "none", "--batch", "0", "--sign", "false",
        "--rate-limit", "0", "--backoff", "none", "--min-backoff", "2s",
    )
    assert pulled["pushConfig"] == {}
    assert not {"batch", "rateLimit", "signing", "backoff"} & set(pulled["postrider"])
    assert pulled["retryPolicy"]["minimumBackoff"] == "2s"


def test_the_standard_set_up_has_dead_letters_that_somebody_can_read(cli):
    cli.ok("topic", "create", "orders")
    made = cli.json("subscription", "create", "billing", "--topic", "orders", "--standard")
    letters = cli.name("topics", "billing.dlq")
    assert made["deadLetterPolicy"] == {"deadLetterTopic": letters, "maxDeliveryAttempts": 5}
    assert made["retryPolicy"] == {"minimumBackoff": "10s", "maximumBackoff": "600s"}
    assert made["ackDeadlineSeconds"] == 60
    reader = cli.json("subscription", "describe", "billing.dlq")["subscription"]
    assert reader["topic"] == letters
    push = cli.json(
        "subscription", "create", "hooks", "--topic", "orders", "--standard",
        "--endpoint", "http://127.0.0.1:9/", "--max-attempts", "7", "--dead-letter-topic", letters,
    )
    assert push["deadLetterPolicy"] == {"deadLetterTopic": letters, "maxDeliveryAttempts": 7}
    assert push["ackDeadlineSeconds"] == 10, "60 s are for pulling"
    names = [one["name"] for one in cli.json("topic", "list")["topics"]]
    assert cli.name("topics", "hooks.dlq") not in names


def test_warnings_and_secrets_are_told(cli):
    cli.ok("topic", "create", "orders")
    told = cli.run(
        "subscription", "create", "ledger", "--topic", "orders", "--fifo", "--sign",
        "--endpoint", "http://127.0.0.1:9/",
    )
    assert told.returncode == 0, told.stderr
    assert "warning: FIFO" in told.stderr
    assert "Signing secret   whsec_" in told.stdout


# Messages.


def test_messages_come_from_arguments_files_and_lines(pair, tmp_path):
    cli = pair
    ids = cli.ok("publish", "orders", "one", "two").splitlines()
    assert len(ids) == 2 and int(ids[0]) < int(ids[1])
    whole = tmp_path / "whole"
    whole.write_bytes(b"three\nlines")
    cli.ok("publish", "orders", "--file", whole)
    lines = tmp_path / "lines"
    lines.write_text("four\nfive\n")
    requests = cli.ok("publish", "orders", "--lines", lines, "--json").splitlines()
    assert sum(len(json.loads(one)["messageIds"]) for one in requests) == 2
    cli.ok("publish", "orders", stdin="six\nseven\n")
    got = cli.json("pull", "billing", "--ack", "--max", "100")["receivedMessages"]
    assert len(got) == 7
    assert texts(cli, "--wait", "0s") == []


def test_bytes_of_a_file_arrive_unchanged(pair, tmp_path):
    data = bytes(range(256)) * 10
    file = tmp_path / "bytes"
    file.write_bytes(data)
    pair.ok("publish", "orders", "--file", file)
    (got,) = pair.json("pull", "billing", "--ack")["receivedMessages"]
    assert base64.b64decode(got["message"]["data"]) == data


def test_many_lines_are_published_in_order(pair):
    cli = pair
    cli.ok("subscription", "create", "all", "--topic", "orders", "--ordering")
    lines = [f"line {n}" for n in range(2500)]
    ids = cli.ok("publish", "orders", "--ordering-key", "k", stdin="\n".join(lines)).split()
    assert len(ids) == 2500 and ids == sorted(ids, key=int)
    got = cli.ok("pull", "all", "--ack", "--data", "--max", "2500", "--wait", "5s").splitlines()
    assert got[:10] == lines[:10]


def test_attributes_and_keys_are_published_and_shown(pair):
    cli = pair
    cli.ok(
        "publish", "orders", "hello", "--attribute", "kind=order", "-a", "note=a b",
        "--ordering-key", "ann",
    )
    told = cli.run("pull", "billing")
    assert 'key="ann"  kind=order  note="a b"  hello' in told.stdout
    assert "not acked" in told.stderr


def test_without_ack_messages_come_again_and_with_it_they_do_not(pair):
    cli = pair
    cli.ok("subscription", "update", "billing", "--ack-deadline", "10s")
    cli.ok("publish", "orders", "one")
    (leased,) = cli.json("pull", "billing")["receivedMessages"]
    assert cli.json("pull", "billing", "--wait", "0s")["receivedMessages"] == [], "it is leased"
    assert texts(cli, "--wait", "20s") == ["one"]
    assert texts(cli, "--wait", "0s") == []
    assert leased["ackId"]


def test_following_goes_on_with_what_is_published_later(pair):
    cli = pair
    with cli.start("pull", "billing", "--follow", "--ack", "--data") as following:
        cli.ok("publish", "orders", "one")
        assert following.line() == "one"
        cli.ok("publish", "orders", "two")
        assert following.line() == "two"
    with cli.start("pull", "billing", "--follow", "--ack", "--json", "--max", "1") as following:
        cli.ok("publish", "orders", "three")
        assert json.loads(following.line())["message"]["messageId"]
        assert following.wait() == 0


def test_seeks_go_to_times_ends_and_snapshots(pair):
    cli = pair
    cli.ok("subscription", "update", "billing", "--retain-acked")
    cli.ok("publish", "orders", "one", "two")
    assert len(texts(cli)) == 2
    sought = cli.json("seek", "billing", "--earliest")
    assert sought["subscription"] == cli.name("subscriptions", "billing")
    assert sorted(texts(cli)) == ["one", "two"]
    cli.ok("seek", "billing", "--time", "1h")
    assert len(texts(cli)) == 2
    cli.ok("seek", "billing", "--earliest")
    cli.ok("seek", "billing", "--latest")
    assert texts(cli, "--wait", "0s") == []
    missing = cli.fails(3, "seek", "billing", "--snapshot", "monday")
    assert "monday" in missing
    cli.fails(2, "seek", "billing")
    cli.fails(2, "seek", "billing", "--earliest", "--latest")


# Names, errors, exit codes.


def test_names_are_short_or_whole(server):
    cli = Cli(server, "cli-names")
    cli.ok("topic", "create", "orders")
    whole = "projects/cli-names/topics/orders"
    told = program.run("topic", "describe", whole, "--server", server.url, "--json")
    assert json.loads(told.stdout)["topic"]["name"] == whole
    short = program.run("topic", "describe", "orders", "--server", server.url)
    assert short.returncode == 2 and "--project" in short.stderr
    named = program.run(
        "topic", "describe", "orders", "--server", server.address, "--project", "cli-names"
    )
    assert named.returncode == 0, named.stderr


def test_the_server_is_found_by_the_variable_of_the_official_clients(server):
    cli = Cli(server, "cli-variable")
    cli.ok("topic", "create", "orders")
    env = {"PUBSUB_EMULATOR_HOST": server.address, "POSTRIDER_PROJECT": "cli-variable"}
    told = program.run("topic", "list", "--json", env=env)
    assert [one["name"] for one in json.loads(told.stdout)["topics"]] == [
        "projects/cli-variable/topics/orders"
    ]
    other = {**env, "POSTRIDER_SERVER": "127.0.0.1:1"}
    assert program.run("topic", "list", env=other).returncode == 4, "ours comes first"


def test_exit_codes_tell_what_went_wrong(cli):
    assert "not found" in cli.fails(3, "topic", "describe", "nobody")
    assert "not found" in cli.fails(3, "publish", "nobody", "x")
    cli.ok("topic", "create", "orders")
    assert "orders" in cli.fails(1, "topic", "create", "orders")
    assert "nothing to change" in cli.fails(2, "topic", "update", "orders")
    cli.fails(2, "topic", "fly")
    cli.fails(2, "subscription", "create", "billing")
    refused = cli.fails(
        1, "subscription", "create", "billing", "--topic", "orders", "--filter", "attributes.a = 5"
    )
    assert "filter: at 16" in refused
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        away = cli.fails(4, "topic", "list", "--server", f"127.0.0.1:{free.getsockname()[1]}")
    assert "postrider serve" in away
    assert cli.fails(2, "topic", "list", "--server", "ftp://x:1")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "elvish", "powershell"])
def test_shells_can_complete(shell):
    told = program.run("completions", shell)
    assert told.returncode == 0
    assert "dead-letter" in told.stdout


def test_settings_and_stores_are_shown_as_json(own_server):
    told = program.run("config", "show", "--json", "--listen", "127.0.0.1:1")
    shown = json.loads(told.stdout)
    assert shown["listen"] == {"value": "127.0.0.1:1", "source": "--listen"}
    assert shown["engine"]["source"] == "default"
    own_server.terminate()
    told = program.run("verify", "--data-dir", own_server.data, "--json")
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["faults"] == []
