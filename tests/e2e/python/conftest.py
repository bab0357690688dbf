"""Fixtures: a server per module, a server per test that restarts it, and the official clients."""

import pytest

from clients import Clients, numbers
from program import Server
from push import Pushing
from receiver import Receiver
from rest import Rest


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One server shared by a module's tests."""
    server = Server(tmp_path_factory.mktemp("server")).start()
    yield server
    alive = server.alive()
    server.stop()
    assert alive, f"the server died during the tests:\n{server.tail()}"
    assert "panicked" not in server.log.read_text(errors="replace"), server.tail()


@pytest.fixture
def own_server(tmp_path):
    """A server for one test that stops, kills or starts it as it likes."""
    server = Server(tmp_path).start()
    yield server
    server.stop()
    assert "panicked" not in server.log.read_text(errors="replace"), server.tail()


@pytest.fixture
def connect(own_server):
    """A function that gives clients, over gRPC, for the test's own server as it runs now."""
    given = []

    def connect():
        given.append(Clients(own_server, "grpc"))
        return given[-1]

    yield connect
    for clients in given:
        clients.close()


@pytest.fixture(params=["grpc", "rest"])
def clients(server, request):
    """The official clients on the module's server, once over gRPC and once over REST."""
    clients = Clients(server, request.param)
    yield clients
    clients.close()


@pytest.fixture
def grpc_clients(server):
    """The official clients on the module's server, over gRPC."""
    clients = Clients(server, "grpc")
    yield clients
    clients.close()


@pytest.fixture
def rest(server):
    return Rest(server)


@pytest.fixture
def project():
    return f"projects/e2e-{next(numbers)}"


@pytest.fixture
def receiver():
    """An HTTP receiver for one test."""
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def push(server, receiver):
    """Push subscriptions of the module's server that end at the test's receiver."""
    push = Pushing(server, receiver)
    yield push
    push.close()


@pytest.fixture
def own_push(own_server, receiver):
    """Push subscriptions of the test's own server that end at the test's receiver."""
    push = Pushing(own_server, receiver)
    yield push
    push.close()
