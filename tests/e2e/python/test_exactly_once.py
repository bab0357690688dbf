"""Exactly-once: acks that stick, ids that count no more, confirmations on the stream."""

import pytest
from google.api_core import exceptions
from google.cloud import pubsub_v1
from google.cloud.pubsub_v1.subscriber.exceptions import AcknowledgeError, AcknowledgeStatus
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from statuses import status_of
from streams import opened
from waiting import data, until

VOID = "PERMANENT_FAILURE_INVALID_ACK_ID"


def once(clients, **fields):
    topic = clients.topic()
    return topic, clients.subscription(topic, enable_exactly_once_delivery=True, **fields)


def error_info(error):
    """Reason, domain and metadata of the one detail of a refused call."""
    if hasattr(error.response, "json"):
        (detail,) = error.response.json()["error"]["details"]
        assert detail["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
        return detail["reason"], detail["domain"], detail["metadata"]
    (detail,) = rpc_status.from_call(error.response).details
    info = error_details_pb2.ErrorInfo()
    assert detail.Unpack(info)
    return info.reason, info.domain, dict(info.metadata)


def void_ids(call):
    """The ids that a call, which must be refused, reports as void."""
    with pytest.raises(exceptions.GoogleAPICallError) as raised:
        call()
    assert status_of(raised.value) == "INVALID_ARGUMENT", str(raised.value)
    reason, domain, metadata = error_info(raised.value)
    assert (reason, domain) == ("EXACTLY_ONCE_ACKID_FAILURE", "pubsub.googleapis.com")
    assert set(metadata.values()) == {VOID}
    return set(metadata)


def ack_ids(received):
    return {one.ack_id for one in received}


def test_the_setting_is_shown_and_can_be_changed(clients):
    topic, name = once(clients)
    assert clients.get(name).enable_exactly_once_delivery
    path = "enable_exactly_once_delivery"
    assert not clients.update(name, [path]).enable_exactly_once_delivery
    clients.publish(topic, b"x")
    received = clients.pull_exactly(name, 1)
    clients.nack(name, received)
    clients.ack(name, received)
    assert clients.pull_now(name) == [], "without exactly-once a late ack counts"
    assert clients.update(
        name, [path], enable_exactly_once_delivery=True
    ).enable_exactly_once_delivery


def test_an_ack_that_was_answered_survives_the_next_moment(own_server, connect):
    """No barrier, no pause: the answer alone means that it is on disk."""
    clients = connect()
    topic, name = once(clients)
    for round in range(5):
        clients.publish(topic, *[b"%d-%d" % (round, n) for n in range(20)])
        clients.ack(name, clients.pull_exactly(name, 20))
        own_server.restart("kill")
        clients = connect()
        assert clients.pull_now(name) == [], f"round {round}"


def test_void_ids_are_refused_by_name_and_the_others_count(clients):
    topic, name = once(clients)
    _, other = once(clients)
    clients.publish(topic, b"given back", b"expired", b"acked")
    received = {one.message.data: one for one in clients.pull_exactly(name, 3)}
    clients.modify(name, [received[b"given back"]], 0)
    clients.modify(name, [received[b"expired"]], 1)
    again = {one.message.data: one for one in clients.pull_exactly(name, 2)}
    assert set(again) == {b"given back", b"expired"}
    good = received[b"acked"].ack_id
    bad = {received[b"given back"].ack_id, received[b"expired"].ack_id, "rubbish"}
    request = {"subscription": name, "ack_ids": [*bad, good]}
    assert void_ids(lambda: clients.subscriber.acknowledge(request=request)) == bad
    request = {"subscription": name, "ack_ids": list(bad), "ack_deadline_seconds": 30}
    assert void_ids(lambda: clients.subscriber.modify_ack_deadline(request=request)) == bad
    request = {"subscription": other, "ack_ids": [good]}
    assert void_ids(lambda: clients.subscriber.acknowledge(request=request)) == {good}
    # The good one was acked beside the bad ones, and saying so again is no error.
    clients.ack(name, [received[b"acked"]])
    clients.ack(name, list(again.values()))
    assert clients.pull_now(name) == []


def test_hundreds_of_void_ids_are_all_named(clients):
    topic, name = once(clients)
    clients.publish(topic, *[b"%d" % n for n in range(500)])
    received = clients.pull_exactly(name, 500)
    clients.nack(name, received)
    request = {"subscription": name, "ack_ids": list(ack_ids(received))}
    assert void_ids(lambda: clients.subscriber.acknowledge(request=request)) == ack_ids(received)


def test_without_exactly_once_rubbish_is_simply_invalid(clients):
    _, name = clients.pair()
    with pytest.raises(exceptions.GoogleAPICallError) as raised:
        clients.subscriber.acknowledge(request={"subscription": name, "ack_ids": ["rubbish"]})
    assert status_of(raised.value) == "INVALID_ARGUMENT"


def test_ids_from_before_a_restart_are_void(own_server, connect):
    clients = connect()
    topic, name = once(clients)
    clients.publish(topic, b"x")
    before = clients.pull_exactly(name, 1)
    own_server.restart("kill")
    clients = connect()
    request = {"subscription": name, "ack_ids": list(ack_ids(before))}
    assert void_ids(lambda: clients.subscriber.acknowledge(request=request)) == ack_ids(before)
    again = clients.pull_exactly(name, 1)
    assert data(again) == [b"x"]
    clients.ack(name, again)
    assert clients.pull_now(name) == []


def test_nothing_comes_again_while_its_lease_lasts(grpc_clients):
    clients = grpc_clients
    topic, name = once(clients)
    clients.publish(topic, b"x")
    received = clients.pull_exactly(name, 1)
    # Shorter first and longer then: the longer one counts.
    clients.modify(name, received, 1)
    clients.modify(name, received, 60)
    with opened(clients, name) as stream:
        clients.publish(topic, b"y")
        stream.ack(stream.take(1))
        stream.confirmed("ack")
        with pytest.raises(exceptions.GoogleAPICallError):
            clients.pull(name, 1, timeout=2)
        assert stream.waiting() == 0
    clients.ack(name, received)


def test_a_stream_confirms_acks_and_deadlines(grpc_clients):
    clients = grpc_clients
    topic, name = once(clients)
    with opened(clients, name) as stream:
        clients.publish(topic, *[b"%d" % n for n in range(6)])
        received = stream.take(6)
        assert stream.properties.exactly_once_delivery_enabled
        assert not stream.properties.message_ordering_enabled
        stream.modify(received[:2], 30)
        assert stream.confirmed("modify") == (ack_ids(received[:2]), set())
        stream.ack(received[:2])
        assert stream.confirmed("ack") == (ack_ids(received[:2]), set())
        stream.nack(received[2:3])
        assert stream.confirmed("modify") == (ack_ids(received[2:3]), set())
        again = stream.take(1)
        stream.send(ack_ids=[received[2].ack_id, again[0].ack_id, "rubbish"])
        assert stream.confirmed("ack") == (ack_ids(again), {received[2].ack_id, "rubbish"})
        stream.modify(received[1:4], 20)
        assert stream.confirmed("modify") == (
            ack_ids(received[3:4]), ack_ids(received[1:3])
        )
        # Many at once: each request gets its own, in any order of getting durable.
        for one in received[3:]:
            stream.ack([one])
        confirmed = set()
        for _ in received[3:]:
            good, bad = stream.confirmed("ack")
            confirmed |= good
            assert not bad
        assert confirmed == ack_ids(received[3:])
    assert clients.pull_now(name) == []


def test_confirmed_on_the_stream_means_on_disk(own_server, connect):
    clients = connect()
    topic, name = once(clients)
    stream = None
    with opened(clients, name) as stream:
        clients.publish(topic, *[b"%d" % n for n in range(100)])
        received = stream.take(100)
        stream.ack(received)
        confirmed, void = stream.confirmed("ack")
        own_server.restart("kill")
    assert (confirmed, void) == (ack_ids(received), set())
    assert connect().pull_now(name) == []


def test_a_stream_that_sends_acks_without_reading_does_not_fill_the_server(grpc_clients):
    """Void ids by the hundred thousand: the server must confirm each and every one, and live."""
    clients = grpc_clients
    topic, name = once(clients)
    with opened(clients, name) as stream:
        for n in range(100):
            stream.send(ack_ids=[f"rubbish-{n}-{m}" for m in range(1000)])
        void = set()
        for _ in range(100):
            good, bad = stream.confirmed("ack")
            assert not good
            void |= bad
        assert len(void) == 100_000
        clients.publish(topic, b"x")
        assert data(stream.take(1)) == [b"x"]


def test_without_exactly_once_a_stream_confirms_nothing(grpc_clients):
    clients = grpc_clients
    topic, name = clients.pair()
    with opened(clients, name) as stream:
        clients.publish(topic, b"x")
        received = stream.take(1)
        assert not stream.properties.exactly_once_delivery_enabled
        stream.modify(received, 30)
        stream.ack(received)
        clients.publish(topic, b"y")
        stream.take(1)
        assert stream.confirmations.empty()


def test_a_change_of_the_setting_is_told_on_open_streams(grpc_clients):
    clients = grpc_clients
    topic, name = clients.pair()
    with opened(clients, name) as stream:
        clients.publish(topic, b"x")
        first = stream.take(1)
        assert not stream.properties.exactly_once_delivery_enabled
        path = "enable_exactly_once_delivery"
        clients.update(name, [path], enable_exactly_once_delivery=True)
        until(lambda: stream.properties.exactly_once_delivery_enabled)
        stream.ack(first)
        assert stream.confirmed("ack") == (ack_ids(first), set())
        clients.update(name, [path])
        until(lambda: not stream.properties.exactly_once_delivery_enabled)


def test_a_stream_tells_that_messages_are_ordered(grpc_clients):
    topic, name = once(grpc_clients, enable_message_ordering=True)
    with opened(grpc_clients, name) as stream:
        grpc_clients.publish(topic, b"x")
        stream.take(1)
        assert stream.properties.message_ordering_enabled
        assert stream.properties.exactly_once_delivery_enabled


def test_with_an_order_only_what_is_not_confirmed_comes_again(grpc_clients):
    clients = grpc_clients
    topic, name = once(clients, enable_message_ordering=True)
    clients.publish_messages(
        topic, *[{"data": b"%d" % n, "ordering_key": "k"} for n in range(4)]
    )
    received = clients.pull_exactly(name, 4)
    clients.ack(name, received[1:2])
    clients.nack(name, received[:1])
    # The leases behind it stay good: what they hold is not given out twice.
    clients.ack(name, received[2:])
    again = clients.pull_exactly(name, 1)
    assert data(again) == [b"0"]
    clients.ack(name, again)
    assert clients.pull_now(name) == []


def test_the_official_client_gets_its_answers(server, grpc_clients, monkeypatch):
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.address)
    topic, name = once(grpc_clients, ack_deadline_seconds=60)
    subscriber = pubsub_v1.SubscriberClient()
    outcomes = {}

    def callback(message):
        if message.data == b"stale" and b"stale" not in outcomes:
            # Given back behind the client's back, so that its ack comes too late.
            grpc_clients.modify(name, [message], 0)
        try:
            outcomes.setdefault(message.data, message.ack_with_response().result(timeout=30))
        except AcknowledgeError as error:
            outcomes.setdefault(message.data, error.error_code)

    pulling = subscriber.subscribe(name, callback)
    # One after the other: of a request with a void id this client calls all failed.
    for one, outcome in (
        (b"good", AcknowledgeStatus.SUCCESS),
        (b"stale", AcknowledgeStatus.INVALID_ACK_ID),
    ):
        grpc_clients.publish(topic, one)
        assert until(lambda: outcomes.get(one)) == outcome
    pulling.cancel()
    pulling.result(timeout=30)
    subscriber.close()


def test_rest_shows_the_detail_in_google_s_error_body(rest, grpc_clients):
    _, name = once(grpc_clients)
    answer = rest.post(f"/v1/{name}:acknowledge", {"ackIds": ["rubbish"]})
    assert answer.code == 400
    assert answer.json["error"]["details"] == [
        {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "EXACTLY_ONCE_ACKID_FAILURE",
            "domain": "pubsub.googleapis.com",
            "metadata": {"rubbish": VOID},
        }
    ]
