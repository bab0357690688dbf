"""The command line for whoever is called at night: tail, dead letters, alerts, lint, top, demo."""

import json

import pytest

from cli import Cli
from clients import numbers
from waiting import until


@pytest.fixture
def cli(server):
    return Cli(server, f"cli-operate-{next(numbers)}")


@pytest.fixture
def pair(cli):
    """A topic `orders` with a subscription `billing` that starts at the earliest message."""
    cli.ok("topic", "create", "orders", "--retention", "1h")
    cli.ok("subscription", "create", "billing", "--topic", "orders", "--start", "earliest")
    return cli


@pytest.fixture
def failing(cli, receiver):
    """A subscription `strict` whose messages all end as dead letters, and its receiver."""
    receiver.on("/push", 500)
    cli.ok("topic", "create", "orders")
    cli.ok(
        "subscription", "create", "strict", "--topic", "orders", "--standard",
        "--endpoint", receiver.url(), "--min-backoff", "100ms", "--max-backoff", "100ms",
    )
    yield cli, receiver
    cli.ok("subscription", "delete", "strict")


@pytest.fixture
def given_up(cli, rest):
    """A function that gives a pull subscription `strict` so many dead letters."""
    cli.ok("topic", "create", "orders")
    cli.ok(
        "subscription", "create", "strict", "--topic", "orders", "--standard",
        "--min-backoff", "100ms", "--max-backoff", "100ms",
    )
    path = f"/v1/{cli.name('subscriptions', 'strict')}"

    def give_up(count):
        cli.ok("publish", "orders", *[f"bad {n}" for n in range(count)])

        def done():
            received = rest.pull(path.removeprefix("/v1/"), wait=False)
            if received:
                ids = [one["ackId"] for one in received]
                nack = {"ackIds": ids, "ackDeadlineSeconds": 0}
                rest.ok("POST", f"{path}:modifyAckDeadline", nack)
            found = letters(cli)
            return len(found) >= count and found

        return until(done, seconds=60)

    return give_up


def letters(cli, *words):
    return cli.json("dead-letter", "list", "--subscription", "strict", *words)["deadLetters"]


def wait_letters(cli, count):
    return until(lambda: (found := letters(cli)) and len(found) >= count and found, seconds=60)


# Tail.


def test_tail_shows_a_topic_and_changes_nothing(pair):
    cli = pair
    ids = cli.ok("publish", "orders", "one", "two", "-a", "kind=order").split()
    for _ in range(2):
        assert cli.ok("tail", "orders", "--data").splitlines() == ["one", "two"]
    shown = cli.json("tail", "orders")["messages"]
    assert [one["offset"] for one in shown] == ids
    assert [one["message"]["messageId"] for one in shown] == ids
    assert cli.ok("tail", "orders", "--data", "--from", ids[1]) == "two\n"
    assert cli.ok("tail", "orders", "--data", "--max", "1") == "one\n"
    assert cli.ok("tail", "orders", "--data", "--time", "1h").splitlines() == ["one", "two"]
    assert cli.ok("tail", "orders", "--data", "--filter", "attributes:other") == ""
    got = cli.json("pull", "billing", "--ack")["receivedMessages"]
    assert len(got) == 2 and all(one.get("deliveryAttempt", 0) <= 1 for one in got)


def test_tail_shows_the_backlog_of_a_subscription(pair):
    cli = pair
    cli.ok("publish", "orders", "one", "two", "three")
    cli.ok("pull", "billing", "--ack", "--max", "1")
    cli.ok("pull", "billing", "--max", "1")
    shown = cli.json("tail", "--subscription", "billing")["messages"]
    assert len(shown) == 2
    assert sorted(one["state"] for one in shown) == ["leased", "waiting"]
    assert "leased" in cli.ok("tail", "--subscription", "billing")


def test_following_shows_what_is_published_later(pair):
    cli = pair
    cli.ok("publish", "orders", "before")
    with cli.start("tail", "orders", "--follow", "--from", "earliest", "--data") as following:
        assert following.line() == "before"
        for text in ("one", "two", "three"):
            cli.ok("publish", "orders", text)
            assert following.line() == text


# Dead letters.


def test_dead_letters_are_listed_shown_and_searched(failing):
    cli, _ = failing
    (id,) = cli.ok("publish", "orders", "bad", "--attribute", "kind=order").split()
    (letter,) = wait_letters(cli, 1)
    assert letter["originalMessageId"] == id
    assert letter["errorClass"] == "http_5xx"
    assert cli.json("dead-letter", "list", "--topic", "strict.dlq")["deadLetters"] == [letter]
    table = cli.ok("dead-letter", "list", "--subscription", "strict")
    assert letter["messageId"] in table and "http_5xx" in table
    for words, count in (
        (["--class", "http_5xx"], 1),
        (["--class", "timeout"], 0),
        (["--filter", 'attributes.kind = "order"'], 1),
        (["--filter", 'attributes.kind = "other"'], 0),
        (["--since", "1h"], 1),
        (["--until", "1h"], 0),
        (["--state", "replayed"], 0),
    ):
        assert len(letters(cli, *words)) == count, words
    for where in (["--topic", "strict.dlq"], ["--subscription", "strict"]):
        shown = cli.json("dead-letter", "show", letter["messageId"], *where)
        assert shown["originalMessageId"] == id
    text = cli.ok("dead-letter", "show", letter["messageId"], "--topic", "strict.dlq")
    assert "Data             bad" in text
    cli.fails(3, "dead-letter", "show", "7", "--topic", "strict.dlq")
    cli.fails(2, "dead-letter", "list")


