"""Metrics as a real parser reads them, in both formats, after everything happened once."""

import urllib.request

import pytest
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families

from answers import never
from push import dead_letter, retry
from waiting import until

OPEN = "application/openmetrics-text; version=1.0.0"
PLAIN = "text/plain; version=0.0.4"


def scrape(server, accept):
    """The families by name, and the media type they came with."""
    request = urllib.request.Request(f"{server.url}/metrics", headers={"accept": accept})
    with urllib.request.urlopen(request, timeout=30) as answer:
        text, kind = answer.read().decode(), answer.headers["content-type"]
    if kind.startswith("application/openmetrics-text"):
        families = openmetrics_parser.text_string_to_metric_families(text)
    else:
        families = text_string_to_metric_families(text)
    return {family.name: family for family in families}, kind


def sample(server, name, **labels):
    """The value of one sample; None if there is none."""
    families, _ = scrape(server, PLAIN)
    for family in families.values():
        for one in family.samples:
            if one.name == name and labels.items() <= one.labels.items():
                return one.value
    return None


@pytest.mark.parametrize("accept", [PLAIN, OPEN])
def test_both_formats_are_what_they_say(push, accept):
    topic, name = push.pair()
    push.publish(topic, b"x")
    push.receiver.wait(1)
    families, kind = scrape(push.server, accept)
    assert kind.startswith(accept)
    assert families["postrider_acks"].type == "counter"
    assert families["postrider_backlog_messages"].type == "gauge"
    latency = families["postrider_push_latency_seconds"]
    assert latency.type == "histogram"
    buckets = [
        one.value
        for one in latency.samples
        if one.name.endswith("_bucket") and one.labels["subscription"] == name
    ]
    assert buckets == sorted(buckets) and len(buckets) > 10
    assert all(family.documentation for family in families.values())


def test_pushes_are_counted_by_what_came_of_them(push):
    push.receiver.on("/push", 404, 503, 200)
    topic, name = push.pair(retryPolicy=retry(0.1))
    push.publish(topic, b"x")
    push.wait_attempts(name, 3)
    for kind, expected in {"http_4xx": 1, "http_5xx": 1, "ok": 1, "dns": 0}.items():
        labels = {"subscription": name, "class": kind}
        assert sample(push.server, "postrider_push_attempts_total", **labels) == expected, kind
    assert sample(push.server, "postrider_nacks_total", subscription=name) == 2
    assert sample(push.server, "postrider_acks_total", subscription=name) == 1
    assert sample(push.server, "postrider_deliveries_total", subscription=name) == 3
    assert sample(push.server, "postrider_push_latency_seconds_count", subscription=name) == 3
    assert sample(push.server, "postrider_push_latency_seconds_sum", subscription=name) > 0
    assert sample(push.server, "postrider_push_window", subscription=name) >= 1


def test_dead_letters_drops_and_expiries_are_counted(push):
    push.receiver.on("/bad", 500)
    dead = push.clients.topic()
    topic, letters = push.pair(
        "/bad", retryPolicy=retry(0.1), deadLetterPolicy=dead_letter(dead)
    )
    dropping = push.subscribe(
        topic, "/bad", retryPolicy=retry(0.1), postrider={"maxAttempts": 2}
    )
    slow = push.clients.subscription(topic, ack_deadline_seconds=10)
    push.publish(topic, b"x")
    push.clients.pull_now(slow)

    def counted(metric, name):
        return sample(push.server, metric, subscription=name) == 1

    until(lambda: counted("postrider_dead_letters_total", letters))
    until(lambda: counted("postrider_dropped_messages_total", dropping))
    until(lambda: counted("postrider_expiries_total", slow))
    assert sample(push.server, "postrider_published_messages_total", topic=dead) == 1


def test_outstanding_and_age_of_a_message_that_hangs(push):
    push.receiver.on("/push", never)
    topic, name = push.pair(postrider={"fifo": True})
    push.publish(topic, b"one", b"two")
    push.receiver.wait(1)
    assert sample(push.server, "postrider_outstanding_messages", subscription=name) == 1
    assert sample(push.server, "postrider_backlog_messages", subscription=name) == 2
    assert sample(push.server, "fifo_subscription_queue_depth", subscription_id=name) == 2
    age = sample(push.server, "postrider_oldest_unacked_age_seconds", subscription=name)
    until(
        lambda: sample(push.server, "postrider_oldest_unacked_age_seconds", subscription=name) > age
    )


def test_recovery_is_told_after_a_kill(own_push):
    topic, _ = own_push.pair()
    own_push.publish(topic, *[b"x"] * 5)
    own_push.receiver.wait(5)
    own_push.restart("kill")
    assert sample(own_push.server, "postrider_recovered_messages") == 5
    assert sample(own_push.server, "postrider_recovery_seconds") > 0
    assert sample(own_push.server, "postrider_disk_used_bytes") > 0
