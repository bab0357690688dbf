"""Alerts of the built program: adjusted per subscription, told on a topic and at an endpoint."""

import json

import pytest

from clients import Clients
from program import CONFIG, Server
from push import dead_letter
from receiver import Receiver
from rest import Rest
from waiting import until

RULES = [
    "dead_letters",
    "dead_letter_growth",
    "push_5xx",
    "push_4xx",
    "oldest_unacked_age",
    "backlog_growing",
    "fifo_blocked",
]
TOPIC = "projects/_postrider/topics/alerts"


@pytest.fixture(scope="module")
def bell():
    """An endpoint for alerts, and a server that looks often and pushes them there."""
    with Receiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def server(tmp_path_factory, bell):
    config = f'{CONFIG}\n[alerts]\ninterval = "100ms"\nwebhook = "{bell.url("/bell")}"\n'
    server = Server(tmp_path_factory.mktemp("server"), config=config).start()
    yield server
    server.stop()
    assert "panicked" not in server.log.read_text(errors="replace"), server.tail()


def alerts_of(rest, name):
    shown = rest.ok("GET", "/alerts")["alerts"]
    return [alert for alert in shown if alert["subscription"] == name]


def test_an_alert_is_shown_told_and_pushed_and_ends(server, bell, rest):
    clients = Clients(server, "grpc")
    reader = clients.subscription(TOPIC)
    topic, name = clients.topic(), clients.subscription_name()
    alerts = {"oldest_unacked_age": {"warning": "1s", "critical": "3s"}, "backlog_growing": "off"}
    rest.subscription(name, topic, postrider={"alerts": alerts})
    clients.publish(topic, b"one")

    def firing(severity):
        found = alerts_of(rest, name)
        is_so = [one for one in found if (one["severity"], one["state"]) == (severity, "firing")]
        return is_so[0] if is_so else None

    shown = until(lambda: firing("warning"))
    assert shown["rule"] == "oldest_unacked_age"
    assert shown["threshold"] == 1.0 and shown["value"] > 1.0
    assert shown["summary"].endswith("old, more than 1s")
    assert shown["runbook"] == "docs/operating/alerts.md#oldest_unacked_age"
    assert shown["since"].endswith("Z")
    until(lambda: firing("critical"))
    clients.ack(name, clients.pull_exactly(name, 1))
    until(lambda: not alerts_of(rest, name))

    expected = [("warning", "firing"), ("critical", "firing"), ("critical", "resolved")]
    told = []
    while len(told) < len(expected):
        got = clients.pull(reader, 100)
        clients.ack(reader, got)
        told += [one.message for one in got if one.message.attributes["subscription"] == name]
    assert [(one.attributes["severity"], one.attributes["state"]) for one in told] == expected
    data = json.loads(told[0].data)
    assert data["subscription"] == name and data["rule"] == "oldest_unacked_age"
    assert set(data) == {*shown, "at"}

    def rung():
        came = [one.message["attributes"] for one in bell.at("/bell")]
        return [(one["severity"], one["state"]) for one in came if one["subscription"] == name]

    bell.wait_until(lambda: len(rung()) >= len(expected))
    assert sorted(rung()) == sorted(expected)
    clients.close()


def test_what_is_only_pending_is_told_but_rings_no_bell(server, bell, rest):
    clients = Clients(server, "grpc")
    reader = clients.subscription(TOPIC)
    topic, name = clients.topic(), clients.subscription_name()
    alerts = {"oldest_unacked_age": "off", "backlog_growing": {"warning": "1h", "critical": "off"}}
    rest.subscription(name, topic, postrider={"alerts": alerts})

    def pending():
        clients.publish(topic, b"more")
        return [one["state"] for one in alerts_of(rest, name)]

    assert until(pending) == ["pending"]
    rest.ok("DELETE", f"/v1/{name}")
    until(lambda: not alerts_of(rest, name))
    told = []
    while len(told) < 2:
        got = clients.pull(reader, 100)
        clients.ack(reader, got)
        told += [one.message for one in got if one.message.attributes["subscription"] == name]
    assert [one.attributes["state"] for one in told] == ["pending", "resolved"]
    assert told[1].attributes["before"] == "pending"
    assert not [one for one in bell.at("/bell") if one.message["attributes"]["subscription"] == name]
    clients.close()


