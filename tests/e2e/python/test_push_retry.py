"""When a push is tried again, and when no more: policies, ladders, phases, ends of attempts."""

import pytest

from answers import after
from program import Server
from push import Pushing, assert_waited, dead_letter, gaps, retry
from waiting import Stopwatch, data, until


def tried(push, count, *answers, **fields):
    """The first requests for one message, and the subscription."""
    push.receiver.on("/push", *(answers or (500,)))
    topic, name = push.pair(**fields)
    push.publish(topic, b"x")
    return push.receiver.wait(count), name


# How long it waits.


def test_without_a_policy_retries_are_paced_by_the_endpoint(push):
    """Not at once in a busy loop, and not far apart: 100 ms, doubling."""
    watch = Stopwatch()
    came, _ = tried(push, 4)
    waits = gaps(came)
    assert all(wait >= 0.05 for wait in waits), waits
    assert sum(waits) >= 0.6
    assert watch.seconds() < 10


def test_the_ladder_is_climbed_and_its_last_step_repeats(push):
    came, name = tried(push, 5, postrider={"backoff": ["200ms", "0.5s", "1.5s"]})
    for waited, least in zip(gaps(came), (0.2, 0.5, 1.5, 1.5)):
        assert_waited(waited, least)
    shown = push.shown(name)
    assert len(shown["postrider"]["backoff"]) == 3
    assert "retryPolicy" not in shown


def test_a_ladder_is_shown_changed_and_removed(push):
    topic, name = push.pair(postrider={"backoff": ["5s", "5m", "30m", "2h"]})
    assert push.shown(name)["postrider"]["backoff"] == ["5s", "5m", "30m", "2h"]
    changed = push.patch(name, "postrider.backoff", postrider={"backoff": ["5.5s"]})
    assert changed["postrider"]["backoff"] == ["5.5s"]
    removed = push.patch(name, "postrider.backoff", postrider={})
    assert "backoff" not in removed["postrider"]


def test_phases_wait_fast_then_slow_and_then_end(push):
    """Source 003's way: fast retries that double up to a bound, then slow ones, then the end."""
    dead, letters = push.clients.pair()
    phases = {
        "fast": {"min": "200ms", "max": "400ms", "retries": 3},
        "slow": {"every": "1s", "retries": 1},
    }
    came, name = tried(
        push, 5, deadLetterPolicy=dead_letter(dead), postrider={"backoff": phases}
    )
    for waited, least in zip(gaps(came), (0.2, 0.4, 0.4, 1)):
        assert_waited(waited, least)
    assert data(push.clients.pull_exactly(letters, 1)) == [b"x"]
    assert len(push.receiver.at()) == 5, "fast + slow + the first one"
    assert push.shown(name)["postrider"]["maxAttempts"] == 5


def test_the_maximum_backoff_is_kept_to(push):
    came, _ = tried(push, 5, retryPolicy=retry(0.2, 0.5))
    for waited, least in zip(gaps(came)[:3], (0.2, 0.4, 0.5)):
        assert_waited(waited, least)


def test_a_message_that_waits_holds_no_other_back(push):
    """Unordered: only the one that failed waits."""
    push.receiver.on("/push", 500, 200)
    topic, name = push.pair(retryPolicy=retry(3))
    push.publish(topic, b"bad")
    push.receiver.wait(1)
    watch = Stopwatch()
    push.publish(topic, b"1", b"2")
    assert sorted(one.data for one in push.receiver.wait(3)[1:]) == [b"1", b"2"]
    assert watch.seconds() < 2.5
    last = push.receiver.wait(4)
    assert last[3].data == b"bad"
    assert_waited(last[3].arrived - last[0].answered, 3)


# pushConfig.retryPolicy, the source's spelling.


@pytest.mark.parametrize(
    "policy",
    [
        {"minimumBackoff": "1s", "maximumBackoff": "1s", "maxAttempts": 3},
        {"minBackoffSeconds": 1, "maxBackoffSeconds": 1, "maxAttempts": 3},
        {"minimum_backoff": "1s", "maximum_backoff": "1s", "max_attempts": 3},
    ],
    ids=str,
)
def test_the_sources_policy_counts_and_drops_without_a_dead_letter_topic(push, policy):
    push.receiver.on("/push", 500)
    topic, name = push.pair(config={"retryPolicy": policy})
    shown = push.shown(name)
    assert shown["retryPolicy"] == {"minimumBackoff": "1s", "maximumBackoff": "1s"}
    assert shown["postrider"]["maxAttempts"] == 3
    assert "retryPolicy" not in shown["pushConfig"]
    (id,) = push.publish(topic, b"x")
    came = push.receiver.wait(3)
    for waited in gaps(came):
        assert_waited(waited, 1)
    # Logged at error when it is dropped; then nothing is left, and nothing more was sent.
    until(lambda: dropped_lines(push, name, id))
    assert push.pull_from_now_on(name) == []
    assert len(push.receiver.at()) == 3, "max attempts is exactly that many requests"


