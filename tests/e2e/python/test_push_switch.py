"""Turning push on, off, and round: pull and push, pause and resume, deletion, filters."""

import datetime

from answers import Gate, never
from push import retry
from waiting import data, until


def set_paused(push, name, paused):
    push.patch(name, "postrider.paused", postrider={"paused": paused})


def numbers(start, end):
    return [b"%d" % n for n in range(start, end)]


# Pull and push.


def test_from_pull_to_push_the_backlog_is_pushed(push):
    clients = push.clients
    topic, name = clients.pair()
    push.made.append(name)
    clients.publish(topic, *numbers(0, 10))
    clients.ack(name, clients.pull_exactly(name, 4))
    push.modify(name, pushEndpoint=push.receiver.url())
    came = push.receiver.wait(6)
    assert len({one.id for one in came}) == 6
    push.wait_attempts(name, 6, "?class=ok")
    assert push.pull_from_now_on(name) == []


def test_from_push_to_pull_the_rest_is_pulled(push):
    push.receiver.on("/push", 200, 200, 200, never)
    topic, name = push.pair(config={"timeoutSeconds": 60}, postrider={"fifo": True})
    push.publish(topic, *numbers(0, 10))
    push.receiver.wait(4)
    push.modify(name)
    assert "pushEndpoint" not in push.shown(name).get("pushConfig", {})
    received = push.clients.pull_exactly(name, 7)
    assert data(received) == numbers(3, 10), "the one in flight is given back, in its place"
    push.clients.ack(name, received)
    assert push.clients.pull_now(name) == []
    assert len(push.receiver.at()) == 4


def test_many_switches_lose_nothing(push):
    """Publishing goes on while the subscription is now push, now pull, six times over."""
    clients = push.clients
    topic, name = clients.pair()
    push.made.append(name)
    pulled, published = set(), 0

    def publish():
        nonlocal published
        clients.publish(topic, *numbers(published, published + 20))
        published += 20

    for turn in range(3):
        publish()
        push.modify(name, pushEndpoint=push.receiver.url())
        publish()
        push.receiver.wait_until(lambda: len(push.receiver.at()) >= turn * 20 + 10)
        push.modify(name)
        publish()
        received = clients.pull(name, 15)
        clients.ack(name, received)
        pulled |= set(data(received))
    push.modify(name, pushEndpoint=push.receiver.url())

    def missing():
        pushed = {one.data for one in push.receiver.at()}
        return set(numbers(0, published)) - pulled - pushed

    push.receiver.wait_until(lambda: not missing(), what="everything")


def test_an_ack_id_from_before_the_switch_still_counts(push):
    clients = push.clients
    topic, name = clients.pair(ack_deadline_seconds=10)
    push.made.append(name)
    clients.publish(topic, b"held", b"other")
    received = {one.message.data: one for one in clients.pull_exactly(name, 2)}
    clients.nack(name, [received[b"other"]])
    push.modify(name, pushEndpoint=push.receiver.url())
    clients.ack(name, [received[b"held"]])
    assert push.receiver.wait(1)[0].data == b"other"
    push.wait_attempts(name, 1, "?class=ok")
    assert push.pull_from_now_on(name) == []
    push.publish(topic, b"marker")
    assert data(clients.pull_exactly(name, 1)) == [b"marker"]
    assert len(push.receiver.at()) == 1


def test_switching_away_ends_the_request_in_flight(push):
    push.receiver.on("/push", never)
    topic, name = push.pair(config={"timeoutSeconds": 300})
    push.publish(topic, b"x")
    (request,) = push.receiver.wait(1)
    push.modify(name)
    push.receiver.wait_until(lambda: request.gone, 5, "the end of the request")
    assert data(push.clients.pull_exactly(name, 1)) == [b"x"]


def test_a_new_endpoint_gets_everything_from_then_on(push):
    push.receiver.on("/old", never)
    topic, name = push.pair("/old", config={"timeoutSeconds": 300}, postrider={"fifo": True})
    push.publish(topic, b"1", b"2")
    (request,) = push.receiver.wait(1, "/old")
    push.clients.update(
        name, ["push_config"], push_config={"push_endpoint": push.receiver.url("/new")}
    )
    assert [one.data for one in push.receiver.wait(2, "/new")] == [b"1", b"2"]
    push.receiver.wait_until(lambda: request.gone, 5, "the end of the request")
    assert len(push.receiver.at("/old")) == 1


# Deletion.


def test_deletion_stops_its_requests_at_once(push):
    push.receiver.on("/gone", never)
    topic, name = push.pair("/gone", config={"timeoutSeconds": 300})
    other = push.subscribe(topic, "/stays")
    push.publish(topic, b"1")
    (request,) = push.receiver.wait(1, "/gone")
    push.rest.ok("DELETE", f"/v1/{name}")
    push.receiver.wait_until(lambda: request.gone, 5, "the end of the request")
    push.publish(topic, b"2")
    push.wait_attempts(other, 2, "?class=ok")
    assert len(push.receiver.at("/gone")) == 1
    assert push.rest.get(f"/v1/{name}/attempts").code == 404


