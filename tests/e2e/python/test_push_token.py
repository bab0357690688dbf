"""OIDC tokens on push: checked with the keys the server publishes, and nothing else of it."""

import base64
import json
import time

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

EMAIL = "pusher@my-project.iam.gserviceaccount.com"
TOKEN = {"serviceAccountEmail": EMAIL, "audience": "https://audience.example/x"}


def decode(part):
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def number(text):
    return int.from_bytes(decode(text), "big")


def keys(push):
    """Key id → public key, as anybody finds them."""
    found = push.rest.ok("GET", "/oauth2/v3/certs")["keys"]
    for key in found:
        assert (key["kty"], key["alg"], key["use"]) == ("RSA", "RS256", "sig")
        assert not set(key) & {"d", "p", "q", "dp", "dq", "qi"}, "the private key is shown"
    return {
        key["kid"]: rsa.RSAPublicNumbers(number(key["e"]), number(key["n"])).public_key()
        for key in found
    }


def claims(push, request):
    """What a token says, once its signature has been checked."""
    kind, token = request.headers["authorization"].split(" ")
    assert kind == "Bearer"
    head, body, signature = token.split(".")
    header = json.loads(decode(head))
    assert header["alg"] == "RS256" and header["typ"] == "JWT"
    key = keys(push)[header["kid"]]
    assert key.key_size >= 2048
    signed = f"{head}.{body}".encode()
    key.verify(decode(signature), signed, padding.PKCS1v15(), hashes.SHA256())
    with pytest.raises(InvalidSignature):
        key.verify(decode(signature), signed + b"x", padding.PKCS1v15(), hashes.SHA256())
    return json.loads(decode(body))


def test_a_token_has_googles_claims_and_a_signature_that_holds(push):
    topic, name = push.pair(config={"oidcToken": TOKEN})
    before = time.time()
    push.publish(topic, b"x")
    told = claims(push, push.receiver.wait(1)[0])
    assert told["iss"] == "https://accounts.google.com"
    assert told["aud"] == TOKEN["audience"]
    assert told["email"] == EMAIL
    assert told["email_verified"] is True
    assert told["azp"] and told["sub"]
    assert before - 60 <= told["iat"] <= time.time() + 60
    assert told["exp"] - told["iat"] == 3600
    assert push.shown(name)["pushConfig"]["oidcToken"] == TOKEN


def test_the_audience_is_the_endpoint_unless_given(push):
    topic, name = push.pair(config={"oidcToken": {"serviceAccountEmail": EMAIL}})
    push.publish(topic, b"x")
    assert claims(push, push.receiver.wait(1)[0])["aud"] == push.receiver.url()


def test_a_token_is_set_with_the_official_client(push):
    clients = push.clients
    topic = clients.topic()
    name = clients.subscription(
        topic,
        push_config={
            "push_endpoint": push.receiver.url(),
            "oidc_token": {"service_account_email": EMAIL, "audience": "abc"},
        },
    )
    push.made.append(name)
    push.publish(topic, b"x")
    assert claims(push, push.receiver.wait(1)[0])["aud"] == "abc"
    assert clients.get(name).push_config.oidc_token.service_account_email == EMAIL


def test_a_token_is_used_again_and_each_audience_has_its_own(push):
    topic = push.clients.topic()
    push.subscribe(topic, "/one", config={"oidcToken": {**TOKEN, "audience": "one"}})
    push.subscribe(topic, "/two", config={"oidcToken": {**TOKEN, "audience": "two"}})
    push.publish(topic, *[b"x"] * 5)
    one, two = push.receiver.wait(5, "/one"), push.receiver.wait(5, "/two")
    assert len({request.headers["authorization"] for request in one}) == 1
    assert {claims(push, request)["aud"] for request in two} == {"two"}


def test_the_discovery_document_leads_to_the_keys(push):
    document = push.rest.ok("GET", "/.well-known/openid-configuration")
    assert document["jwks_uri"].endswith("/oauth2/v3/certs")
    assert document["issuer"]
    assert "RS256" in document["id_token_signing_alg_values_supported"]


@pytest.mark.parametrize("how", ["term", "kill"])
def test_the_key_is_kept_over_restarts(own_push, how):
    push = own_push
    topic, name = push.pair(config={"oidcToken": TOKEN})
    push.publish(topic, b"1")
    (first,) = push.receiver.wait(1)
    known = set(keys(push))
    push.restart(how)
    assert set(keys(push)) == known
    claims(push, first)
    # A crash may take the ack of the first push back, so that it comes again, before or behind
    # the second.
    push.publish(topic, b"2")
    second = lambda: [one for one in push.receiver.at() if one.data == b"2"]  # noqa: E731
    push.receiver.wait_until(second)
    claims(push, second()[0])


def test_the_private_key_is_only_for_its_owner(own_push):
    push = own_push
    topic, name = push.pair(config={"oidcToken": TOKEN})
    push.publish(topic, b"1")
    push.receiver.wait(1)
    secret = [
        path
        for path in push.server.data.rglob("*")
        if path.is_file() and path.stat().st_size < 65536 and b"PRIVATE KEY" in path.read_bytes()
    ]
    for path in secret:
        assert path.stat().st_mode & 0o077 == 0, f"{path} can be read by others"


def test_without_a_token_there_is_no_authorization(push):
    topic, name = push.pair()
    push.publish(topic, b"x")
    assert "authorization" not in push.receiver.wait(1)[0].headers
