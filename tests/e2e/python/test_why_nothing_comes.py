"""Why is nothing delivered? Every command that an operator would run has the facts."""

import pytest

from cli import Cli
from clients import numbers
from waiting import until


@pytest.fixture
def cli(server):
    return Cli(server, f"why-{next(numbers)}")


def shown(cli, *words):
    """What a command prints, on both streams."""
    told = cli.run(*words)
    assert told.returncode == 0, told.stderr
    return told.stdout + told.stderr


def row(cli, id):
    """The figures of one subscription, as `top` has them."""
    rows = cli.json("top", "--once", "--interval", "100ms")["subscriptions"]
    return next(one for one in rows if one["name"].endswith(f"/{id}"))


def test_a_pause_and_a_backoff_show_in_every_command(cli, rest):
    cli.ok("topic", "create", "orders")
    cli.ok(
        "subscription", "create", "billing", "--topic", "orders",
        "--min-backoff", "10m", "--max-backoff", "10m",
    )
    name = cli.name("subscriptions", "billing")
    cli.ok("publish", "orders", "one")
    received = rest.pull(name)
    nack = {"ackIds": [one["ackId"] for one in received], "ackDeadlineSeconds": 0}
    rest.ok("POST", f"/v1/{name}:modifyAckDeadline", nack)
    paused = {"subscription": {"postrider": {"paused": True}}, "updateMask": "postrider.paused"}
    rest.ok("PATCH", f"/v1/{name}", paused)
    facts = rest.ok("GET", f"/v1/{name}/delivery")
    assert facts["paused"] and facts["pausedSince"] and facts["backoff"]["waiting"] == 1
    described = shown(cli, "subscription", "describe", "billing")
    assert f"Paused           yes, since {facts['pausedSince']}" in described
    assert "Backing off      1 waiting, until 20" in described
    for words in (("tail", "--subscription", "billing"), ("lane", "list", "billing")):
        told = shown(cli, *words)
        assert f"paused: yes, since {facts['pausedSince']}" in told
        assert "backing off: 1 waiting, until 20" in told
    assert "backing off (attempt 1) until 20" in shown(cli, "tail", "--subscription", "billing")
    figures = row(cli, "billing")["delivery"]
    assert figures["paused"] and figures["backoff"]["waiting"] == 1


def test_an_endpoint_that_is_left_alone_shows_until_when(cli, receiver):
    receiver.on("/push", 503)
    cli.ok("topic", "create", "orders")
    cli.ok("subscription", "create", "strict", "--topic", "orders", "--endpoint", receiver.url())
    cli.ok("publish", "orders", "one")

    def left_alone():
        described = shown(cli, "subscription", "describe", "strict")
        return "Left alone       the endpoint, it failed too often, until 20" in described

    # The pauses grow, so before long it is left alone most of the time.
    until(left_alone, seconds=60)
    until(lambda: "endpoint" in row(cli, "strict")["delivery"], seconds=60)
    cli.ok("subscription", "delete", "strict")


def test_a_halted_lane_of_a_key_is_counted_by_top_and_status(cli, rest):
    cli.ok("topic", "create", "orders")
    cli.ok(
        "subscription", "create", "parcels", "--topic", "orders", "--ordering",
        "--poison", "halt", "--max-attempts", "1",
    )
    name = cli.name("subscriptions", "parcels")
    before = rest.ok("GET", "/status")["lanesHalted"]
    cli.ok("publish", "orders", "one", "--ordering-key", "ann")
    received = rest.pull(name)
    nack = {"ackIds": [one["ackId"] for one in received], "ackDeadlineSeconds": 0}
    rest.ok("POST", f"/v1/{name}:modifyAckDeadline", nack)
    assert row(cli, "parcels")["delivery"]["lanes"]["halted"] == 1
    status = rest.ok("GET", "/status")
    assert status["lanesHalted"] == before + 1
    assert name in [one.get("resource") for one in status["degraded"]]
    cli.ok("lane", "skip", "parcels", "--key", "ann")
    assert rest.ok("GET", "/status")["lanesHalted"] == before
