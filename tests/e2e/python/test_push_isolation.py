"""Endpoints do not hurt each other: hanging, failing and dead ones, rate limits, calm probing."""

import contextlib
import time

import pytest

from answers import never
from push import dead_letter, retry
from receiver import Receiver, overlap_max

# Latency of a healthy endpoint beside bad ones, on a busy machine with two cores.
HEALTHY_SECONDS_MAX = 2


@pytest.fixture
def bad():
    """A second receiver, so that nothing is shared with the healthy one's endpoint."""
    with Receiver() as receiver:
        yield receiver


def subscribe_bad(push, bad, topic, path, **config):
    endpoint = {"pushEndpoint": bad.url(path), "timeoutSeconds": 60, **config}
    return push.subscribe(topic, config=endpoint)


def assert_served(push, topic, path="/healthy", count=30):
    """Messages published one by one arrive soon, each."""
    for n in range(count):
        before = time.time()
        push.publish(topic, b"x")
        request = push.receiver.wait(n + 1, path)[n]
        assert request.arrived - before < HEALTHY_SECONDS_MAX


def test_endpoints_that_hang_do_not_delay_a_healthy_one(push):
    """Many times more requests hang than there are workers of any kind."""
    hanging = push.clients.topic()
    with contextlib.ExitStack() as stack:
        receivers = [stack.enter_context(Receiver()) for _ in range(10)]
        for bad in receivers:
            for n in range(6):
                bad.on(f"/hang-{n}", never)
                subscribe_bad(push, bad, hanging, f"/hang-{n}")
        push.publish(hanging, *[b"x"] * 20)
        for bad in receivers:
            bad.wait_until(lambda: len(bad.requests) >= 4, what="requests that hang")
        topic, _ = push.pair("/healthy")
        assert_served(push, topic)
        assert sum(overlap_max(bad.requests) for bad in receivers) >= 40


def test_a_slow_subscription_of_the_same_topic_does_not_delay_a_healthy_one(push, bad):
    topic, _ = push.pair("/healthy")
    bad.on("/hang", never)
    subscribe_bad(push, bad, topic, "/hang")
    assert_served(push, topic)
    assert overlap_max(bad.at("/hang")) >= 1


def test_a_dead_endpoint_does_not_delay_a_healthy_one(push, bad):
    topic, _ = push.pair("/healthy")
    subscribe_bad(push, bad, topic, "/dead")
    bad.unplug()
    assert_served(push, topic)


def test_an_endpoint_that_fails_is_probed_and_not_hammered(push, bad):
    """Two hundred messages wait: it sees a few requests, and all of them once it is well."""
    bad.on("/ill", 500)
    topic = push.clients.topic()
    name = subscribe_bad(push, bad, topic, "/ill")
    push.publish(topic, *[b"%d" % n for n in range(200)])
    bad.wait(1, "/ill")
    # A ladder on the other receiver tells when three seconds are over.
    push.receiver.on("/clock", 500, 200)
    clock, _ = push.pair("/clock", postrider={"backoff": ["3s"]})
    push.publish(clock, b"x")
    push.receiver.wait(2, "/clock")
    assert len(bad.at("/ill")) < 60, "an endpoint that fails is hammered"
    bad.on("/ill", 200)
    well = time.time()

    def delivered():
        return {one.data for one in bad.at("/ill") if one.arrived >= well}

    bad.wait_until(lambda: len(delivered()) == 200, 40, "all of them")
    assert name


def test_an_endpoint_comes_back_soon_after_it_was_down(push):
    topic, name = push.pair()
    push.receiver.unplug()
    push.publish(topic, *[b"%d" % n for n in range(20)])
    push.wait_attempts(name, 2, "?class=connect")
    push.receiver.listen()
    push.receiver.wait_until(
        lambda: len({one.data for one in push.receiver.at()}) == 20, 20, "all of them"
    )


# The rate limit.


def test_a_rate_limit_is_kept(push):
    """Ten a second; at most a second's worth at once."""
    topic, name = push.pair(postrider={"rateLimit": 10})
    push.publish(topic, *[b"%d" % n for n in range(30)])
    came = push.receiver.wait(30)
    assert came[-1].arrived - came[0].arrived >= 1.85
    assert came[-1].arrived - came[0].arrived < 10
    arrived = [one.arrived for one in came]
    for first, later in zip(arrived, arrived[21:]):
        assert later - first >= 0.9, "more than twice the limit within a second"


def test_a_rate_limit_spends_no_attempts_and_holds_nobody_else(push):
    topic, dead = push.clients.topic(), push.clients.topic()
    name = push.subscribe(
        topic,
        "/limited",
        deadLetterPolicy=dead_letter(dead),
        retryPolicy=retry(1),
        postrider={"rateLimit": 5},
    )
    push.subscribe(topic, "/free")
    push.publish(topic, *[b"x"] * 15)
    free = push.receiver.wait(15, "/free")
    limited = push.receiver.wait(15, "/limited")
    assert free[-1].arrived < limited[-1].arrived
    assert {one.json["deliveryAttempt"] for one in limited} == {1}
    attempts = push.wait_attempts(name, 15, "?pageSize=100")
    assert {one["attempt"] for one in attempts} == {1}
    assert {one["class"] for one in attempts} == {"ok"}


def test_a_rate_limit_is_changed_and_removed(push):
    topic, name = push.pair(postrider={"rateLimit": 1, "fifo": True})
    push.publish(topic, *[b"%d" % n for n in range(100)])
    push.receiver.wait(2)
    changed = push.patch(name, "postrider.rateLimit", postrider={})
    assert "rateLimit" not in changed["postrider"]
    push.receiver.wait(100, seconds=20)
