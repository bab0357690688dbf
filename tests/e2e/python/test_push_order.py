"""Order on push: the four FIFO tests of their source by name, lanes by key, order headers."""

import pytest

from answers import Gate, after
from push import assert_waited, dead_letter, gaps, retry
from receiver import overlap_max
from waiting import data, until

FIFO = {"postrider": {"fifo": True}}


def numbers(count, start=0):
    return [b"%d" % n for n in range(start, start + count)]


def datas(requests):
    return [one.data for one in requests]


# Source 003, "Integration Tests", in its order.


def test_basic_fifo_ordering(push):
    """Send 10 rapidly, verify that they arrive in order, one at a time."""
    push.receiver.on("/push", after(0.02))
    topic, name = push.pair(**FIFO)
    for one in numbers(10):
        push.publish(topic, one)
    came = push.receiver.wait(10)
    assert datas(came) == numbers(10)
    assert overlap_max(came) == 1


def test_fifo_with_retries(push):
    """A fails and is tried again; B, sent right after, waits for A to complete all retries."""
    push.receiver.on("/push", 500, 500, 500, 200)
    topic, name = push.pair(retryPolicy=retry(0.3), **FIFO)
    push.publish(topic, b"A")
    push.publish(topic, b"B")
    came = push.receiver.wait(5)
    assert datas(came) == [b"A", b"A", b"A", b"A", b"B"]
    for waited in gaps(came)[:3]:
        assert_waited(waited, 0.3)
    assert overlap_max(came) == 1


def test_fifo_with_multiple_subscriptions(push):
    """S1 is FIFO and goes one by one, S2 is plain and goes together."""
    first, second = Gate(), Gate()
    push.receiver.on("/fifo", first.hold)
    push.receiver.on("/plain", second.hold)
    topic = push.clients.topic()
    push.subscribe(topic, "/fifo", **FIFO)
    push.subscribe(topic, "/plain")
    push.publish(topic, *numbers(6))
    push.receiver.wait(3, "/plain")
    second.open()
    push.receiver.wait(6, "/plain")
    # All of the plain one's are through, and still one only of the other's.
    assert datas(push.receiver.at("/fifo")) == [b"0"]
    first.open()
    assert datas(push.receiver.wait(6, "/fifo")) == numbers(6)
    assert overlap_max(push.receiver.at("/fifo")) == 1
    assert overlap_max(push.receiver.at("/plain")) >= 3
    assert sorted(datas(push.receiver.at("/plain"))) == numbers(6)


def test_concurrent_workers(push):
    """Many senders race for many FIFO subscriptions: each has one request at a time, in order."""
    topic = push.clients.topic()
    paths = [f"/worker-{n}" for n in range(12)]
    for path in paths:
        push.receiver.on(path, after(0.01))
        push.subscribe(topic, path, **FIFO)
    for start in range(0, 20, 5):
        push.publish(topic, *numbers(5, start))
    for path in paths:
        came = push.receiver.wait(20, path)
        assert datas(came) == numbers(20)
        assert overlap_max(came) == 1
    assert overlap_max(push.receiver.requests) > 1, "the subscriptions wait for one another"


def test_two_fifo_subscriptions_and_a_plain_one_side_by_side(push):
    """One of the FIFO ones fails and hangs back; the others do not notice."""
    push.receiver.on("/slow", 500, 500, after(0.3))
    topic = push.clients.topic()
    push.subscribe(topic, "/slow", retryPolicy=retry(1), **FIFO)
    push.subscribe(topic, "/fast", **FIFO)
    push.subscribe(topic, "/plain")
    push.publish(topic, *numbers(8))
    assert datas(push.receiver.wait(8, "/fast", 5)) == numbers(8)
    assert sorted(datas(push.receiver.wait(8, "/plain", 5))) == numbers(8)
    slow = push.receiver.wait(10, "/slow")
    assert datas(slow) == [b"0", b"0", *numbers(8)]
    assert overlap_max(slow) == 1
    assert max(one.arrived for one in push.receiver.at("/fast")) < slow[2].arrived


# Lanes by ordering key, and by attribute.


