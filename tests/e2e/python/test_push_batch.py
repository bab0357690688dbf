"""Batch push: many messages in one request, acks of a prefix, shrinking around a poisonous one."""

import json

import pytest

from answers import Gate, after
from push import dead_letter, retry
from receiver import overlap_max, status
from test_push_signing import assert_signed
from waiting import data, until

FIFO_BATCH = {"fifo": True, "batch": {"messages": 10}}


def numbers(start, end):
    return [b"%d" % n for n in range(start, end)]


def acked(count):
    return status(200, json.dumps({"acked": count}), {"Content-Type": "application/json"})


def held_pair(push, count, **fields):
    """A paused batch subscription with that many messages: its batches are full when it goes on."""
    settings = {**FIFO_BATCH, **fields.pop("postrider", {}), "paused": True}
    topic, name = push.pair(retryPolicy=retry(0.1), postrider=settings, **fields)
    ids = push.publish(topic, *numbers(0, count))
    return name, ids


def go(push, name):
    push.patch(name, "postrider.paused", postrider={"paused": False})


def batches(push, count):
    return [one.batch for one in push.receiver.wait(count)]


def test_a_batch_is_an_array_of_envelopes(push):
    name, ids = held_pair(push, 25)
    go(push, name)
    came = push.receiver.wait(3)
    assert [one.batch for one in came] == [numbers(0, 10), numbers(10, 20), numbers(20, 25)]
    first = came[0]
    assert first.headers["content-type"] == "application/json"
    assert [one.headers["postrider-batch-size"] for one in came] == ["10", "10", "5"]
    assert [one.headers["postrider-sequence"] for one in came] == [ids[0], ids[10], ids[20]]
    assert came[1].headers["postrider-previous-sequence"] == ids[9]
    envelope = first.json[0]
    assert set(envelope) == {"message", "subscription"}
    assert envelope["subscription"] == name
    assert envelope["message"]["messageId"] == envelope["message"]["message_id"] == ids[0]
    assert overlap_max(came) == 1
    until(lambda: len(push.attempts(name, "?class=ok&pageSize=100")) >= 3)
    assert push.pull_from_now_on(name) == []


def test_one_message_is_an_array_too(push):
    topic, name = push.pair(postrider=FIFO_BATCH)
    (id,) = push.publish(topic, b"x")
    (request,) = push.receiver.wait(1)
    assert request.batch == [b"x"]
    assert request.headers["postrider-batch-size"] == "1"


def test_a_batch_is_bounded_in_bytes(push):
    settings = {"fifo": True, "paused": True, "batch": {"messages": 100, "bytes": 4096}}
    topic, name = push.pair(postrider=settings)
    push.publish(topic, *[b"x" * 1000] * 10)
    go(push, name)
    push.receiver.wait_until(
        lambda: sum(len(one.json) for one in push.receiver.at()) >= 10, what="all ten"
    )
    assert len(push.receiver.at()) >= 3
    assert all(sum(map(len, one.batch)) <= 4096 for one in push.receiver.at())


def test_a_message_larger_than_the_bound_goes_alone(push):
    settings = {"fifo": True, "paused": True, "batch": {"messages": 100, "bytes": 1024}}
    topic, name = push.pair(postrider=settings)
    push.publish(topic, b"small", b"x" * 5000, b"small")
    go(push, name)
    push.receiver.wait_until(lambda: sum(len(one.json) for one in push.receiver.at()) == 3)
    assert [b"x" * 5000] in [one.batch for one in push.receiver.at()]


def test_linger_gathers_what_trickles_in(push):
    settings = {"fifo": True, "batch": {"messages": 5, "linger": "3s"}}
    topic, name = push.pair(postrider=settings)
    for n in range(5):
        push.publish(topic, b"%d" % n)
    (first,) = push.receiver.wait(1)
    # Full before the time is over, so it did not wait for it.
    assert first.batch == numbers(0, 5)
    push.publish(topic, b"5")
    published = first.arrived
    second = push.receiver.wait(2)[1]
    assert second.batch == [b"5"]
    assert second.arrived - published >= 2.9


def test_an_answer_may_ack_a_prefix(push):
    name, ids = held_pair(push, 10)
    push.receiver.on("/push", acked(4), acked(6))
    go(push, name)
    came = push.receiver.wait(2)
    assert came[0].batch == numbers(0, 10)
    assert came[1].batch[0] == b"4", "from the first that was not acked"
    assert came[1].headers["postrider-previous-sequence"] == ids[3]
    push.receiver.wait_until(lambda: push.receiver.at()[-1].batch[-1] == b"9")
    assert flat(push.receiver.at()[1:]) == numbers(4, 10)


