"""FIFO for a whole subscription, lanes by attribute, and the warnings about them."""

import grpc
import pytest
from google.pubsub_v1.types import Subscription

from rest import Rest
from statuses import refused
from streams import opened
from waiting import data

SPELLINGS = {
    "postrider.fifo": {"postrider": {"fifo": True}},
    "fifoMode": {"fifoMode": True},
    "fifo_mode": {"fifo_mode": True},
    "label": {"labels": {"postrider-fifo": "true"}},
}


@pytest.fixture
def fifo(grpc_clients, rest):
    topic, name = grpc_clients.topic(), grpc_clients.subscription_name()
    rest.subscription(name, topic, postrider={"fifo": True})
    return grpc_clients, topic, name


def patch(rest, name, mask, **fields):
    return rest.ok("PATCH", f"/v1/{name}", {"subscription": fields, "updateMask": mask})


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_fifo_can_be_asked_for_in_every_spelling(rest, grpc_clients, spelling):
    topic, name = grpc_clients.topic(), grpc_clients.subscription_name()
    made = rest.subscription(name, topic, **SPELLINGS[spelling])
    assert made["postrider"]["fifo"] is True
    assert made["fifo_mode"] is True
    assert any("FIFO" in warning for warning in made["warnings"])
    shown = rest.ok("GET", f"/v1/{name}")
    assert shown["fifo_mode"] is True
    assert "warnings" not in shown


def test_a_label_and_the_object_that_disagree_are_refused(rest, grpc_clients):
    topic, name = grpc_clients.topic(), grpc_clients.subscription_name()
    body = {"topic": topic, "labels": {"postrider-fifo": "false"}, "postrider": {"fifo": True}}
    answer = rest.put(f"/v1/{name}", body)
    assert (answer.code, answer.status) == (400, "INVALID_ARGUMENT")
    assert "postrider-fifo" in answer.message


def test_all_messages_are_one_lane(fifo):
    clients, topic, name = fifo
    messages = [{"data": b"%d" % n, "ordering_key": f"k{n % 3}"} for n in range(20)]
    clients.publish_messages(topic, *messages)
    first = clients.pull_exactly(name, 3)
    assert data(first) == [b"0", b"1", b"2"]
    assert clients.pull_now(name) == [], "the lane belongs to the first pull"
    clients.ack(name, first)
    with opened(clients, name) as stream:
        assert data(stream.take(17)) == [b"%d" % n for n in range(3, 20)]


def test_a_nack_brings_back_everything_behind_it(fifo):
    clients, topic, name = fifo
    clients.publish(topic, b"1", b"2", b"3")
    received = clients.pull_exactly(name, 3)
    clients.ack(name, received[1:])
    clients.nack(name, received[:1])
    again = clients.pull_exactly(name, 3)
    assert data(again) == [b"1", b"2", b"3"]
    clients.ack(name, again)
    assert clients.pull_now(name) == []


def test_two_streams_never_hold_it_together(fifo):
    clients, topic, name = fifo
    with opened(clients, name) as one, opened(clients, name) as two:
        got = []
        for n in range(10):
            clients.publish(topic, b"%d" % n)
        while len(got) < 10:
            for stream in (one, two):
                if stream.waiting():
                    received = stream.take(1)
                    got += data(received)
                    stream.ack(received)
        assert got == [b"%d" % n for n in range(10)]


def test_turned_on_it_holds_from_then_on_with_a_warning(rest, grpc_clients):
    clients = grpc_clients
    topic, name = clients.pair()
    clients.publish(topic, b"1")
    before = clients.pull_exactly(name, 1)
    changed = patch(rest, name, "postrider.fifo", postrider={"fifo": True})
    assert any("throughput" in warning for warning in changed["warnings"])
    clients.ack(name, before)
    clients.publish(topic, b"2", b"3", b"4")
    held = clients.pull_exactly(name, 1)
    assert data(held) == [b"2"]
    assert clients.pull_now(name) == []
    clients.ack(name, held)
    assert data(clients.pull_exactly(name, 2)) == [b"3", b"4"]


