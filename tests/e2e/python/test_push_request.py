"""What a push request holds, byte for byte: envelopes, metadata as headers, own headers, method."""

import base64
import json
import re

import pytest

from push import dead_letter, retry, stamp
from receiver import status
from waiting import Stopwatch

EVERY_BYTE = bytes(range(256))


def one_request(push, message, **fields):
    """What comes for this message; (message id, subscription, request)."""
    topic, name = push.pair(**fields)
    (id,) = push.clients.publish_messages(topic, message)
    (request,) = push.receiver.wait(1)
    return id, name, request


# Wrapped.


def test_the_wrapped_envelope_is_googles(push):
    watch = Stopwatch()
    id, name, request = one_request(
        push,
        {
            "data": EVERY_BYTE,
            "attributes": {"kind": "order", "ünï": "cödé ✓"},
            "ordering_key": "k",
        },
        enableMessageOrdering=True,
    )
    body = request.json
    published = body["message"]["publishTime"]
    assert body == {
        "message": {
            "attributes": {"kind": "order", "ünï": "cödé ✓"},
            "data": base64.b64encode(EVERY_BYTE).decode(),
            "messageId": id,
            "message_id": id,
            "publishTime": published,
            "publish_time": published,
            "orderingKey": "k",
        },
        "subscription": name,
    }
    assert published.endswith("Z")
    assert watch.started - 1 <= stamp(published) <= watch.started + watch.seconds() + 1
    assert request.method == "POST"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["content-length"] == str(len(request.body))
    assert request.headers["host"] == f"127.0.0.1:{push.receiver.port}"


def test_what_is_empty_is_left_out(push):
    _, _, request = one_request(push, {"data": b"x"})
    assert set(request.message) == {
        "data", "messageId", "message_id", "publishTime", "publish_time",
    }
    assert set(request.json) == {"message", "subscription"}


def test_a_message_of_attributes_only(push):
    _, _, request = one_request(push, {"attributes": {"a": ""}})
    assert request.message["attributes"] == {"a": ""}
    assert request.message["data"] == ""


def test_the_delivery_attempt_is_there_with_a_dead_letter_policy(push):
    push.receiver.on("/push", 500, 500, 200)
    topic = push.clients.topic()
    dead = push.clients.topic()
    push.subscribe(topic, deadLetterPolicy=dead_letter(dead), retryPolicy=retry(0.1))
    push.publish(topic, b"x")
    came = push.receiver.wait(3)
    assert [one.json["deliveryAttempt"] for one in came] == [1, 2, 3]
    # All else is the same each time.
    assert len({json.dumps(one.message, sort_keys=True) for one in came}) == 1


def test_a_wrapper_that_is_asked_for_by_name(push):
    id, _, request = one_request(push, {"data": b"x"}, config={"pubsubWrapper": {}})
    assert request.id == id