def test_an_answer_may_ack_nothing(push):
    name, ids = held_pair(push, 3)
    push.receiver.on("/push", acked(0), 200)
    go(push, name)
    push.receiver.wait_until(lambda: flat(push.receiver.at()[1:]) == numbers(0, 3))


def flat(requests):
    """All messages of these requests, in order."""
    return [one for request in requests for one in request.batch]


def test_an_answer_that_acks_more_than_it_got_acks_what_it_got(push):
    name, ids = held_pair(push, 12)
    push.receiver.on("/push", acked(1000), 200)
    go(push, name)
    assert batches(push, 2) == [numbers(0, 10), numbers(10, 12)]


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"done": 3}', b"not json"], ids=str)
def test_any_other_body_of_a_success_acks_all(push, body):
    name, ids = held_pair(push, 12)
    push.receiver.on("/push", status(200, body=body))
    go(push, name)
    assert batches(push, 2) == [numbers(0, 10), numbers(10, 12)]


class Poison:
    """Fails every request that holds this message."""

    def __init__(self, bad):
        self.bad = bad

    def __call__(self, exchange):
        code = 500 if self.bad in exchange.request.batch else 200
        return status(code)(exchange)


def test_only_the_poisonous_message_spends_attempts(push):
    """A batch that fails is sent again smaller, until the one that fails is alone."""
    dead, letters = push.clients.pair()
    name, ids = held_pair(push, 10, deadLetterPolicy=dead_letter(dead))
    push.receiver.on("/push", Poison(b"3"))
    go(push, name)
    received = push.clients.pull_exactly(letters, 1)
    assert data(received) == [b"3"]
    assert received[0].message.attributes["attempts"] == "5"
    push.receiver.wait_until(
        lambda: any(one.batch[-1] == b"9" for one in push.receiver.at() if b"3" not in one.batch),
        what="the rest",
    )
    assert push.clients.pull_now(letters) == [], "the good ones are not dead-lettered"
    alone = [one for one in push.receiver.at() if one.batch == [b"3"]]
    assert len(alone) <= 5
    good = [one.batch for one in push.receiver.at() if b"3" not in one.batch]
    assert sum(good, []) == [one for one in numbers(0, 10) if one != b"3"], "in order, each once"
    assert overlap_max(push.receiver.at()) == 1
    # Those before and behind it succeeded at their first attempt.
    for one in push.receiver.at():
        for envelope in one.json:
            if envelope["message"]["messageId"] != ids[3]:
                assert envelope["deliveryAttempt"] == 1


def test_a_poisonous_message_halts_its_lane_in_batches_too(push):
    name, ids = held_pair(push, 6, postrider={"poison": "halt", "maxAttempts": 3})
    push.receiver.on("/push", Poison(b"2"))
    go(push, name)
    (lane,) = until(lambda: [one for one in push.lanes(name) if one["state"] == "halted"])
    assert lane["messageId"] == ids[2]
    push.act(name, "skip", "")
    push.receiver.wait_until(lambda: push.receiver.at()[-1].batch[-1] == b"5")
    good = [one for r in push.receiver.at() if b"2" not in r.batch for one in r.batch]
    assert good == [b"0", b"1", b"3", b"4", b"5"]


def test_batches_of_keys_hold_one_key_each_lane_in_order(push):
    settings = {"batch": {"messages": 4}, "paused": True}
    topic, name = push.pair(enableMessageOrdering=True, postrider=settings)
    for n in range(8):
        for key in ("ann", "bob"):
            push.publish(topic, b"%d" % n, key=key)
    push.receiver.on("/push", after(0.02))
    go(push, name)
    push.receiver.wait_until(lambda: sum(len(one.json) for one in push.receiver.at()) >= 16)
    for key in ("ann", "bob"):
        lane = [
            envelope["message"]["messageId"]
            for request in push.receiver.at()
            for envelope in request.json
            if envelope["message"]["orderingKey"] == key
        ]
        assert lane == sorted(lane, key=int) and len(lane) == 8
        holding = [
            one
            for one in push.receiver.at()
            if key in {envelope["message"]["orderingKey"] for envelope in one.json}
        ]
        assert overlap_max(holding) == 1


def test_batches_without_order(push):
    gate = Gate()
    push.receiver.on("/push", gate.hold)
    topic, name = push.pair(postrider={"batch": {"messages": 10}, "paused": True})
    push.publish(topic, *numbers(0, 40))
    go(push, name)
    push.receiver.wait(2)
    gate.open()
    push.receiver.wait_until(lambda: sum(len(one.json) for one in push.receiver.at()) >= 40)
    assert sorted(flat(push.receiver.at())) == sorted(numbers(0, 40))
    assert all(len(one.json) <= 10 for one in push.receiver.at())