def test_dead_letters_are_replayed_once(failing):
    cli, receiver = failing
    cli.ok("publish", "orders", "bad 1", "bad 2")
    wait_letters(cli, 2)
    receiver.on("/push", 200)
    before = len(receiver.at())
    replay = cli.json("dead-letter", "replay", "--subscription", "strict", "--all")
    assert (replay["state"], int(replay["replayed"]), int(replay["total"])) == ("done", 2, 2)
    replayed = receiver.wait(before + 2)[before:]
    assert sorted(one.data for one in replayed) == [b"bad 1", b"bad 2"]
    assert letters(cli) == []
    assert len(letters(cli, "--state", "replayed")) == 2
    again = cli.json("dead-letter", "replay", "--subscription", "strict", "--all")
    assert int(again["replayed"]) == 0
    listed = cli.json("dead-letter", "replays")["replays"]
    assert {one["name"] for one in listed} == {replay["name"], again["name"]}
    assert replay["name"] in cli.ok("dead-letter", "replays")
    watched = cli.json("dead-letter", "watch", replay["name"])
    assert watched["state"] == "done"


def test_some_dead_letters_are_replayed_by_id_and_a_slow_replay_is_cancelled(cli, given_up):
    found = given_up(5)
    one = cli.json(
        "dead-letter", "replay", found[0]["messageId"], "--topic", "strict.dlq", "--to", "topic"
    )
    assert int(one["replayed"]) == 1
    slow = cli.json(
        "dead-letter", "replay", "--topic", "strict.dlq", "--all", "--per-second", "1", "--no-wait"
    )
    assert slow["state"] == "running"
    assert cli.json("dead-letter", "cancel", slow["name"])["state"] == "cancelled"
    cli.fails(2, "dead-letter", "replay", "--topic", "strict.dlq")


def test_dead_letters_are_deleted_only_when_confirmed(cli, given_up):
    found = given_up(3)
    said = cli.fails(2, "dead-letter", "delete", "--topic", "strict.dlq", "--all", stdin="")
    assert "--confirm 3" in said
    assert "3" in cli.fails(
        1, "dead-letter", "delete", "--topic", "strict.dlq", "--all", "--confirm", "2"
    )
    assert len(letters(cli)) == 3
    one = cli.json(
        "dead-letter", "delete", found[0]["messageId"], "--topic", "strict.dlq", "--confirm", "1"
    )
    assert int(one["deleted"]) == 1
    assert "deleted 2" in cli.ok("dead-letter", "delete", "--subscription", "strict", "--all", "--yes")
    assert letters(cli) == []


# What is wrong.


def test_lint_finds_what_is_missing_and_fails(cli):
    cli.ok("topic", "create", "orders")
    assert cli.json("lint") == {"findings": []}
    cli.ok("subscription", "create", "billing", "--topic", "orders")
    told = cli.run("lint", "--json")
    assert told.returncode == 1
    (finding,) = json.loads(told.stdout)["findings"]
    assert finding["resource"] == cli.name("subscriptions", "billing")
    assert finding["problem"] and finding["remedy"]
    assert finding["code"] in cli.run("lint").stdout


def test_alerts_are_listed(failing):
    cli, _ = failing
    cli.ok("publish", "orders", "bad")
    wait_letters(cli, 1)

    def fired():
        alerts = cli.json("alerts", "--subscription", "strict")["alerts"]
        return [one for one in alerts if one["state"] in ("pending", "firing")]

    (alert, *_) = until(fired, seconds=60)
    assert alert["subscription"] == cli.name("subscriptions", "strict")
    assert alert["rule"] in cli.ok("alerts")
    assert cli.json("alerts", "--severity", "none")["alerts"] == []
    cli.ok("alerts", "--severity", "none", "--exit-code")


def test_top_shows_what_happens(pair):
    cli = pair
    with cli.start("top", "--json", "--interval", "200ms") as top:
        first = json.loads(top.line())
        assert [one["name"] for one in first["subscriptions"]] == [
            cli.name("subscriptions", "billing")
        ]
        cli.ok("publish", "orders", *["x"] * 50)
        cli.ok("pull", "billing", "--max", "20", "--ack")

        def moved():
            one = json.loads(top.line())
            return one["subscriptions"][0]["acks"] == 20 and one

        last = until(moved)["subscriptions"][0]
    assert last["backlogMessages"] == 30 and last["deliveries"] == 20
    assert last["oldestUnackedSeconds"] >= 0
    once = cli.json("top", "--once", "--sort", "oldest")
    assert once["topics"][0]["messages"] == 50
    table = cli.ok("top", "--once")
    assert "billing" in table and "SUBSCRIPTION" in table and "\x1b" not in table


# The demo.


def test_the_demo_tells_its_story_on_a_server_of_its_own(cli):
    told = cli.run("demo", "--fast", timeout=120, without=["POSTRIDER_SERVER"])
    assert told.returncode == 0, told.stdout + told.stderr
    for part in ("Publish and pull", "Push in order", "FIFO", "Dead letters", "That's it"):
        assert part in told.stdout, told.stdout
    assert cli.server.address not in told.stdout


def test_the_demo_plays_on_a_server_that_is_named_and_clears_up(cli):
    lines = cli.ok("demo", "--fast", "--load", "2s", "--json", timeout=180).splitlines()
    parts = [json.loads(line) for line in lines]
    assert [one["part"] for one in parts if "part" in one] == [1, 2, 3, 4, 5]
    assert parts[-1]["done"] is True and parts[-1]["pushed"] > 50
    assert cli.json("topic", "list")["topics"] == []
    assert cli.json("subscription", "list")["subscriptions"] == []