def test_a_large_message_arrives_whole(push):
    large = EVERY_BYTE * (9 * 1024 * 1024 // 256)
    _, _, request = one_request(push, {"data": large})
    assert request.data == large


def test_the_user_agent_names_program_and_version(push):
    _, _, request = one_request(push, {"data": b"x"})
    assert re.fullmatch(r"postrider-push/\d+\.\d+\.\d+\S*", request.headers["user-agent"])


def test_path_and_query_are_kept(push):
    path = "/a/b%20c?token=abc&x=1%2F2"
    topic, _ = push.pair(path)
    push.publish(topic, b"x")
    assert push.receiver.wait(1, path)[0].data == b"x"


def test_credentials_of_the_endpoint_become_basic_authorization(push):
    topic = push.clients.topic()
    endpoint = push.receiver.url().replace("http://", "http://ann:s%3Acret@")
    push.subscribe(topic, config={"pushEndpoint": endpoint})
    push.publish(topic, b"x")
    (request,) = push.receiver.wait(1)
    wanted = base64.b64encode(b"ann:s:cret").decode()
    assert request.headers["authorization"] == f"Basic {wanted}"


# Unwrapped.


def test_the_body_is_the_data_when_unwrapped(push):
    _, _, request = one_request(
        push,
        {"data": EVERY_BYTE, "attributes": {"kind": "order"}},
        config={"noWrapper": {}},
    )
    assert request.body == EVERY_BYTE
    assert request.headers["content-type"] == "application/octet-stream"
    assert not [name for name in request.headers if name.startswith("x-goog-pubsub-")]
    assert "kind" not in request.headers


def test_a_message_without_data_is_an_empty_body_when_unwrapped(push):
    _, _, request = one_request(push, {"attributes": {"a": "b"}}, config={"noWrapper": {}})
    assert request.body == b""


def test_metadata_is_written_as_headers_when_asked_for(push):
    dead = push.clients.topic()
    id, name, request = one_request(
        push,
        {
            "data": b"x",
            "attributes": {
                "kind": "order",
                # Not legal as header names or values, or not anybody's to set: left out.
                "two words": "1",
                "ünï": "2",
                "injected": "3\r\nx-evil: 4",
                "host": "evil.example",
                "Content-Type": "text/evil",
                "content-encoding": "evil",
                "cookie": "session=evil",
                "Authorization": "Bearer evil",
                "x-forwarded-for": "evil",
                "Content-Length": "999",
                "Transfer-Encoding": "chunked",
                "connection": "close",
                "User-Agent": "evil",
                "webhook-signature": "v1,evil",
                "postrider-sequence": "1",
            },
            "ordering_key": "k",
        },
        config={"noWrapper": {"writeMetadata": True}},
        enableMessageOrdering=True,
        deadLetterPolicy=dead_letter(dead),
        retryPolicy=retry(1),
    )
    headers = request.headers
    assert request.body == b"x"
    # Google's header has the full name; the short one of some emulators would be wrong.
    assert headers["x-goog-pubsub-subscription-name"] == name
    assert headers["x-goog-pubsub-message-id"] == id
    assert stamp(headers["x-goog-pubsub-publish-time"]) > 0
    assert headers["x-goog-pubsub-ordering-key"] == "k"
    assert headers["x-goog-pubsub-delivery-attempt"] == "1"
    assert headers["kind"] == "order"
    assert headers["content-type"] == "application/octet-stream"
    assert headers["host"] == f"127.0.0.1:{push.receiver.port}"
    assert headers["content-length"] == "1"
    assert headers["user-agent"].startswith("postrider-push/")
    assert headers["postrider-sequence"] == id
    for left_out in ("two words", "injected", "x-evil", "transfer-encoding", "webhook-signature"):
        assert left_out not in headers
    assert not any("evil" in value for value in headers.values()), headers


# Own headers and method.


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_the_method_may_be_chosen(push, method):
    _, _, request = one_request(push, {"data": b"x"}, postrider={"method": method})
    assert request.method == method
    assert request.data == b"x"


def test_own_headers_are_sent_with_every_request(push):
    push.receiver.on("/push", 500, 200)
    topic, name = push.pair(
        retryPolicy=retry(0.1),
        postrider={"headers": {"X-Team": "blue", "Authorization": "Bearer abc"}},
    )
    push.publish(topic, b"x")
    for request in push.receiver.wait(2):
        assert request.headers["x-team"] == "blue"
        assert request.headers["authorization"] == "Bearer abc"
    # Changed by name, in the mask, all else kept.
    push.patch(name, "postrider.headers", postrider={"headers": {"X-Team": "red"}})
    push.publish(topic, b"y")
    request = push.receiver.wait(3)[2]
    assert request.headers["x-team"] == "red"
    assert "authorization" not in request.headers


def test_an_own_content_type_wins(push):
    _, _, request = one_request(
        push,
        {"data": b"{}"},
        config={"noWrapper": {}},
        postrider={"headers": {"Content-Type": "application/cloudevents+json"}},
    )
    assert request.headers["content-type"] == "application/cloudevents+json"


def test_subscriptions_share_a_message_and_not_each_others_settings(push):
    topic = push.clients.topic()
    one = push.subscribe(topic, "/one", postrider={"headers": {"X-Team": "blue"}})
    two = push.subscribe(topic, "/two", config={"noWrapper": {}})
    three = push.subscribe(topic, "/three")
    push.publish(topic, b"x")
    assert push.receiver.wait(1, "/one")[0].json["subscription"] == one
    assert push.receiver.wait(1, "/one")[0].headers["x-team"] == "blue"
    assert push.receiver.wait(1, "/two")[0].body == b"x"
    assert push.receiver.wait(1, "/three")[0].json["subscription"] == three
    assert "x-team" not in push.receiver.at("/three")[0].headers
    assert two


def test_connections_are_kept_for_the_next_request(push):
    push.receiver.on("/push", status(200, body=b"fine"))
    topic, name = push.pair(postrider={"fifo": True})
    push.publish(topic, *[b"x"] * 50)
    push.receiver.wait(50)
    assert push.receiver.connected <= 5, "a connection for every request"