def test_turned_off_it_warns_while_messages_are_outstanding(rest, fifo):
    clients, topic, name = fifo
    changed = patch(rest, name, "fifoMode", fifoMode=False)
    assert "warnings" not in changed, "nothing was outstanding"
    patch(rest, name, "fifo_mode", fifo_mode=True)
    clients.publish(topic, b"1", b"2", b"3")
    held = clients.pull_exactly(name, 1)
    changed = patch(rest, name, "postrider.fifo", postrider={"fifo": False})
    assert changed["fifo_mode"] is False
    assert any("outstanding" in warning for warning in changed["warnings"])
    assert set(data(clients.pull_exactly(name, 2))) == {b"2", b"3"}
    clients.ack(name, held)


def test_grpc_gets_warnings_behind_the_answer_and_clears_nothing(rest, grpc_clients):
    topic, name = grpc_clients.topic(), grpc_clients.subscription_name()
    create = grpc_clients.channel.unary_unary(
        "/google.pubsub.v1.Subscriber/CreateSubscription",
        request_serializer=Subscription.serialize,
        response_deserializer=Subscription.deserialize,
    )
    wanted = Subscription(name=name, topic=topic, labels={"postrider-fifo": "true"})
    made, call = create.with_call(wanted, timeout=30)
    assert made.name == name
    warnings = [value for key, value in call.trailing_metadata() if key == "postrider-warning"]
    assert any("FIFO" in warning for warning in warnings), call.trailing_metadata()
    assert call.code() == grpc.StatusCode.OK
    grpc_clients.update(name, ["ack_deadline_seconds"], ack_deadline_seconds=30)
    assert rest.ok("GET", f"/v1/{name}")["fifo_mode"] is True


def test_lanes_by_an_attribute(rest, grpc_clients):
    clients = grpc_clients
    topic, name = clients.topic(), clients.subscription_name()
    made = rest.subscription(name, topic, postrider={"laneBy": "customer"})
    assert made["postrider"]["laneBy"] == "customer"
    ann = [{"data": b"a%d" % n, "attributes": {"customer": "ann"}} for n in range(3)]
    bob = [{"data": b"b%d" % n, "attributes": {"customer": "bob"}} for n in range(3)]
    clients.publish_messages(topic, ann[0], bob[0], ann[1], bob[1], {"data": b"nobody"})
    received = {one.message.data: one for one in clients.pull_exactly(name, 5)}
    clients.ack(name, [received[b"a1"], received[b"b0"], received[b"b1"], received[b"nobody"]])
    clients.nack(name, [received[b"a0"]])
    assert data(clients.pull_exactly(name, 2)) == [b"a0", b"a1"]
    clients.publish_messages(topic, ann[2], bob[2])
    assert data(clients.pull_exactly(name, 1)) == [b"b2"]


def test_lanes_by_attribute_and_another_order_are_refused(rest, grpc_clients):
    topic, name = grpc_clients.topic(), grpc_clients.subscription_name()
    for fields in (
        {"postrider": {"laneBy": "customer", "fifo": True}},
        {"postrider": {"laneBy": "customer"}, "enableMessageOrdering": True},
        {"postrider": {"laneBy": ""}, "fifoMode": "yes"},
    ):
        answer = rest.put(f"/v1/{name}", {"topic": topic, **fields})
        assert (answer.code, answer.status) == (400, "INVALID_ARGUMENT"), answer
    with refused("NOT_FOUND"):
        grpc_clients.get(name)


def test_fifo_and_its_lane_survive_a_crash(own_server, connect):
    clients, rest = connect(), Rest(own_server)
    topic, name = clients.topic(), clients.subscription_name()
    rest.subscription(name, topic, postrider={"fifo": True})
    clients.publish(topic, b"1", b"2", b"3")
    received = clients.pull_exactly(name, 3)
    clients.ack(name, received[:1])
    clients.ack(name, received[2:])
    clients.publish(topic, b"4")
    own_server.restart("kill")
    clients = connect()
    assert rest.ok("GET", f"/v1/{name}")["postrider"]["fifo"] is True
    left = clients.pull_exactly(name, 3)
    assert data(left) == [b"2", b"3", b"4"]
    clients.nack(name, left[:1])
    assert data(clients.pull_exactly(name, 3)) == [b"2", b"3", b"4"]
