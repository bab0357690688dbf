"""The receiver of the push tests must do what it is told, or they prove nothing."""

import http.client
import socket
import threading
import time

import pytest

import answers
from receiver import Receiver, overlap_max, status


def post(receiver, path="/push", body=b"{}", timeout=5):
    """Status and body of one request over a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=timeout)
    try:
        connection.request("POST", path, body=body, headers={"X-Two": "Words"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def in_background(receiver, count=1):
    threads = [threading.Thread(target=post, args=(receiver,)) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def test_requests_are_noted_as_they_came(receiver):
    before = time.time()
    assert post(receiver, "/a?b=c", b'{"message": {"messageId": "7", "data": "eA=="}}')[0] == 200
    (request,) = receiver.wait(1, "/a?b=c")
    assert (request.method, request.id, request.data) == ("POST", "7", b"x")
    assert request.headers["x-two"] == "Words"
    assert before <= request.arrived <= request.answered <= time.time()
    assert receiver.at("/other") == []


def test_a_script_is_followed_and_its_last_answer_repeats(receiver):
    receiver.on("/push", 500, status(201, body=b"made"), 204)
    codes = [post(receiver) for _ in range(4)]
    assert codes == [(500, b""), (201, b"made"), (204, b""), (204, b"")]


def test_chunked_bodies_and_kept_connections(receiver):
    connection = http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=5)
    for _ in range(3):
        connection.request("POST", "/push", body=iter([b"ab", b"cd"]), encode_chunked=True)
        assert connection.getresponse().read() == b""
    connection.close()
    assert [one.body for one in receiver.at()] == [b"abcd"] * 3
    assert receiver.connected == 1


def test_a_gate_holds_and_the_overlap_is_counted(receiver):
    gate = answers.Gate()
    receiver.on("/push", gate.hold)
    threads = in_background(receiver, 3)
    assert len(receiver.wait(3)) == 3
    assert overlap_max(receiver.at()) == 3
    gate.open()
    for thread in threads:
        thread.join(timeout=5)
    post(receiver)
    post(receiver)
    assert overlap_max(receiver.at()[3:]) == 1


def test_an_answer_may_be_late(receiver):
    receiver.on("/push", answers.after(0.3))
    began = time.time()
    assert post(receiver)[0] == 200
    assert time.time() - began >= 0.3


@pytest.mark.parametrize(
    "answer",
    [answers.nothing, answers.reset, answers.half_a_head, answers.garbage],
    ids=["nothing", "reset", "half a head", "garbage"],
)
def test_what_is_no_answer(receiver, answer):
    receiver.on("/push", answer)
    with pytest.raises((http.client.HTTPException, OSError, AssertionError)):
        code, _ = post(receiver)
        assert code == 0


def test_half_a_body(receiver):
    receiver.on("/push", answers.half_a_body(202))
    with pytest.raises(http.client.IncompleteRead):
        post(receiver)


@pytest.mark.parametrize(
    "answer",
    [answers.never, answers.stalled_body(), answers.head_only(102), answers.trickling_body()],
    ids=["never", "stalled", "102", "trickling"],
)
def test_what_does_not_end_ends_with_its_sender(receiver, answer):
    receiver.on("/push", answer)
    raw = socket.create_connection(("127.0.0.1", receiver.port))
    raw.sendall(b"POST /push HTTP/1.1\r\ncontent-length: 0\r\n\r\n")
    receiver.wait(1)
    assert receiver.connections
    raw.close()
    receiver.wait_until(lambda: not receiver.connections, 5, "the end of the connection")


def test_a_sender_that_goes_is_noticed(receiver):
    receiver.on("/push", answers.never)
    raw = socket.create_connection(("127.0.0.1", receiver.port))
    raw.sendall(b"POST /push HTTP/1.1\r\ncontent-length: 0\r\n\r\n")
    (request,) = receiver.wait(1)
    assert request.gone is None
    raw.close()
    receiver.wait_until(lambda: request.gone, 5)


def test_an_endless_body_is_as_long_as_it_is_read(receiver):
    taken = []
    receiver.on("/push", answers.endless_body(counted=taken))
    raw = socket.create_connection(("127.0.0.1", receiver.port))
    raw.sendall(b"POST /push HTTP/1.1\r\ncontent-length: 0\r\n\r\n")
    assert raw.recv(4096).startswith(b"HTTP/1.1 200 ")
    raw.close()
    receiver.wait_until(lambda: not receiver.connections, 5)
    assert taken and taken[0] < 64 * 1024 * 1024


def test_interim_answers_come_before_the_real_one(receiver):
    receiver.on("/push", answers.interim(103, then=201))
    raw = socket.create_connection(("127.0.0.1", receiver.port))
    raw.sendall(b"POST /push HTTP/1.1\r\ncontent-length: 0\r\n\r\n")
    came = b""
    while b"content-length" not in came:
        came += raw.recv(4096)
    raw.close()
    assert came.startswith(b"HTTP/1.1 103 ") and b"HTTP/1.1 201 " in came


def test_unplugged_it_refuses_and_comes_back_on_its_port(receiver):
    assert post(receiver)[0] == 200
    receiver.unplug()
    with pytest.raises(OSError):
        post(receiver)
    receiver.listen()
    assert post(receiver)[0] == 200


def test_waiting_for_what_does_not_come_fails():
    with Receiver() as receiver, pytest.raises(AssertionError, match="waited"):
        receiver.wait(1, seconds=0.05)
