"""HTTP push: the five tests of its source by name, and what a user sees of a push subscription."""

import pytest
from google.protobuf import duration_pb2

from answers import Gate, after, never
from program import Server
from push import Pushing, assert_waited, dead_letter, gaps, retry
from receiver import overlap_max
from statuses import refused, status_of
from streams import opened
from waiting import data

# Source 000, "Integration Tests", in its order.


def test_basic_push_delivery(push):
    """Publish a message, verify the HTTP POST received; and the backlog falls."""
    topic, name = push.pair()
    ids = push.publish(topic, b"hello", b"world")
    came = push.receiver.wait(2)
    assert sorted(one.data for one in came) == [b"hello", b"world"]
    assert {one.id for one in came} == set(ids)
    assert {one.method for one in came} == {"POST"}
    assert {one.json["subscription"] for one in came} == {name}
    push.wait_attempts(name, 2, "?class=ok")
    assert push.pull_from_now_on(name) == []
    push.publish(topic, b"marker")
    assert data(push.clients.pull_exactly(name, 1)) == [b"marker"], "the others were acked"
    assert len(push.receiver.at()) == 2


def test_retry_on_failure(push):
    """Simulate 500s, verify retries with backoff that doubles."""
    push.receiver.on("/push", 500, 500, 500, 200)
    topic, name = push.pair(retryPolicy=retry(0.5, 600))
    push.publish(topic, b"x")
    came = push.receiver.wait(4)
    assert [one.data for one in came] == [b"x"] * 4
    for waited, least in zip(gaps(came), (0.5, 1, 2)):
        assert_waited(waited, least)
    attempts = push.wait_attempts(name, 4)
    assert [one["attempt"] for one in attempts] == [4, 3, 2, 1]
    assert [one["class"] for one in attempts] == ["ok", "http_5xx", "http_5xx", "http_5xx"]


def test_dead_letter_topic(push):
    """Exhaust the attempts, verify the message in the dead letter topic, with why."""
    clients = push.clients
    push.receiver.on("/push", 503)
    dead, letters = clients.pair()
    topic, name = push.pair(
        retryPolicy=retry(0.1), deadLetterPolicy=dead_letter(dead), enableMessageOrdering=True
    )
    ids = push.publish(topic, b"bad", key="k", kind="order")
    letter = clients.pull_exactly(letters, 1)[0].message
    assert letter.data == b"bad" and letter.ordering_key == "k"
    told = dict(letter.attributes)
    assert told["kind"] == "order"
    assert told["original_subscription"] == name
    assert told["original_message_id"] == ids[0]
    assert told["failure_reason"] == "max_push_attempts_exceeded"
    assert told["attempts"] == "5"
    assert told["error_class"] == "http_5xx"
    assert told["last_status"] == "503"
    assert told["last_error"]
    assert told["CloudPubSubDeadLetterSourceDeliveryCount"] == "5"
    came = push.receiver.at()
    assert len(came) == 5, "as many requests as attempts, not one more"
    assert [one.json["deliveryAttempt"] for one in came] == [1, 2, 3, 4, 5]
    assert push.pull_from_now_on(name) == []


def test_concurrent_delivery(push):
    """Several subscriptions, verify parallel delivery: all wait for their answers together."""
    gate = Gate()
    topic = push.clients.topic()
    paths = [f"/endpoint-{n}" for n in range(4)]
    for path in paths:
        push.receiver.on(path, gate.hold)
        push.subscribe(topic, path)
    push.publish(topic, b"x")
    for path in paths:
        push.receiver.wait(1, path)
    assert overlap_max(push.receiver.requests) == 4
    gate.open()
    # One endpoint has several requests in flight as well.
    gate = Gate()
    push.receiver.on("/many", gate.hold)
    topic, name = push.pair("/many")
    push.publish(topic, *[b"%d" % n for n in range(10)])
    push.receiver.wait(4, "/many")
    assert overlap_max(push.receiver.at("/many")) >= 4
    gate.open()
    push.receiver.wait(10, "/many")
    assert sorted(one.data for one in push.receiver.at("/many")) == [b"%d" % n for n in range(10)]


