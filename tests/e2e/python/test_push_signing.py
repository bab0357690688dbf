"""Standard Webhooks signatures, checked with a key and an HMAC of the test's own."""

import base64
import hashlib
import hmac
import time

import pytest

from push import retry, stamp

DAY_SECONDS = 24 * 3600


def secret_of(raw):
    return "whsec_" + base64.b64encode(raw).decode()


def sign(secret, id, timestamp, body):
    key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    signed = f"{id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def signatures(request):
    return request.headers["webhook-signature"].split(" ")


def wanted(secret, request):
    headers = request.headers
    return sign(secret, headers["webhook-id"], headers["webhook-timestamp"], request.body)


def assert_signed(request, *secrets):
    """Signed with exactly these secrets, now, for this message."""
    assert sorted(signatures(request)) == sorted(wanted(secret, request) for secret in secrets)
    assert abs(int(request.headers["webhook-timestamp"]) - request.arrived) <= 5


def signed_pair(push, signing, **postrider):
    """Topic, subscription, and the secret that the answer shows."""
    topic = push.clients.topic()
    made = push.create(topic, retryPolicy=retry(0.1), postrider={"signing": signing, **postrider})
    return topic, made["name"], made["postrider"]["signing"]["secret"]


def rotate(push, name, body=None):
    return push.rest.ok("POST", f"/v1/{name}:rotateSecret", body or {})


def test_a_signature_that_anybody_with_the_secret_can_check(push):
    topic, name, secret = signed_pair(push, {})
    assert secret.startswith("whsec_")
    assert 24 <= len(base64.b64decode(secret.removeprefix("whsec_"))) <= 64
    (id,) = push.publish(topic, b"x")
    (request,) = push.receiver.wait(1)
    assert request.headers["webhook-id"] == id
    assert_signed(request, secret)


def test_the_tests_own_arithmetic_agrees_with_a_published_example():
    secret, id = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek"
    signature = sign(secret, id, 1614265330, b'{"test": 2432232314}')
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_secret_of_ones_own(push):
    mine = secret_of(bytes(range(32)))
    topic, name, secret = signed_pair(push, {"secret": mine})
    assert secret == mine
    push.publish(topic, b"x")
    assert_signed(push.receiver.wait(1)[0], mine)


@pytest.mark.parametrize("push_config", [{"noWrapper": {}}, {"pubsubWrapper": {}}], ids=str)
def test_the_body_as_it_is_sent_is_signed(push, push_config):
    topic = push.clients.topic()
    made = push.create(topic, config=push_config, postrider={"signing": {}})
    push.publish(topic, bytes(range(256)))
    assert_signed(push.receiver.wait(1)[0], made["postrider"]["signing"]["secret"])


def test_a_retry_has_the_same_id_and_a_time_of_its_own(push):
    push.receiver.on("/push", 500, 200)
    topic = push.clients.topic()
    made = push.create(topic, retryPolicy=retry(1.5), postrider={"signing": {}})
    push.publish(topic, b"x")
    first, second = push.receiver.wait(2)
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert int(first.headers["webhook-timestamp"]) < int(second.headers["webhook-timestamp"])
    for request in (first, second):
        assert_signed(request, made["postrider"]["signing"]["secret"])


def test_the_secret_is_shown_once(push):
    topic, name, secret = signed_pair(push, {})
    shown = push.shown(name)
    assert shown["postrider"]["signing"] == {}
    listed = push.rest.ok("GET", f"/v1/{name.split('/subscriptions')[0]}/subscriptions")
    assert secret not in str(listed)
    changed = push.patch(name, "ackDeadlineSeconds", ackDeadlineSeconds=30)
    assert secret not in str(changed)
    # Asking for what is on already keeps the secret, and does not show it.
    again = push.patch(name, "postrider.signing", postrider={"signing": {}})
    assert again["postrider"]["signing"] == {}
    push.publish(topic, b"x")
    assert_signed(push.receiver.wait(1)[0], secret)
    assert secret not in push.server.log.read_text(errors="replace")


def test_without_signing_nothing_is_signed(push):
    topic, name = push.pair()
    assert "signing" not in push.shown(name)["postrider"]
    push.publish(topic, b"x")
    (request,) = push.receiver.wait(1)
    assert "webhook-signature" not in request.headers