def test_a_key_has_one_request_in_flight_and_keys_are_independent(push):
    gate = Gate()
    push.receiver.on("/push", gate.hold)
    topic, name = push.pair(enableMessageOrdering=True)
    for n in range(5):
        for key in ("ann", "bob", "cid"):
            push.publish(topic, b"%d" % n, key=key)
    came = push.receiver.wait(3)
    assert {one.message["orderingKey"] for one in came} == {"ann", "bob", "cid"}
    assert set(datas(came)) == {b"0"}
    gate.open()
    came = push.receiver.wait(15)
    for key in ("ann", "bob", "cid"):
        lane = [one for one in came if one.message["orderingKey"] == key]
        assert datas(lane) == numbers(5)
        assert overlap_max(lane) == 1


def test_a_key_that_fails_holds_no_other_back(push):
    push.receiver.on("/push", 500, 200)
    topic, name = push.pair(enableMessageOrdering=True, retryPolicy=retry(1.5))
    push.publish(topic, b"bad-1", key="bad")
    push.receiver.wait(1)
    push.publish(topic, b"bad-2", key="bad")
    for n in range(5):
        push.publish(topic, b"good", key=f"good-{n}")
    came = push.receiver.wait(8)
    assert datas(came) == [b"bad-1", *[b"good"] * 5, b"bad-1", b"bad-2"]
    assert_waited(came[6].arrived - came[0].answered, 1.5)


def test_messages_without_a_key_are_in_no_lane(push):
    gate = Gate()
    push.receiver.on("/push", gate.hold)
    topic, name = push.pair(enableMessageOrdering=True)
    push.publish(topic, *numbers(3))
    came = push.receiver.wait(3)
    assert overlap_max(came) == 3
    gate.open()
    for one in came:
        assert "orderingKey" not in one.message
        assert "postrider-sequence" not in one.headers


def test_lanes_by_an_attribute(push):
    gate = Gate()
    push.receiver.on("/push", gate.hold)
    topic, name = push.pair(postrider={"laneBy": "kind"})
    for n in range(3):
        for kind in ("paid", "sent"):
            push.publish(topic, b"%d" % n, kind=kind)
    assert set(datas(push.receiver.wait(2))) == {b"0"}
    gate.open()
    came = push.receiver.wait(6)
    for kind in ("paid", "sent"):
        lane = [one for one in came if one.message["attributes"]["kind"] == kind]
        assert datas(lane) == numbers(3)
        assert overlap_max(lane) == 1


# The headers that let a receiver prove the order.


def test_order_headers_of_a_fifo_subscription(push):
    push.receiver.on("/push", 200, 500, 200)
    topic, name = push.pair(retryPolicy=retry(0.1), **FIFO)
    ids = [int(one) for one in push.publish(topic, *numbers(4))]
    came = push.receiver.wait(5)
    assert [one.sequence for one in came] == [ids[0], ids[1], ids[1], ids[2], ids[3]]
    previous = [one.headers.get("postrider-previous-sequence") for one in came]
    # The second one failed once: the last acked before its repeat is still the first.
    assert previous == [None, *[str(ids[n]) for n in (0, 0, 1, 2)]]
    assert len({one.headers["postrider-epoch"] for one in came}) == 1
    assert came[0].headers["postrider-epoch"].isdigit()


def test_order_headers_are_by_lane(push):
    topic, name = push.pair(enableMessageOrdering=True)
    ids = {"ann": [], "bob": []}
    for n in range(4):
        for key in ids:
            ids[key] += push.publish(topic, b"%d" % n, key=key)
    came = push.receiver.wait(8)
    for key, wanted in ids.items():
        lane = [one for one in came if one.message["orderingKey"] == key]
        assert [one.headers["postrider-sequence"] for one in lane] == wanted
        # A lane that was empty for a moment may have been forgotten; a wrong one is never told.
        for one, before in zip(lane, [None, *wanted]):
            assert one.headers.get("postrider-previous-sequence") in (before, None)