def test_graceful_shutdown(own_push):
    """Stop the server mid-delivery: what is in flight finishes and counts, the rest is kept."""
    push = own_push
    server, receiver = push.server, push.receiver
    receiver.on("/push", after(1), 200)
    topic, name = push.pair(postrider={"fifo": True})
    push.publish(topic, b"1", b"2", b"3")
    receiver.wait(1)
    assert server.terminate() == 0, server.tail()
    assert [one.data for one in receiver.at()] == [b"1"], "nothing new is begun while it stops"
    server.start()
    push.reconnect()
    came = receiver.wait(3)
    assert [one.data for one in came] == [b"1", b"2", b"3"], "the first one's success counted"


def test_a_stop_does_not_wait_longer_than_the_grace_for_an_endpoint_that_hangs(
    tmp_path, receiver
):
    server = Server(tmp_path, config="shutdown_grace = '1s'\n").start()
    push = Pushing(server, receiver)
    try:
        receiver.on("/push", never, 200)
        topic, name = push.pair()
        push.publish(topic, b"x")
        receiver.wait(1)
        assert server.terminate() == 0, server.tail()
        server.start()
        push.reconnect()
        # Given back, so it comes again after the start; nothing failed, so no attempt was spent.
        assert receiver.wait(2)[1].data == b"x"
        (done,) = push.wait_attempts(name, 1, "?class=ok")
        assert done["attempt"] == 1
    finally:
        push.close()
        server.stop()


# How a push subscription is made and shown.


def test_push_is_set_with_the_official_client_at_once_or_later(push, clients):
    endpoint = push.receiver.url()
    topic = clients.topic()
    at_once = clients.subscription(topic, push_config={"push_endpoint": endpoint})
    later = clients.subscription(topic)
    updated = clients.subscription(topic)
    push.made += [at_once, later, updated]
    clients.subscriber.modify_push_config(
        request={"subscription": later, "push_config": {"push_endpoint": endpoint}}
    )
    clients.update(updated, ["push_config"], push_config={"push_endpoint": endpoint})
    for name in (at_once, later, updated):
        assert clients.get(name).push_config.push_endpoint == endpoint
    clients.publish(topic, b"x")
    came = push.receiver.wait(3)
    assert {one.json["subscription"] for one in came} == {at_once, later, updated}
    # The same message has the same id for all.
    assert len({one.id for one in came}) == 1


def test_a_push_subscription_cannot_be_pulled(push, clients):
    topic, name = push.pair()
    with refused("FAILED_PRECONDITION") as raised:
        clients.pull_now(name)
    assert "push" in str(raised.value)


def test_a_push_subscription_cannot_be_streamed(push):
    topic, name = push.pair()
    with opened(push.clients, name) as stream:
        error = stream.end()
    assert error is not None and status_of(error) == "FAILED_PRECONDITION", error


def test_an_open_stream_ends_when_the_subscription_becomes_a_push_one(push):
    topic, name = push.clients.pair()
    push.made.append(name)
    with opened(push.clients, name) as stream:
        push.publish(topic, b"x")
        stream.ack(stream.take(1))
        push.modify(name, pushEndpoint=push.receiver.url())
        error = stream.end()
    assert error is not None and status_of(error) == "FAILED_PRECONDITION", error


def test_what_was_set_is_shown_and_survives_a_crash(own_push):
    push = own_push
    topic = push.clients.topic()
    made = push.create(
        topic,
        config={"attributes": {"x-goog-version": "v1"}, "timeoutSeconds": 7},
        retryPolicy=retry(1, 60),
        postrider={
            "headers": {"X-Team": "blue"},
            "method": "PUT",
            "batch": {"messages": 10},
            "rateLimit": 50,
        },
    )
    assert made["pushConfig"]["pushEndpoint"] == push.receiver.url()
    assert made["pushConfig"]["timeoutSeconds"] == 7
    assert made["pushConfig"]["attributes"] == {"x-goog-version": "v1"}
    assert made["postrider"]["headers"] == {"X-Team": "blue"}
    assert made["postrider"]["method"] == "PUT"
    assert made["postrider"]["batch"]["messages"] == 10
    assert made["postrider"]["rateLimit"] == 50
    shown = push.shown(made["name"])
    for part in ("pushConfig", "postrider", "retryPolicy"):
        assert shown[part] == made[part]
    push.restart("kill")
    assert push.shown(made["name"]) == shown