def dropped_lines(push, name, id):
    lines = push.server.log.read_text(errors="replace").splitlines()
    return [line for line in lines if name in line and id in line and "ERROR" in line.upper()]


def test_the_sources_policy_has_its_defaults(push):
    topic = push.clients.topic()
    made = push.create(topic, config={"retryPolicy": {}})
    assert made["retryPolicy"] == {"minimumBackoff": "10s", "maximumBackoff": "600s"}
    assert made["postrider"]["maxAttempts"] == 5
    dead = push.clients.topic()
    made = push.create(topic, config={"retryPolicy": {}}, deadLetterPolicy=dead_letter(dead, 9))
    assert made["postrider"]["maxAttempts"] == 9


def test_one_attempt_is_one_request(push):
    push.receiver.on("/push", 500)
    topic, name = push.pair(config={"retryPolicy": {"maxAttempts": 1}}, postrider={"fifo": True})
    push.publish(topic, b"1", b"2", b"3")
    came = push.receiver.wait(3)
    assert [one.data for one in came] == [b"1", b"2", b"3"]
    attempts = push.wait_attempts(name, 3)
    assert {one["attempt"] for one in attempts} == {1}
    until(lambda: dropped_lines(push, name, came[2].id))
    assert len(push.receiver.at()) == 3


def test_without_an_end_a_message_is_tried_on(push):
    """Google's way: no policy, no end; nothing is dropped."""
    came, name = tried(push, 6, *[500] * 5, 200)
    attempts = push.wait_attempts(name, 6)
    assert [one["attempt"] for one in attempts] == [6, 5, 4, 3, 2, 1]
    assert attempts[0]["class"] == "ok"


def test_the_default_of_the_source_may_be_configured(tmp_path, receiver):
    config = "[push]\nretry_default = 'source'\n"
    server = Server(tmp_path, config=config).start()
    push = Pushing(server, receiver)
    try:
        receiver.on("/push", 500)
        topic, name = push.pair()
        push.publish(topic, b"x")
        receiver.wait(1)
        (attempt,) = push.wait_attempts(name, 1)
        # The next one is ten seconds away, as the lane or nothing else shows: it has not come
        # when one to an endpoint that the breaker paces has come several times.
        other = push.subscribe(topic, "/other", retryPolicy=retry(0.2))
        receiver.on("/other", 500)
        push.publish(topic, b"y")
        receiver.wait(4, "/other")
        assert [one.data for one in receiver.at() if one.data == b"x"] == [b"x"]
        assert other
    finally:
        push.close()
        server.stop()


# A changed endpoint.


def state_of_first(push, name):
    """How it stands with the first message that is not settled."""
    found = push.rest.ok("GET", f"/v1/{name}/messages").get("messages")
    return found[0]["state"] if found else None


def test_a_retry_goes_to_the_endpoint_as_it_is_then(push):
    push.receiver.on("/old", 500)
    topic, name = push.pair("/old", retryPolicy=retry(1))
    push.publish(topic, b"x")
    (first,) = push.receiver.wait(1, "/old")
    # Until the server has read the answer, the request is under way and would be given back.
    until(lambda: state_of_first(push, name) == "backing off")
    push.modify(name, pushEndpoint=push.receiver.url("/new"))
    (second,) = push.receiver.wait(1, "/new")
    assert second.data == b"x"
    assert_waited(second.arrived - first.answered, 1)
    assert len(push.receiver.at("/old")) == 1


def test_a_late_success_ends_it(push):
    """One slow success: one request, though the backoff is much shorter."""
    push.receiver.on("/push", after(1))
    topic, name = push.pair(retryPolicy=retry(0.1))
    push.publish(topic, b"x")
    (attempt,) = push.wait_attempts(name, 1)
    assert attempt["class"] == "ok"
    assert len(push.receiver.at()) == 1