def test_signing_is_turned_on_and_off_later(push):
    topic, name = push.pair()
    on = push.patch(name, "postrider.signing", postrider={"signing": {}})
    secret = on["postrider"]["signing"]["secret"]
    push.publish(topic, b"1")
    assert_signed(push.receiver.wait(1)[0], secret)
    off = push.patch(name, "postrider.signing", postrider={"signing": None})
    assert "signing" not in off["postrider"]
    push.publish(topic, b"2")
    assert "webhook-signature" not in push.receiver.wait(2)[1].headers


def test_after_a_rotation_both_secrets_count_for_a_day(push):
    topic, name, old = signed_pair(push, {})
    before = time.time()
    answer = rotate(push, name)
    new = answer["secret"]
    assert new != old and new.startswith("whsec_")
    until = stamp(answer["previousValidUntil"])
    assert before + DAY_SECONDS - 5 <= until <= time.time() + DAY_SECONDS + 5
    shown = push.shown(name)["postrider"]["signing"]
    assert stamp(shown.pop("previousValidUntil")) == until
    assert shown == {}
    push.publish(topic, b"x")
    assert_signed(push.receiver.wait(1)[0], old, new)


def test_a_second_rotation_within_the_day_keeps_the_first_secret(push):
    topic, name, first = signed_pair(push, {})
    second = rotate(push, name)["secret"]
    answer = rotate(push, name)
    shown = push.shown(name)["postrider"]["signing"]
    assert shown == {"previousValidUntil": answer["previousValidUntil"]}
    push.publish(topic, b"x")
    assert_signed(push.receiver.wait(1)[0], first, second, answer["secret"])


def test_a_rotation_to_a_secret_of_ones_own(push):
    topic, name, old = signed_pair(push, {})
    mine = secret_of(b"m" * 24)
    assert rotate(push, name, {"secret": mine})["secret"] == mine
    push.publish(topic, b"x")
    assert_signed(push.receiver.wait(1)[0], old, mine)


@pytest.mark.parametrize("how", ["term", "kill"])
def test_secrets_survive_a_restart(own_push, how):
    push = own_push
    topic, name, old = signed_pair(push, {})
    new = rotate(push, name)["secret"]
    push.restart(how)
    push.publish(topic, b"x")
    assert_signed(push.receiver.wait(1)[0], old, new)


def test_an_update_over_grpc_keeps_the_secret(push):
    topic, name, secret = signed_pair(push, {})
    push.clients.update(name, ["ack_deadline_seconds"], ack_deadline_seconds=44)
    push.clients.subscriber.modify_push_config(
        request={
            "subscription": name,
            "push_config": {"push_endpoint": push.receiver.url("/elsewhere")},
        }
    )
    push.publish(topic, b"x")
    assert_signed(push.receiver.wait(1, "/elsewhere")[0], secret)


def test_nothing_to_rotate(push):
    topic, name = push.pair()
    answer = push.rest.post(f"/v1/{name}:rotateSecret", {})
    assert (answer.code, answer.status) == (400, "FAILED_PRECONDITION"), answer
    missing = push.rest.post(f"/v1/{push.clients.subscription_name()}:rotateSecret", {})
    assert (missing.code, missing.status) == (404, "NOT_FOUND")


BAD = {
    "no prefix": base64.b64encode(b"x" * 32).decode(),
    "not base64": "whsec_!!!!",
    "too short": secret_of(b"x" * 23),
    "too long": secret_of(b"x" * 65),
    "empty": "",
    "a number": 5,
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_secret_is_refused_by_name_and_not_repeated(push, what):
    topic, name, _ = signed_pair(push, {})
    made = push.refusal(
        topic,
        pushConfig={"pushEndpoint": push.receiver.url()},
        postrider={"signing": {"secret": BAD[what]}},
    )
    rotated = push.rest.post(f"/v1/{name}:rotateSecret", {"secret": BAD[what]})
    for answer in (made, rotated):
        assert (answer.code, answer.status) == (400, "INVALID_ARGUMENT"), answer
        assert "secret" in answer.message
        if len(str(BAD[what])) > 10:
            assert str(BAD[what]) not in answer.text, "secrets have no place in errors"