@pytest.mark.parametrize("how", ["term", "kill"])
def test_the_epoch_grows_over_restarts_and_the_sequence_goes_on(own_push, how):
    push = own_push
    topic, name = push.pair(**FIFO)
    push.publish(topic, b"1", b"2")
    push.receiver.wait(2)
    push.wait_attempts(name, 2, "?class=ok")
    # Synced after the acks, so they are durable.
    push.publish(push.clients.topic(), b"barrier")
    push.restart(how)
    push.publish(topic, b"3")
    came = push.receiver.wait(3)
    assert datas(came) == [b"1", b"2", b"3"]
    assert [one.sequence for one in came] == sorted({one.sequence for one in came})
    epochs = [int(one.headers["postrider-epoch"]) for one in came]
    assert epochs[0] == epochs[1] < epochs[2]
    assert "postrider-previous-sequence" not in came[2].headers, "none is known in this epoch"


# What happens when a lane's head is exhausted.


def test_a_poisonous_head_is_dead_lettered_and_its_lane_goes_on(push):
    push.receiver.on("/push", *[500] * 5, 200)
    dead, letters = push.clients.pair()
    topic, name = push.pair(
        retryPolicy=retry(0.1), deadLetterPolicy=dead_letter(dead), **FIFO
    )
    push.publish(topic, b"bad", b"1", b"2")
    came = push.receiver.wait(7)
    assert datas(came) == [*[b"bad"] * 5, b"1", b"2"]
    assert data(push.clients.pull_exactly(letters, 1)) == [b"bad"]
    assert [one.json["deliveryAttempt"] for one in came[5:]] == [1, 1]
    assert overlap_max(came) == 1


def halted(push):
    """A subscription with lanes whose first message of key "bad" has halted its lane."""
    dead, letters = push.clients.pair()
    push.receiver.on("/push", *[500] * 5, 200)
    topic, name = push.pair(
        retryPolicy=retry(0.1),
        deadLetterPolicy=dead_letter(dead),
        enableMessageOrdering=True,
        postrider={"poison": "halt"},
    )
    ids = push.publish(topic, b"bad", b"behind", key="bad")
    (lane,) = until(lambda: [one for one in push.lanes(name) if one["state"] == "halted"])
    return topic, name, letters, ids, lane


def test_a_halted_lane_sends_nothing_while_others_go_on(push):
    topic, name, letters, ids, lane = halted(push)
    assert (lane["key"], lane["messageId"], lane["attempt"]) == ("bad", ids[0], 5)
    assert lane["lastClass"] == "http_5xx"
    push.publish(topic, b"good", key="good")
    came = push.receiver.wait(6)
    assert datas(came) == [*[b"bad"] * 5, b"good"]
    assert push.clients.pull_now(letters) == [], "nothing is dead-lettered while it halts"


def test_a_released_lane_starts_again_with_its_head(push):
    topic, name, letters, ids, _ = halted(push)
    push.act(name, "release", "bad")
    came = push.receiver.wait(7)
    assert datas(came[5:]) == [b"bad", b"behind"]
    assert came[5].json["deliveryAttempt"] == 1
    until(lambda: push.lanes(name) == [])
    assert push.clients.pull_now(letters) == []


def test_a_skipped_head_is_dead_lettered_and_the_lane_goes_on(push):
    topic, name, letters, ids, _ = halted(push)
    push.act(name, "skip", "bad")
    assert datas(push.receiver.wait(6))[5:] == [b"behind"]
    letter = push.clients.pull_exactly(letters, 1)[0].message
    assert letter.data == b"bad"
    assert letter.attributes["original_message_id"] == ids[0]
    until(lambda: push.lanes(name) == [])


def test_a_halted_lane_is_still_halted_after_a_crash(own_push):
    push = own_push
    topic, name, letters, ids, _ = halted(push)
    push.publish(push.clients.topic(), b"barrier")
    push.restart("kill")
    (lane,) = push.lanes(name)
    assert (lane["state"], lane["messageId"]) == ("halted", ids[0])
    push.publish(topic, b"good", key="good")
    assert datas(push.receiver.wait(6))[5:] == [b"good"]
    push.act(name, "skip", "bad")
    assert datas(push.receiver.wait(7))[6:] == [b"behind"]