def test_a_deleted_subscription_that_waits_for_a_retry_is_forgotten(push):
    push.receiver.on("/gone", 500)
    topic, name = push.pair("/gone", retryPolicy=retry(0.5))
    push.publish(topic, b"1")
    push.receiver.wait(1, "/gone")
    push.rest.ok("DELETE", f"/v1/{name}")
    # Another subscription's later retry comes: by then the deleted one's would have come.
    push.receiver.on("/stays", 500, 200)
    topic, other = push.pair("/stays", retryPolicy=retry(1))
    push.publish(topic, b"2")
    push.receiver.wait(2, "/stays")
    assert len(push.receiver.at("/gone")) == 1


def test_a_new_subscription_of_the_same_name_is_another_one(push):
    push.receiver.on("/old", 500)
    topic, name = push.pair("/old", retryPolicy=retry(0.5))
    push.publish(topic, b"old")
    push.receiver.wait(1, "/old")
    push.rest.ok("DELETE", f"/v1/{name}")
    push.rest.subscription(name, topic, pushConfig={"pushEndpoint": push.receiver.url("/new")})
    push.publish(topic, b"new")
    assert push.receiver.wait(1, "/new")[0].data == b"new"
    (attempt,) = push.wait_attempts(name, 1)
    assert attempt["class"] == "ok"


# Pause and resume.


def test_a_paused_subscription_pushes_nothing_and_keeps_its_backlog(push):
    topic, name = push.pair(postrider={"paused": True})
    other = push.subscribe(topic, "/other")
    push.publish(topic, *numbers(0, 5))
    push.wait_attempts(other, 5, "?class=ok")
    assert push.receiver.at() == []
    set_paused(push, name, False)
    assert sorted(one.data for one in push.receiver.wait(5)) == numbers(0, 5)


def test_a_pause_lets_the_request_in_flight_finish(push):
    gate = Gate()
    push.receiver.on("/push", gate.hold)
    topic, name = push.pair(postrider={"fifo": True})
    push.publish(topic, b"1", b"2")
    push.receiver.wait(1)
    set_paused(push, name, True)
    gate.open()
    until(lambda: push.receiver.at()[0].answered or push.receiver.at()[0].gone)
    set_paused(push, name, False)
    push.receiver.wait_until(lambda: push.receiver.at()[-1].data == b"2")
    came = [one.data for one in push.receiver.at()]
    assert came in ([b"1", b"2"], [b"1", b"1", b"2"])


def test_a_retry_does_not_fire_while_paused(push):
    push.receiver.on("/push", 500, 200)
    topic, name = push.pair(retryPolicy=retry(0.5))
    push.publish(topic, b"x")
    push.receiver.wait(1)
    push.wait_attempts(name, 1)
    set_paused(push, name, True)
    push.receiver.on("/other", 500, 200)
    other_topic, _ = push.pair("/other", retryPolicy=retry(1))
    push.publish(other_topic, b"y")
    push.receiver.wait(2, "/other")
    assert len(push.receiver.at()) == 1
    set_paused(push, name, False)
    assert push.receiver.wait(2)[1].data == b"x"


def test_a_pause_survives_a_crash(own_push):
    push = own_push
    topic, name = push.pair(postrider={"paused": True})
    other = push.subscribe(topic, "/other")
    push.publish(topic, b"x")
    push.receiver.wait(1, "/other")
    push.restart("kill")
    push.publish(topic, b"y")
    push.receiver.wait_until(
        lambda: any(one.data == b"y" for one in push.receiver.at("/other")), what="the other's"
    )
    assert push.receiver.at() == []
    set_paused(push, name, False)
    assert sorted(one.data for one in push.receiver.wait(2)) == [b"x", b"y"]
    assert other


# Filters, seeks.


def test_only_what_the_filter_takes_is_pushed(push):
    topic, name = push.pair(filter='attributes.kind = "paid"')
    for n in range(6):
        push.publish(topic, b"%d" % n, kind="paid" if n % 2 else "sent")
    came = push.receiver.wait(3)
    push.wait_attempts(name, 3, "?class=ok")
    assert sorted(one.data for one in came) == [b"1", b"3", b"5"]
    assert push.pull_from_now_on(name) == []
    assert len(push.receiver.at()) == 3


def test_a_seek_back_pushes_again(push):
    topic, name = push.pair(retainAckedMessages=True)
    push.publish(topic, b"1", b"2")
    push.receiver.wait(2)
    push.wait_attempts(name, 2, "?class=ok")
    push.rest.ok("POST", f"/v1/{name}:seek", {"time": "2020-01-01T00:00:00Z"})
    came = push.receiver.wait(4)
    assert sorted(one.data for one in came[2:]) == [b"1", b"2"]


def test_a_seek_forward_forgets_what_waits_for_a_retry(push):
    push.receiver.on("/push", 500, 200)
    topic, name = push.pair(retryPolicy=retry(0.5))
    push.publish(topic, b"x")
    push.receiver.wait(1)
    push.wait_attempts(name, 1)
    now = datetime.datetime.now(datetime.timezone.utc).isoformat()
    push.rest.ok("POST", f"/v1/{name}:seek", {"time": now.replace("+00:00", "Z")})
    push.receiver.on("/other", 500, 200)
    other_topic, _ = push.pair("/other", retryPolicy=retry(1))
    push.publish(other_topic, b"y")
    push.receiver.wait(2, "/other")
    assert len(push.receiver.at()) == 1
