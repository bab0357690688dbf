"""Lines about deliveries in the log of the built program: every field, and no secrets."""

import json
import re

import pytest

from program import CONFIG, Server
from push import Pushing, dead_letter, retry
from receiver import status
from waiting import until

FIELDS = {
    "service", "env", "version", "subscription", "topic", "messageId", "publishTime",
    "deliveryAttempt", "outcome", "http_status", "error_type", "error_code", "error", "retryable",
}
OURS = {"timestamp", "level", "target", "message"}

LOGGED = CONFIG + """
[log]
level = "debug"
service = "hub"
env = "test"
"""


@pytest.fixture
def logged(tmp_path, receiver):
    """A server that logs everything, and push subscriptions of it."""
    server = Server(tmp_path, config=LOGGED).start()
    push = Pushing(server, receiver)
    yield push
    push.close()
    server.stop()


def lines(push, **fields):
    """The lines about deliveries that have these fields."""
    found = []
    for text in push.server.log.read_text(errors="replace").splitlines():
        line = json.loads(text) if text.startswith("{") else {}
        if line.get("target") == "delivery" and fields.items() <= line.items():
            found.append(line)
    return found


def wait_lines(push, count=1, **fields):
    def enough():
        found = lines(push, **fields)
        return found if len(found) >= count else None

    return until(enough)


def test_a_push_that_fails_is_an_error_with_every_field(logged):
    logged.receiver.on("/push", 503, 200)
    topic, name = logged.pair(retryPolicy=retry(0.1))
    (id,) = logged.publish(topic, b"x")
    (line,) = wait_lines(logged, outcome="retry")
    assert set(line) == FIELDS | OURS
    assert line["level"] == "ERROR"
    assert (line["service"], line["env"]) == ("hub", "test")
    assert re.fullmatch(r"\d+\.\d+\.\d+\+([0-9a-f]{12}|unknown)(\.dev)?", line["version"])
    assert (line["subscription"], line["topic"], line["messageId"]) == (name, topic, id)
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line["publishTime"])
    assert (line["deliveryAttempt"], line["http_status"], line["error_code"]) == (1, 503, 503)
    assert (line["error_type"], line["retryable"]) == ("http_5xx", True)
    assert line["error"] == "HTTP 503 Service Unavailable"
    (line,) = wait_lines(logged, outcome="applied")
    assert (line["level"], line["deliveryAttempt"], line["http_status"]) == ("DEBUG", 2, 200)
    assert (line["messageId"], line["retryable"]) == (id, False)


def test_a_push_without_an_answer_says_what_went_wrong(logged):
    topic, name = logged.pair(retryPolicy=retry(600))
    logged.receiver.unplug()
    logged.publish(topic, b"x")
    (line,) = wait_lines(logged, outcome="retry")
    assert line["error_type"] == "connect"
    assert "cannot connect to" in line["error"]
    assert "http_status" not in line and "error_code" not in line


def test_dead_letters_and_drops_are_told(logged):
    logged.receiver.on("/push", 400)
    dead = logged.clients.topic()
    topic, letters = logged.pair(retryPolicy=retry(0.1), deadLetterPolicy=dead_letter(dead))
    dropping = logged.subscribe(topic, retryPolicy=retry(0.1), postrider={"maxAttempts": 2})
    logged.publish(topic, b"x")
    (line,) = wait_lines(logged, outcome="dead_lettered")
    assert (line["subscription"], line["deliveryAttempt"], line["level"]) == (letters, 5, "ERROR")
    assert (line["http_status"], line["error_type"]) == (400, "http_4xx")
    (line,) = wait_lines(logged, outcome="dropped")
    assert (line["subscription"], line["deliveryAttempt"]) == (dropping, 2)
    assert line["retryable"] is False


def test_a_fifo_subscription_says_when_it_is_blocked(logged):
    logged.receiver.on("/push", 500, 200)
    topic, name = logged.pair(retryPolicy=retry(0.1), postrider={"fifo": True})
    (id,) = logged.publish(topic, b"x")
    text = f"[FIFO] Subscription {name} blocked - waiting for request attempt {id} to complete"
    assert wait_lines(logged, message=text)[0]["level"] == "INFO"
    wait_lines(logged, message=f"[FIFO] Subscription {name} unblocked after 0s")


def test_no_line_holds_a_secret_or_a_payload(logged):
    """Canaries in all that is secret; the endpoint says back what it was sent."""

    def echo(exchange):
        said = exchange.request.body + repr(exchange.request.fields).encode()
        return status(500, body=said)(exchange)

    logged.receiver.on("/push?token=canary-query", echo)
    topic = logged.clients.topic()
    url = f"http://canary-user:canary-password@127.0.0.1:{logged.receiver.port}"
    name = logged.clients.subscription_name()
    made = logged.rest.subscription(
        name,
        topic,
        pushConfig={"pushEndpoint": f"{url}/push?token=canary-query"},
        retryPolicy=retry(0.1),
        postrider={"headers": {"x-secret": "canary-header"}, "maxAttempts": 3, "signing": {}},
    )
    logged.made.append(made["name"])
    logged.publish(topic, b"canary-data", attribute="canary-attribute", key="canary-key")
    wait_lines(logged, outcome="dropped")
    logged.receiver.unplug()
    logged.publish(topic, b"canary-data")
    wait_lines(logged, error_type="connect")
    text = logged.server.log.read_text(errors="replace")
    signing = made["postrider"]["signing"]["secret"].removeprefix("whsec_")
    for secret in ("canary", "Y2FuYXJ5", signing):
        assert secret not in text, [line for line in text.splitlines() if secret in line]