def test_a_change_over_grpc_keeps_what_grpc_cannot_say(push):
    topic, name = push.pair(
        config={"timeoutSeconds": 7},
        postrider={"headers": {"X-Team": "blue"}, "backoff": ["1s"], "rateLimit": 90},
    )
    before = push.shown(name)
    push.clients.update(name, ["ack_deadline_seconds"], ack_deadline_seconds=33)
    after_it = push.shown(name)
    assert after_it["postrider"] == before["postrider"]
    assert after_it["pushConfig"] == before["pushConfig"]
    assert after_it["ackDeadlineSeconds"] == 33


def test_a_dead_letter_policy_without_a_retry_policy_is_warned_about(push):
    dead = push.clients.topic()
    topic = push.clients.topic()
    made = push.create(topic, deadLetterPolicy=dead_letter(dead))
    assert any("retry" in warning.lower() for warning in made["warnings"]), made
    calm = push.create(topic, deadLetterPolicy=dead_letter(dead), retryPolicy=retry(1))
    assert not any("retry" in warning.lower() for warning in calm.get("warnings", [])), calm


# Timeouts: what is set where.


def hung_for(push, name, seconds):
    """The first attempt of this subscription timed out after about so long."""
    (attempt,) = push.wait_attempts(name, 1, "?class=timeout")[-1:]
    assert seconds * 1000 - 50 <= attempt["durationMs"] <= seconds * 1000 + 2500, attempt
    assert attempt.get("status") in (None, 0)
    assert attempt["attempt"] == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"config": {"timeoutSeconds": 1}},
        {"config": {"timeout_seconds": 1}},
        {"labels": {"postrider-timeout-seconds": "1"}},
    ],
    ids=str,
)
def test_an_endpoint_that_does_not_answer_in_time_is_given_up(push, fields):
    push.receiver.on("/push", never)
    topic, name = push.pair(retryPolicy=retry(60), **fields)
    shown = push.shown(name)
    assert shown["pushConfig"]["timeoutSeconds"] == 1
    push.publish(topic, b"x")
    hung_for(push, name, 1)
    push.receiver.wait_until(lambda: push.receiver.requests[0].gone, what="the end of the request")


def test_the_timeout_may_be_given_over_grpc_as_a_label(push):
    push.receiver.on("/push", never)
    clients = push.clients
    topic = clients.topic()
    name = clients.subscription(
        topic,
        push_config={"push_endpoint": push.receiver.url()},
        labels={"postrider-timeout-seconds": "1"},
        retry_policy={"minimum_backoff": duration_pb2.Duration(seconds=60)},
    )
    push.made.append(name)
    push.publish(topic, b"x")
    hung_for(push, name, 1)


def test_the_configured_timeout_counts_unless_the_subscription_has_its_own(tmp_path, receiver):
    server = Server(tmp_path, config="[push]\ntimeout_seconds = 1\n").start()
    push = Pushing(server, receiver)
    try:
        topic = push.clients.topic()
        for path in ("/configured", "/deadline", "/own"):
            receiver.on(path, after(2))
        configured = push.subscribe(topic, "/configured", retryPolicy=retry(60))
        # An ack deadline that was given is the time an endpoint has.
        deadline = push.subscribe(topic, "/deadline", ackDeadlineSeconds=10)
        own = push.subscribe(topic, "/own", {"timeoutSeconds": 5}, ackDeadlineSeconds=10)
        push.publish(topic, b"x")
        hung_for(push, configured, 1)
        for name in (deadline, own):
            (attempt,) = push.wait_attempts(name, 1)
            assert attempt["class"] == "ok"
    finally:
        push.close()
        server.stop()


def test_an_answer_within_the_timeout_counts_however_late(push):
    push.receiver.on("/push", after(1.5))
    topic, name = push.pair(config={"timeoutSeconds": 4})
    push.publish(topic, b"x")
    (attempt,) = push.wait_attempts(name, 1)
    assert attempt["class"] == "ok"
    assert 1450 <= attempt["durationMs"] < 4000
    assert len(push.receiver.at()) == 1
