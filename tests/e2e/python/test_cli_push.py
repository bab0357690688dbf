"""The command line around push: receive, attempts, lanes."""

import json
import re

import pytest

from cli import Cli
from clients import numbers
from waiting import until


@pytest.fixture
def cli(server):
    cli = Cli(server, f"cli-push-{next(numbers)}")
    cli.ok("topic", "create", "orders")
    yield cli
    for one in cli.json("subscription", "list")["subscriptions"]:
        cli.ok("subscription", "delete", one["name"])


def receiver(cli, *words):
    """A running `postrider receive`, and its address."""
    running = cli.start("receive", "--listen", "127.0.0.1:0", *words)
    line = running.line()
    return running, re.search(r"http://[^\s\"]+", line).group(0)


def test_what_is_pushed_is_printed(cli):
    running, url = receiver(cli, "--count", "2")
    with running:
        cli.ok("subscription", "create", "hooks", "--topic", "orders", "--endpoint", url + "here")
        cli.ok("publish", "orders", "hello", "--attribute", "kind=order")
        line = running.line()
        assert line.startswith("200 /here") and line.endswith("kind=order  hello")
        cli.ok("publish", "orders", "again")
        assert running.line().endswith("again")
        assert running.wait() == 0


def test_signatures_are_checked_with_the_secret(cli):
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
    for id, given, word, code in (("good", secret, "good", 0), ("bad", other, "bad", 1)):
        running, url = receiver(cli, "--secret", secret, "--count", "1", "--json")
        with running:
            cli.ok(
                "subscription", "create", id, "--topic", "orders", "--endpoint", url,
                "--secret", given,
            )
            cli.ok("publish", "orders", "hello")
            assert json.loads(running.line())["signature"] == word
            assert running.wait() == code
        cli.ok("subscription", "delete", id)
    cli.fails(2, "receive", "--secret", "secret")


def test_order_is_checked_while_the_endpoint_fails(cli):
    running, url = receiver(cli, "--status", "500", "--times", "3", "--count", "6", "--json")
    with running:
        cli.ok(
            "subscription", "create", "ledger", "--topic", "orders", "--fifo", "--endpoint", url,
            "--min-backoff", "100ms", "--max-backoff", "100ms",
        )
        cli.ok("publish", "orders", "one", "two", "three")
        requests = [json.loads(running.line()) for _ in range(6)]
        assert running.wait() == 0
    assert [one["status"] for one in requests] == [500, 500, 500, 200, 200, 200]
    assert [one["order"] for one in requests] == ["first"] * 4 + ["in_order"] * 2
    assert requests[5]["previousSequence"] == requests[4]["sequence"]


def test_answers_can_be_delayed(cli):
    running, url = receiver(cli, "--delay", "1500ms", "--count", "1")
    with running:
        cli.ok("subscription", "create", "slow", "--topic", "orders", "--endpoint", url)
        cli.ok("publish", "orders", "hello")
        running.line()
        assert running.wait() == 0
    (attempt,) = until(lambda: cli.json("attempts", "slow")["attempts"])
    assert attempt["class"] == "ok" and attempt["durationMs"] >= 1500


def test_attempts_are_listed_by_both_spellings(cli):
    running, url = receiver(cli, "--status", "503", "--times", "2", "--count", "3")
    with running:
        cli.ok(
            "subscription", "create", "hooks", "--topic", "orders", "--endpoint", url,
            "--min-backoff", "100ms", "--max-backoff", "100ms",
        )
        (id,) = cli.ok("publish", "orders", "hello").split()
        assert running.wait() == 0
    until(lambda: len(cli.json("attempts", "hooks")["attempts"]) == 3)
    attempts = cli.json("attempts", "hooks")["attempts"]
    assert attempts == cli.json("subscription", "attempts", "hooks")["attempts"]
    assert [one["attempt"] for one in attempts] == [3, 2, 1]
    failed = cli.json("attempts", "hooks", "--class", "http_5xx", "--message", id)["attempts"]
    assert [one["status"] for one in failed] == [503, 503]
    assert len(cli.json("attempts", "hooks", "--limit", "1")["attempts"]) == 1
    table = cli.ok("attempts", "hooks")
    assert "http_5xx" in table and id in table
    assert "no attempts" in cli.ok("attempts", "hooks", "--class", "dns")
    assert "slow" in cli.fails(1, "attempts", "hooks", "--class", "slow")


def test_lanes_are_listed_released_and_skipped_by_both_spellings(cli):
    cli.ok(
        "subscription", "create", "ledger", "--topic", "orders", "--fifo", "--poison", "halt",
        "--max-attempts", "1", "--endpoint", "http://127.0.0.1:9/",
    )
    assert cli.ok("lane", "list", "ledger") == "no lane is blocked\n"
    ids = cli.ok("publish", "orders", "one", "two").split()

    def halted():
        lanes = cli.json("lane", "list", "ledger")["lanes"]
        return [one["messageId"] for one in lanes if one["state"] == "halted"]

    assert until(halted) == ids[:1]
    assert cli.json("subscription", "lanes", "ledger")["lanes"][0]["messageId"] == ids[0]
    acted = cli.json("lane", "skip", "ledger", "--key", "")
    assert acted == {"subscription": cli.name("subscriptions", "ledger"), "key": "", "act": "skip"}
    assert until(halted) == ids[1:]
    assert "released lane" in cli.ok("lane", "release", "ledger"), "it has one lane only"
    assert until(halted) == ids[1:]
    assert "halted" in cli.ok("lane", "list", "ledger", "--all")
    assert "skipped lane" in cli.ok("subscription", "lanes", "skip", "ledger", "--key", "")
    until(lambda: not halted())
    assert "not blocked" in cli.fails(1, "lane", "skip", "ledger", "--key", "")
    cli.ok("subscription", "create", "keys", "--topic", "orders", "--ordering")
    assert "--key" in cli.fails(2, "lane", "skip", "keys")