def test_a_batch_is_signed_as_a_whole(push):
    topic = push.clients.topic()
    made = push.create(topic, postrider={**FIFO_BATCH, "signing": {}, "paused": True})
    ids = push.publish(topic, *numbers(0, 10))
    go(push, made["name"])
    (request,) = push.receiver.wait(1)
    assert request.headers["postrider-batch-id"].startswith(f"{ids[0]}-{ids[-1]}-")
    assert request.headers["webhook-id"] == request.headers["postrider-batch-id"]
    assert_signed(request, made["postrider"]["signing"]["secret"])


def test_a_message_has_one_webhook_id_alone_and_again_but_not_that_of_a_batch(push):
    """A batch that fails is sent one by one, each message under its own name."""
    push.receiver.on("/push", 500, 200)
    topic = push.clients.topic()
    settings = {**FIFO_BATCH, "signing": {}, "paused": True}
    made = push.create(topic, postrider=settings, retryPolicy=retry(0.1))
    ids = push.publish(topic, *numbers(0, 3))
    go(push, made["name"])
    push.receiver.wait_until(lambda: len({tuple(one.batch) for one in push.receiver.at()}) >= 2)
    first, second = push.receiver.wait(2)[:2]
    assert (len(first.json), len(second.json)) == (3, 1)
    assert second.headers["webhook-id"] == ids[0]
    assert first.headers["webhook-id"] not in ids, "whoever has one of them has not all"


@pytest.mark.parametrize("lanes", [{"enableMessageOrdering": True}, {"laneBy": "kind"}], ids=str)
def test_batches_of_a_lane_prove_their_order(push, lanes):
    """Of a key as of a FIFO subscription."""
    settings = {"batch": FIFO_BATCH["batch"], "paused": True}
    settings |= {"laneBy": lanes["laneBy"]} if "laneBy" in lanes else {}
    fields = {"enableMessageOrdering": True} if "enableMessageOrdering" in lanes else {}
    topic, name = push.pair(retryPolicy=retry(0.1), postrider=settings, **fields)
    ids = push.publish(topic, *numbers(0, 25), key="k", kind="order")
    go(push, name)
    came = push.receiver.wait(3)
    assert [one.headers["postrider-sequence"] for one in came] == [ids[0], ids[10], ids[20]]
    previous = [one.headers.get("postrider-previous-sequence") for one in came]
    assert previous == [None, ids[9], ids[19]]
    assert len({one.headers["postrider-epoch"] for one in came}) == 1
    assert all("postrider" not in envelope for one in came for envelope in one.json)


def test_a_batch_of_several_lanes_says_of_each_message_where_it_stands(push):
    settings = {"batch": FIFO_BATCH["batch"], "paused": True}
    topic, name = push.pair(
        retryPolicy=retry(0.1), postrider=settings, enableMessageOrdering=True
    )
    sent = {}
    for n in range(15):
        for key in ("a", "b"):
            (id,) = push.publish(topic, b"%d" % n, key=key)
            sent.setdefault(key, []).append(id)
    go(push, name)
    push.receiver.wait_until(lambda: sum(len(one.json) for one in push.receiver.at()) >= 30)
    last = {}
    for one in sorted(push.receiver.at(), key=lambda one: one.arrived):
        first = one.json[0]["message"]
        assert one.headers["postrider-sequence"] == first["messageId"]
        for envelope in one.json:
            key, id = envelope["message"]["orderingKey"], envelope["message"]["messageId"]
            if "postrider" in envelope:
                assert envelope["postrider"]["sequence"] == id
                assert envelope["postrider"].get("previousSequence") == last.get(key)
            last[key] = id
    assert last == {key: ids[-1] for key, ids in sent.items()}


def test_batches_in_flight_at_a_kill_come_again_in_order(own_push):
    push = own_push
    gate = Gate()
    name, ids = held_pair(push, 25)
    push.receiver.on("/push", 200, gate.hold)
    go(push, name)
    push.receiver.wait(2)
    push.server.kill()
    push.receiver.on("/push", 200)
    push.server.start()
    push.reconnect()
    push.receiver.wait_until(lambda: push.receiver.at()[-1].batch[-1] == b"24")
    again = [int(one) for request in push.receiver.at()[2:] for one in request.batch]
    assert again[0] in (0, 10)
    assert again == list(range(again[0], 25))
