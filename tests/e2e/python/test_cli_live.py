"""`postrider live`: watching as a gateway does, and the list of live subscriptions."""

import json

import pytest

from cli import Cli
from clients import numbers


@pytest.fixture
def cli(server):
    """A project with a topic whose messages are matched."""
    cli = Cli(server, f"live-{next(numbers)}")
    cli.ok("topic", "create", "changes", "--label", "postrider-live=true")
    return cli


def publish(cli, data, *words):
    cli.ok("publish", "changes", data, "--attribute", "collection=orders", *words)


WATCH = ("live", "watch", "--collection", "orders")


def test_a_watch_prints_what_matches_and_ends_with_its_subscription(cli):
    words = ("--filter", "data.total > 100", "--max", "1", "--json")
    with cli.start(*WATCH, "--tenant", cli.project, *words) as watching:
        assert json.loads(watching.note()) == {"note": "watching; end with Ctrl-C"}
        listed = cli.json("live", "list", "--tenant", cli.project)["subscriptions"]
        assert [one["filter"] for one in listed] == ["data.total > 100"]
        assert "data.total > 100" in cli.ok("live", "list", "--tenant", cli.project)
        publish(cli, '{"total": 99}')
        publish(cli, '{"total": 120}', "--attribute", 'old={"total": 1}')
        found = json.loads(watching.line())
        assert watching.wait() == 0
    assert found["change"] == "enter"
    assert found["topic"] == cli.name("topics", "changes")
    assert found["message"]["messageId"] == found["offset"]
    assert cli.ok("live", "list", "--tenant", cli.project) == "no live subscriptions\n"


def test_messages_are_lines_for_people(cli):
    with cli.start(*WATCH, "--tenant", cli.project) as watching:
        assert watching.note() == "watching; end with Ctrl-C"
        publish(cli, '{"total": 1}')
        assert watching.line().endswith('collection=orders  {"total": 1}')


def test_a_filter_that_is_none_is_told_with_its_place(cli):
    told = cli.fails(1, *WATCH, "--tenant", "t", "--filter", "data.total >")
    assert "CEL_COMPILATION_FAILED" in told


def test_without_a_topic_to_match_it_says_what_to_do(own_server):
    with Cli(own_server, "live-none").start(*WATCH, "--tenant", "t") as watching:
        assert "postrider-live=true" in watching.note() + watching.note()
