"""Paused subscriptions: nothing is delivered, the backlog is kept, and it goes on where it was."""

import pytest
from google.api_core import exceptions

from rest import Rest
from streams import opened
from waiting import data


def set_paused(rest, name, paused):
    body = {"subscription": {"postrider": {"paused": paused}}, "updateMask": "postrider.paused"}
    assert rest.ok("PATCH", f"/v1/{name}", body)["postrider"]["paused"] is paused


def test_a_paused_subscription_keeps_its_backlog_for_later(rest, grpc_clients):
    clients = grpc_clients
    topic, name = clients.pair()
    clients.publish(topic, b"before")
    held = clients.pull_exactly(name, 1)
    set_paused(rest, name, True)
    clients.publish(topic, b"meanwhile")
    assert clients.pull_now(name) == []
    with pytest.raises(exceptions.GoogleAPICallError):
        clients.pull(name, 1, timeout=1)
    # What is out can still be settled.
    clients.ack(name, held)
    set_paused(rest, name, False)
    received = clients.pull_exactly(name, 1)
    assert data(received) == [b"meanwhile"]
    clients.ack(name, received)
    assert clients.pull_now(name) == []


def test_an_open_stream_goes_on_when_the_pause_ends(rest, grpc_clients):
    clients = grpc_clients
    topic, name = clients.pair()
    with opened(clients, name) as stream:
        set_paused(rest, name, True)
        clients.publish(topic, b"x")
        assert clients.pull_now(name) == []
        assert stream.waiting() == 0
        set_paused(rest, name, False)
        assert data(stream.take(1)) == [b"x"]


def test_a_pause_survives_a_crash(own_server, connect):
    clients, rest = connect(), Rest(own_server)
    topic, name = clients.pair()
    set_paused(rest, name, True)
    clients.publish(topic, b"x")
    own_server.restart("kill")
    clients = connect()
    assert clients.pull_now(name) == []
    set_paused(rest, name, False)
    assert data(clients.pull_exactly(name, 1)) == [b"x"]
