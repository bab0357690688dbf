"""Over-long, slow and senseless clients are cut off; the server goes on and loses nothing."""

import random
import socket
import time

import pytest

from clients import Clients
from program import Server
from rest import Rest
from seeds import seed

MEGABYTE = 1_000_000

# Short patience, so that the tests need not be patient themselves.
CONFIG = """
[limits]
first_byte_timeout = "1s"
header_timeout = "2s"
body_timeout = "2s"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("hostile"), config=CONFIG).start()
    yield server
    alive = server.alive()
    server.stop()
    assert alive, f"the server died during the tests:\n{server.tail()}"
    assert "panicked" not in server.log.read_text(errors="replace"), server.tail()


@pytest.fixture
def guarded(server):
    """The server must hold what was published before and serve after each of these tests."""
    clients = Clients(server, "grpc")
    topic, subscription = clients.pair()
    ids = clients.publish(topic, *[b"%d" % n for n in range(10)])
    yield server
    received = clients.pull_exactly(subscription, 10)
    assert sorted(one.message.message_id for one in received) == sorted(ids)
    clients.ack(subscription, received)
    clients.publish(topic, b"after")
    assert clients.pull_exactly(subscription, 1)[0].message.data == b"after"
    clients.close()
    assert server.alive()


def connect(server):
    opened = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


def seconds_until_closed(opened, at_most=15):
    """How long the server keeps this connection, reading whatever it says meanwhile."""
    before = time.monotonic()
    opened.settimeout(at_most)
    try:
        while opened.recv(65536):
            pass
    except (ConnectionResetError, BrokenPipeError):
        pass
    except TimeoutError:
        raise AssertionError(f"still open after {at_most} s") from None
    return time.monotonic() - before


def test_an_overlong_body_is_refused_in_google_s_words(guarded, project):
    rest = Rest(guarded)
    rest.topic(f"{project}/topics/orders")
    raw = b'{"messages": [{"data": "' + b"A" * (40 * MEGABYTE) + b'"}]}'
    try:
        answer = rest.call("POST", f"/v1/{project}/topics/orders:publish", raw=raw)
    except (ConnectionResetError, BrokenPipeError):
        return  # Cut off while still sending: as good.
    assert answer.code in (400, 413)
    assert answer.json["error"]["status"] in ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED")


def test_an_overlong_header_is_refused(guarded):
    with connect(guarded) as opened:
        opened.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n")
        try:
            for _ in range(2000):
                opened.sendall(b"x-filler: " + b"y" * 1000 + b"\r\n")
        except (ConnectionResetError, BrokenPipeError):
            return
        seconds_until_closed(opened)


def test_a_client_that_says_nothing_is_cut_off(guarded):
    with connect(guarded) as opened:
        assert 0.5 < seconds_until_closed(opened)


def test_a_client_that_never_ends_its_header_is_cut_off(guarded):
    with connect(guarded) as opened:
        opened.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n")
        assert 1.5 < seconds_until_closed(opened)


def test_a_client_that_never_ends_its_body_is_cut_off(guarded, project):
    Rest(guarded).topic(f"{project}/topics/orders")
    with connect(guarded) as opened:
        opened.sendall(
            f"POST /v1/{project}/topics/orders:publish HTTP/1.1\r\nhost: localhost\r\n"
            "content-type: application/json\r\ncontent-length: 1000\r\n\r\n{".encode()
        )
        assert 1.5 < seconds_until_closed(opened)


def noise(length):
    return random.Random(seed()).randbytes(length)


def test_garbage_on_the_port_is_cut_off(guarded):
    for garbage in (b"\0" * 100, b"\x16\x03\x01\x02\x00\x01", b"SSH-2.0-x\r\n\r\n", noise(5000)):
        with connect(guarded) as opened:
            try:
                opened.sendall(garbage + b"\r\n\r\n")
            except (ConnectionResetError, BrokenPipeError):
                continue
            seconds_until_closed(opened)


def test_garbage_after_the_http2_preface_is_cut_off(guarded):
    for garbage in (b"\xff" * 100, noise(5000), b"\0\0\0\4\0\0\0\0\0" + b"\xff\xff\xff" + b"x" * 5000):
        with connect(guarded) as opened:
            try:
                opened.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + garbage)
            except (ConnectionResetError, BrokenPipeError):
                continue
            seconds_until_closed(opened)


def test_connections_that_vanish_do_no_harm(guarded):
    for _ in range(200):
        opened = connect(guarded)
        opened.sendall(b"POST /v1/projects/p/topics/t:publish HTTP/1.1\r\nhost: localhost\r\ncontent-le")
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        opened.close()


def test_a_grpc_body_of_rubbish_is_refused(guarded):
    import grpc

    with grpc.insecure_channel(guarded.address) as channel:
        for method in ("Publisher/Publish", "Publisher/CreateTopic", "Subscriber/Pull"):
            call = channel.unary_unary(
                f"/google.pubsub.v1.{method}",
                request_serializer=lambda raw: raw,
                response_deserializer=lambda raw: raw,
            )
            for raw in (b"\xff" * 50, b"\x0a\xff\xff\xff\xff\x0f", noise(300)):
                with pytest.raises(grpc.RpcError) as raised:
                    call(raw, timeout=10)
                assert raised.value.code() in (
                    grpc.StatusCode.INVALID_ARGUMENT,
                    grpc.StatusCode.INTERNAL,
                    grpc.StatusCode.NOT_FOUND,
                )