def test_every_rule_fires_over_the_servers_own_figures(push):
    rest, clients = push.rest, push.clients
    push.receiver.on("/down", 500)
    push.receiver.on("/refuses", 400)
    topic, letters = clients.topic(), clients.topic()

    def alerts(rule, **levels):
        others = {other: "off" for other in RULES if other != rule}
        return {"alerts": {**others, rule: levels}}

    soon = {"percent": 0, "for": "2s"}
    push.subscribe(topic, "/down", postrider=alerts("push_5xx", warning=soon))
    push.subscribe(topic, "/refuses", postrider=alerts("push_4xx", warning=soon))
    fifo = {"fifo": True, **alerts("fifo_blocked", warning="1s")}
    push.subscribe(topic, "/down/too", postrider=fifo)
    push.receiver.on("/down/too", 500)
    growing = clients.subscription_name()
    rest.subscription(growing, topic, postrider=alerts("backlog_growing", critical="2s"))
    waiting = clients.subscription_name()
    rest.subscription(waiting, topic, postrider=alerts("oldest_unacked_age", critical="1s"))
    failing = [clients.subscription_name() for _ in range(2)]
    for name, rule in zip(failing, ["dead_letters", "dead_letter_growth"]):
        policy = dead_letter(letters)
        ours = alerts(rule, critical="2s")
        rest.subscription(name, topic, deadLetterPolicy=policy, postrider=ours)

    def fired():
        clients.publish(topic, b"more")
        for name in failing:
            clients.nack(name, clients.pull_now(name))
        shown = rest.ok("GET", "/alerts")["alerts"]
        rules.update(one["rule"] for one in shown if one["state"] == "firing")
        return rules == set(RULES)

    rules = set()
    try:
        until(fired, seconds=60)
    finally:
        assert rules == set(RULES)
        for name in [growing, waiting, *failing]:
            rest.delete(f"/v1/{name}")


def test_levels_are_stored_changed_and_refused_by_name(server, rest):
    clients = Clients(server, "grpc")
    topic, name = clients.topic(), clients.subscription_name()
    alerts = {"push_5xx": {"warning": {"percent": 2.5, "for": "10m"}}, "dead_letters": "off"}
    camel_case = {"push5xx": alerts["push_5xx"], "deadLetters": "off"}
    made = rest.subscription(name, topic, postrider={"alerts": camel_case})
    assert made["postrider"]["alerts"] == alerts
    server.restart("kill")
    assert rest.ok("GET", f"/v1/{name}")["postrider"]["alerts"] == alerts
    # A caller who knows nothing of it clears nothing.
    clients.close()
    clients = Clients(server, "grpc")
    clients.update(name, ["labels"], labels={"team": "blue"})
    assert rest.ok("GET", f"/v1/{name}")["postrider"]["alerts"] == alerts

    def patch(value):
        body = {"subscription": {"postrider": {"alerts": value}}, "updateMask": "postrider.alerts"}
        return rest.patch(f"/v1/{name}", body)

    assert patch("off").json["postrider"]["alerts"] == "off"
    assert "alerts" not in patch(None).json["postrider"]
    for value, field in [
        ("on", "alerts"),
        ({"colour": "off"}, "alerts.colour"),
        ({"dead_letters": {"urgent": "5m"}}, "alerts.deadLetters.urgent"),
        ({"dead_letters": {"warning": "soon"}}, "alerts.deadLetters.warning"),
        ({"dead_letters": {"warning": "0s"}}, "alerts.deadLetters.warning"),
        ({"push_4xx": {"warning": {"percent": 100}}}, "warning.percent"),
    ]:
        answer = patch(value)
        assert (answer.code, answer.status) == (400, "INVALID_ARGUMENT"), answer
        assert field in answer.message, answer
    clients.close()


def test_the_servers_own_project_can_be_read_but_not_changed(server, rest):
    clients = Clients(server, "grpc")
    assert rest.ok("GET", f"/v1/{TOPIC}")["name"] == TOPIC
    own = "projects/_postrider"
    for verb, path, body in [
        ("PUT", f"/v1/{own}/topics/mine", {}),
        ("DELETE", f"/v1/{TOPIC}", None),
        ("POST", f"/v1/{TOPIC}:publish", {"messages": [{"data": "aGk="}]}),
        ("PUT", f"/v1/{own}/subscriptions/mine", {"topic": TOPIC}),
        ("DELETE", f"/v1/{own}/subscriptions/alerts-webhook", None),
        (
            "PUT",
            f"/v1/{clients.subscription_name()}",
            {"topic": clients.topic(), "deadLetterPolicy": {"deadLetterTopic": TOPIC}},
        ),
    ]:
        answer = rest.call(verb, path, body)
        assert (answer.code, answer.status) == (400, "INVALID_ARGUMENT"), (path, answer)
        assert "_postrider" in answer.message
    clients.close()


def test_alerts_can_be_turned_off(tmp_path):
    server = Server(tmp_path, config=CONFIG + "\n[alerts]\nenabled = false\n").start()
    try:
        rest = Rest(server)
        assert rest.ok("GET", "/alerts") == {"alerts": []}
        assert rest.get(f"/v1/{TOPIC}").code == 404
    finally:
        server.stop()
