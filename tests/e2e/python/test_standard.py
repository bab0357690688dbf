"""The advised set-up (`--standard`): its alerts end when its letters are dealt with."""

import pytest

from cli import Cli
from program import CONFIG, Server
from rest import Rest
from waiting import until

ALERTS = '\n[alerts]\ninterval = "1s"\n'
READER = "projects/standard/subscriptions/billing.dlq"

# What fires after minutes, fires after a second.
QUICK = {"postrider": {"alerts": {"oldest_unacked_age": {"warning": "1s", "critical": "1h"}}}}


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path, config=CONFIG + ALERTS).start()
    yield server
    server.stop()
    assert "panicked" not in server.log.read_text(errors="replace"), server.tail()


def alerts_of_reader(rest):
    alerts = rest.get("/alerts").json["alerts"]
    return [one["rule"] for one in alerts if one.get("subscription") == READER]


@pytest.mark.parametrize("how", ["replay", "delete"])
def test_no_alert_stays_for_letters_that_were_dealt_with(server, how):
    rest, cli = Rest(server), Cli(server, "standard")
    cli.ok("topic", "create", "orders")
    cli.ok("subscription", "create", "billing", "--topic", "orders", "--standard")
    rest.ok("PATCH", f"/v1/{READER}?updateMask=postrider.alerts", {"subscription": QUICK})
    letter = {
        "data": "eA==",
        "attributes": {"original_subscription": "projects/standard/subscriptions/billing"},
    }
    body = {"messages": [letter]}
    rest.ok("POST", "/v1/projects/standard/topics/billing.dlq:publish", body)
    until(lambda: "oldest_unacked_age" in alerts_of_reader(rest))
    if how == "replay":
        cli.ok("dead-letter", "replay", "--subscription", "billing", "--all")
    else:
        cli.ok("dead-letter", "delete", "--subscription", "billing", "--all", "--confirm", "1")
    until(lambda: alerts_of_reader(rest) == [], seconds=90)
