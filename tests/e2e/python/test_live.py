"""Live subscriptions: the official client publishes, plain HTTP registers and streams."""

import base64
import itertools
import json

import pytest

from live import SUBSCRIPTIONS, Stream, register, registration
from rest import Rest

gateways = (f"edge-{number}" for number in itertools.count(1))


@pytest.fixture
def gateway(rest):
    """A gateway's name, and its end."""
    name = next(gateways)
    yield name
    closed = rest.call("DELETE", f"/internal/v1/gateways/{name}/subscriptions")
    assert closed.code == 200, closed


def live_topic(clients):
    name = f"{clients.project}/topics/changes"
    clients.publisher.create_topic(
        request={"name": name, "labels": {"postrider-live": "true"}}
    )
    return name


def publish(clients, topic, document, tenant="blue", collection="rooms/1", **attributes):
    message = {
        "data": json.dumps(document).encode(),
        "attributes": {"tenant": tenant, "collection": collection, **attributes},
    }
    answer = clients.publisher.publish(request={"topic": topic, "messages": [message]})
    return answer.message_ids[0]


def test_a_message_of_the_official_client_comes_with_the_ids_it_is_for(
    server, rest, clients, gateway
):
    topic = live_topic(clients)
    filters = [
        {"field": "data.status", "op": "==", "value": "active"},
        {"field": "data.priority", "op": ">", "value": 5},
    ]
    answer = register(rest, gateway, f"{gateway}-both", filters=filters)
    assert {"subscriptionId", "createdAt", "expiresAt", "bloomFilterVersion"} <= set(answer)
    assert "warning" not in answer
    register(rest, gateway, f"{gateway}-all", ttl=60)
    register(rest, gateway, f"{gateway}-red", tenant="red")
    with Stream(server, gateway) as stream:
        id = publish(clients, topic, {"status": "active", "priority": 6})
        frame = stream.next()
        assert frame["offset"] == frame["message"]["messageId"] == id
        assert sorted(frame["subscriptionIds"]) == [f"{gateway}-all", f"{gateway}-both"]
        document = json.loads(base64.b64decode(frame["message"]["data"]))
        assert document == {"status": "active", "priority": 6}
        publish(clients, topic, {"status": "active", "priority": 5})
        after = stream.next()
        assert after["subscriptionIds"] == [f"{gateway}-all"]
        assert after["sequence"] == frame["sequence"] + 1
    # A broken stream costs nothing: the next one goes on behind what was seen.
    with Stream(server, gateway, last=frame["sequence"]) as stream:
        assert stream.next() == after
    with Stream(server, gateway, query=f"?topic={topic}&offset={id}") as stream:
        assert stream.next()["offset"] == after["offset"]


def test_changes_tell_what_enters_and_leaves(server, rest, grpc_clients, gateway):
    topic = live_topic(grpc_clients)
    register(rest, gateway, f"{gateway}-open", filter="data.state == 'open'")
    with Stream(server, gateway) as stream:
        old = {"state": "open"}
        publish(grpc_clients, topic, {"state": "done"}, old=json.dumps(old))
        assert stream.next()["changes"] == {f"{gateway}-open": "leave"}
        publish(grpc_clients, topic, old, old=json.dumps({"state": "done"}))
        assert stream.next()["changes"] == {f"{gateway}-open": "enter"}


def test_the_same_again_renews_and_other_content_is_refused(rest, gateway):
    id = f"{gateway}-s"
    register(rest, gateway, id)
    assert rest.post(SUBSCRIPTIONS, registration(gateway, id, ttl=600)).code == 200
    other = rest.post(SUBSCRIPTIONS, registration(gateway, id, collection="rooms/2"))
    assert (other.code, other.json["error"]["code"]) == (409, "SUBSCRIPTION_EXISTS")
    theirs = rest.call(
        "PUT", f"{SUBSCRIPTIONS}/{id}/heartbeat", headers={"x-gateway-id": "somebody"}
    )
    assert (theirs.code, theirs.json["error"]["code"]) == (403, "NOT_OWNER")
    for _ in range(2):
        assert rest.call("DELETE", f"{SUBSCRIPTIONS}/{id}").code == 204


def test_a_producer_learns_what_is_wanted(rest, gateway):
    path = f"/internal/v1/interest?tenant=blue&collection={gateway}"
    register(rest, gateway, f"{gateway}-s", collection=gateway, filter="data.kind == 'a'")
    answer = rest.get(path)
    assert (answer.json["kind"], len(answer.json["keys"])) == ("exact", 1)
    assert not answer.json["matchAll"]
    same = rest.call("GET", path, headers={"if-none-match": answer.headers["etag"]})
    assert (same.code, same.text) == (304, "")
    register(rest, gateway, f"{gateway}-all", collection=gateway)
    changed = rest.call("GET", path, headers={"if-none-match": answer.headers["etag"]})
    assert changed.code == 200 and changed.json["matchAll"]


def test_after_a_restart_the_stream_asks_to_register_again(own_server, connect):
    rest, clients = Rest(own_server), connect()
    topic = live_topic(clients)
    register(rest, "edge", "s")
    with Stream(own_server, "edge") as stream:
        publish(clients, topic, {})
        last = stream.next()["sequence"]
        own_server.kill()
    own_server.start()
    with Stream(own_server, "edge", last=last) as stream:
        assert stream.next()["type"] == "register"
        assert stream.next()["type"] == "resync"
        assert register(rest, "edge", "s")["subscriptionId"] == "s"
        publish(connect(), topic, {})
        assert stream.next()["subscriptionIds"] == ["s"]


def test_a_durable_subscription_may_have_a_filter_in_the_cel_spelling(rest, grpc_clients):
    clients = grpc_clients
    topic = f"{clients.project}/topics/orders"
    clients.publisher.create_topic(request={"name": topic})
    path = f"/v1/{clients.project}/subscriptions/large"
    body = {"topic": topic, "postrider": {"filter": "data.total >= 100 && has(data.customer)"}}
    made = rest.put(path, body)
    assert made.code == 200, made
    assert made.json["postrider"]["filter"] == body["postrider"]["filter"]
    assert "filter" not in made.json
    for document in ({"total": 99, "customer": 1}, {"total": 100}, {"total": 100.5, "customer": 0}):
        publish(clients, topic, document)
    pulled = clients.subscriber.pull(
        request={"subscription": path.removeprefix("/v1/"), "max_messages": 10}
    )
    documents = [json.loads(one.message.data) for one in pulled.received_messages]
    assert documents == [{"total": 100.5, "customer": 0}]
    body["filter"] = "attributes:a"
    both = rest.put(f"{path}-2", body)
    assert (both.code, both.status) == (400, "INVALID_ARGUMENT")
    assert "postrider.filter" in both.message
