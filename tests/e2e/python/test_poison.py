"""One message that always fails among thousands that do not, in every way of delivering."""

import os
import time

import pytest

import answers
from push import dead_letter, retry
from receiver import status
from waiting import data

GOOD = 10_000
PUSHED = 2_000
BATCH = 1_000
ATTEMPTS = 5
POISON = b"poison"
BAD = "bad"
KEYS = ["ann", "bob", "cid", "dan"]


def messages(count, poison):
    """So many good ones with keys, and the poison messages in the middle of the first batch."""
    good = [{"data": b"%d" % n, "ordering_key": KEYS[n % 4]} for n in range(count)]
    return good[: BATCH // 2] + poison + good[BATCH // 2:]


def publish_all(clients, topic, count, poison):
    everything = messages(count, poison)
    for first in range(0, len(everything), BATCH):
        clients.publish_messages(topic, *everything[first:first + BATCH])


def policy(topic):
    return {"dead_letter_topic": topic, "max_delivery_attempts": ATTEMPTS}


def consume(clients, name, ordered, wanted, give_back):
    """Pulls until all that is wanted has come since the poison went; what came, in order."""
    came, missing, bad_count = [], set(wanted), 0
    while missing or bad_count < ATTEMPTS:
        received = clients.pull(name, BATCH)
        came += data(received)
        bad = [one for one in received if one.message.data == POISON]
        rest = [one for one in received if one.message.data != POISON]
        if rest:
            clients.ack(name, rest)
        missing -= set(data(rest))
        if bad:
            give_back(bad)
            bad_count += 1
            # What is behind it in its lane comes again with it, and once more when it has gone.
            if ordered:
                missing |= {one.message.data for one in rest if one.message.ordering_key == BAD}
    return came


@pytest.mark.parametrize("ordered", [False, True], ids=["free", "ordered"])
@pytest.mark.parametrize("how", ["nack", "silence"])
def test_pulled_it_becomes_a_letter_after_its_attempts_and_nobody_else_waits(
    grpc_clients, how, ordered
):
    """A consumer that dies says nothing: its lease runs out."""
    clients = grpc_clients
    topic, (dead, letters) = clients.topic(), clients.pair()
    name = clients.subscription(
        topic, dead_letter_policy=policy(dead), enable_message_ordering=ordered
    )
    behind = [b"behind %d" % n for n in range(3)]
    poison = [{"data": one, "ordering_key": BAD} for one in (POISON, *behind)]
    publish_all(clients, topic, GOOD, poison)
    good = [b"%d" % n for n in range(GOOD)]
    seconds = 0 if how == "nack" else 1
    came = consume(
        clients, name, ordered, [*good, *behind], lambda bad: clients.modify(name, bad, seconds)
    )
    (letter,) = clients.pull_exactly(letters, 1)
    assert (letter.message.data, letter.message.attributes["attempts"]) == (POISON, str(ATTEMPTS))
    assert came.count(POISON) == ATTEMPTS
    assert sorted(one for one in came if one.isdigit()) == sorted(good), "each good one once"
    last = {one: at for at, one in enumerate(came)}
    if ordered:
        assert all(last[one] > last[POISON] for one in behind), "what is behind it waits for it"
        for key in range(4):
            lane = [int(one) for one in came if one.isdigit() and int(one) % 4 == key]
            assert lane == sorted(lane)
    assert clients.pull_now(name) == [] and clients.pull_now(letters) == []


def failing(answer):
    """Answers poison with a failure and all else with a success."""

    def endpoint(exchange):
        return (answer if exchange.request.data == POISON else status(200))(exchange)

    return endpoint


@pytest.mark.parametrize("ordered", [False, True], ids=["free", "ordered"])
@pytest.mark.parametrize("how", ["400", "500", "reset"])
def test_pushed_it_becomes_a_letter_after_its_attempts_and_nobody_else_waits(push, how, ordered):
    push.receiver.on("/push", failing(answers.reset if how == "reset" else status(int(how))))
    dead, letters = push.clients.pair()
    topic, name = push.pair(
        retryPolicy=retry(0.01),
        deadLetterPolicy=dead_letter(dead, ATTEMPTS),
        enableMessageOrdering=ordered,
    )
    publish_all(push.clients, topic, PUSHED, [{"data": POISON, "ordering_key": "bad"}])
    (letter,) = push.clients.pull_exactly(letters, 1)
    assert (letter.message.data, letter.message.attributes["attempts"]) == (POISON, str(ATTEMPTS))

    def came():
        return [one.data for one in push.receiver.at()]

    push.receiver.wait_until(
        lambda: len(set(came()) - {POISON}) == PUSHED, seconds=120, what="all good ones"
    )
    assert came().count(POISON) == ATTEMPTS
    assert push.clients.pull_now(letters) == []


def cpu_seconds(server):
    """What the server's process has used so far."""
    with open(f"/proc/{server.process.pid}/stat") as file:
        fields = file.read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_without_an_end_its_backoff_reaches_the_longest_and_costs_next_to_nothing(own_push):
    push = own_push
    push.receiver.on("/push", failing(status(500)))
    topic, name = push.pair(retryPolicy=retry(0.1, 1))
    publish_all(push.clients, topic, 500, [{"data": POISON}])

    def tries():
        return [one for one in push.receiver.at() if one.data == POISON]

    push.receiver.wait_until(lambda: len(tries()) >= 6 and len(push.receiver.at()) >= 506)
    used, began, done = cpu_seconds(push.server), time.monotonic(), len(tries())
    push.receiver.wait_until(lambda: len(tries()) >= done + 4)
    used, took = cpu_seconds(push.server) - used, time.monotonic() - began
    waits = [later.arrived - one.answered for one, later in zip(tries()[5:], tries()[6:])]
    assert min(waits) >= 0.95, f"not as long as the longest backoff: {waits}"
    # Clock ticks are 10 ms; a build without optimization, and its chores, have some too.
    assert used <= 0.01 * took + 0.03, f"{used} s of processor in {took:.1f} s"
