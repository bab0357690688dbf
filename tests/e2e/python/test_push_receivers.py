"""Receivers that misbehave: late, half, never, reset, endless, garbage, unreachable."""

import datetime
import ipaddress
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import answers
from program import Server
from push import Pushing, retry
from receiver import Receiver, status
from waiting import Stopwatch, until

# The sender is told to wait that long for an answer, so what comes sooner did not wait for it.
TIMEOUT_SECONDS = 20


def outcome(push, answer, **fields):
    """The attempts of one message that gets this answer first and 200 then, oldest first."""
    push.receiver.on("/push", answer, 200)
    fields = {"config": {"timeoutSeconds": TIMEOUT_SECONDS}, "retryPolicy": retry(0.1), **fields}
    topic, name = push.pair(**fields)
    push.publish(topic, b"x")
    push.wait_attempts(name, 1, "?class=ok")
    return push.attempts(name)[::-1]


FAILURES = {
    "nothing": (answers.nothing, {"protocol", "connect"}),
    "reset": (answers.reset, {"protocol", "connect"}),
    "half a head": (answers.half_a_head, {"protocol"}),
    "garbage": (answers.garbage, {"protocol"}),
    "a status that is none": (answers.raw(b"HTTP/1.1 two hundred\r\n\r\n"), {"protocol"}),
    "a head without an end": (
        answers.raw(b"HTTP/1.1 200 OK\r\n", *[b"x-filler: %b\r\n" % (b"y" * 1000)] * 2000),
        {"protocol"},
    ),
    "half a body of a failure": (answers.half_a_body(500), {"http_5xx"}),
}


@pytest.mark.parametrize("what", FAILURES)
def test_what_is_no_answer_is_a_failure_and_tried_again(push, what):
    answer, classes = FAILURES[what]
    first, second = outcome(push, answer)
    assert first["class"] in classes, first
    assert second["class"] == "ok"
    assert [one.data for one in push.receiver.at()] == [b"x", b"x"]


BODIES = {
    "half a body": answers.half_a_body(),
    "a body that stalls": answers.stalled_body(),
    "a body that trickles": answers.trickling_body(),
    "a body of 1 GiB": answers.endless_body(),
}


@pytest.mark.parametrize("what", BODIES)
def test_the_status_line_decides_whatever_the_body_does(push, what):
    watch = Stopwatch()
    (attempt,) = outcome(push, BODIES[what])
    assert (attempt["class"], attempt["status"]) == ("ok", 200)
    assert watch.seconds() < TIMEOUT_SECONDS - 5, "the ack waited for the body"
    assert len(push.receiver.at()) == 1
    assert len(attempt["response"].encode()) <= 1024


def test_a_body_that_stalls_does_not_hold_its_lane(push):
    push.receiver.on("/push", answers.stalled_body())
    topic, name = push.pair(config={"timeoutSeconds": 60}, postrider={"fifo": True})
    watch = Stopwatch()
    push.publish(topic, b"1", b"2", b"3")
    assert [one.data for one in push.receiver.wait(3)] == [b"1", b"2", b"3"]
    assert watch.seconds() < 15


def test_a_failure_with_an_endless_body_is_the_failure_it_says(push):
    first, second = outcome(push, answers.endless_body(500))
    assert (first["class"], first["status"]) == ("http_5xx", 500)


def test_an_endless_body_is_cut_off(push):
    taken = []
    push.receiver.on("/push", answers.endless_body(counted=taken))
    topic, name = push.pair()
    push.publish(topic, b"x")
    push.wait_attempts(name, 1, "?class=ok")
    until(lambda: taken)
    assert taken[0] < 64 * 1024 * 1024, "far more was read than is kept"


def test_a_receiver_that_never_answers_is_given_up_after_the_timeout(push):
    first, second = outcome(push, answers.never, config={"timeoutSeconds": 1})
    assert first["class"] == "timeout"
    assert 950 <= first["durationMs"] <= 3500
    assert second["class"] == "ok"
    assert push.receiver.at()[0].gone, "the first request was left open"


def test_an_answer_after_the_timeout_does_not_count(push):
    first, second = outcome(push, answers.after(2.5), config={"timeoutSeconds": 1})
    assert (first["class"], second["class"]) == ("timeout", "ok")
    assert len(push.receiver.at()) == 2


def test_only_the_first_kibibyte_of_a_response_is_kept(push):
    first, _ = outcome(push, status(500, body=b"a" * 1000 + b"b" * 5000))
    assert first["response"] == "a" * 1000 + "b" * 24


def test_a_response_that_is_not_text_is_shown_as_well_as_it_can_be(push):
    first, _ = outcome(push, status(500, body=b"\xff\xfe\x00abc"))
    assert "abc" in first["response"]


# Receivers that cannot be reached.


def test_a_refused_connection_is_tried_again(push):
    topic, name = push.pair(retryPolicy=retry(0.2))
    push.receiver.unplug()
    push.publish(topic, b"x")
    failed = push.wait_attempts(name, 1, "?class=connect")
    assert failed[-1]["attempt"] == 1
    assert failed[-1]["address"] == f"127.0.0.1:{push.receiver.port}"
    assert failed[-1]["error"]
    push.receiver.listen()
    assert push.receiver.wait(1)[0].data == b"x"


def test_a_name_that_does_not_resolve(push):
    topic = push.clients.topic()
    name = push.subscribe(
        topic, config={"pushEndpoint": "http://nobody.invalid/push"}, retryPolicy=retry(60)
    )
    push.publish(topic, b"x")
    (attempt,) = push.wait_attempts(name, 1)
    assert attempt["class"] == "dns"
    assert attempt["error"]


def test_a_name_that_resolves_to_this_machine(push):
    topic = push.clients.topic()
    endpoint = f"http://localhost:{push.receiver.port}/push"
    push.subscribe(topic, config={"pushEndpoint": endpoint})
    push.publish(topic, b"x")
    (request,) = push.receiver.wait(1)
    assert request.headers["host"] == f"localhost:{push.receiver.port}"


# TLS.


def certificate(folder):
    """A key and a certificate of its own for 127.0.0.1; (context to serve with, PEM file)."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    pem = folder / "certificate.pem"
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = folder / "key.pem"
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, private)
    return context, pem


def test_https_to_what_does_not_speak_it(push):
    topic = push.clients.topic()
    endpoint = push.receiver.url().replace("http://", "https://")
    name = push.subscribe(topic, config={"pushEndpoint": endpoint}, retryPolicy=retry(60))
    push.publish(topic, b"x")
    (attempt,) = push.wait_attempts(name, 1)
    assert attempt["class"] == "tls", attempt
    assert push.receiver.at() == []


@pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "not trusted"])
def test_https_with_a_root_of_ones_own(tmp_path, trusted):
    context, pem = certificate(tmp_path)
    config = f"[push]\nca_file = '{pem}'\n" if trusted else ""
    server = Server(tmp_path / "server", config=config).start()
    with Receiver(tls=context) as receiver:
        push = Pushing(server, receiver)
        try:
            topic, name = push.pair(retryPolicy=retry(60))
            push.publish(topic, b"x")
            (attempt,) = push.wait_attempts(name, 1)
            assert attempt["class"] == ("ok" if trusted else "tls"), attempt
            assert [one.data for one in receiver.at()] == ([b"x"] if trusted else [])
        finally:
            push.close()
            server.stop()
