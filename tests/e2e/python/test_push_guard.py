"""The guard against requests into private networks, and what is always refused."""

import contextlib

import pytest

from program import CONFIG, Server
from push import Pushing, retry
from receiver import Receiver

METADATA = [
    "http://169.254.169.254/computeMetadata/v1/",
    "http://[fd00:ec2::254]/latest/meta-data/",
    "http://[::ffff:169.254.169.254]/latest/meta-data/",
]
LOOPBACK = ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"]
# Addresses to some resolvers, unknown names to others.
ODD = ["http://2130706433:{port}/push", "http://0x7f.1:{port}/push", "http://2852039166/"]


@contextlib.contextmanager
def pushing(folder, config="", env=None, args=()):
    """A server with these settings, and a receiver."""
    server = Server(folder, config=config + CONFIG, env=env, args=args).start()
    with Receiver() as receiver:
        push = Pushing(server, receiver)
        try:
            yield push
        finally:
            push.close()
            server.stop()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server that refuses private networks."""
    env = {"POSTRIDER_PUSH_PRIVATE_NETWORKS": "refuse"}
    with pushing(tmp_path_factory.mktemp("guarded"), env=env) as push:
        yield push


def attempt_to(push, endpoint):
    """The one attempt to push a message there."""
    topic = push.clients.topic()
    name = push.subscribe(topic, config={"pushEndpoint": endpoint}, retryPolicy=retry(600))
    push.publish(topic, b"x")
    return push.wait_attempts(name, 1)[-1]


@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_is_refused_however_it_is_written(guarded, host):
    port = guarded.receiver.port
    attempt = attempt_to(guarded, f"http://{host}:{port}/push")
    assert attempt["class"] == "blocked", attempt
    assert attempt["error"]
    assert guarded.receiver.connected == 0, "a connection was made all the same"


@pytest.mark.parametrize("endpoint", ODD)
def test_an_address_in_disguise_is_not_reached(guarded, endpoint):
    attempt = attempt_to(guarded, endpoint.format(port=guarded.receiver.port))
    assert attempt["class"] in ("blocked", "dns"), attempt
    assert guarded.receiver.connected == 0


PRIVATE = ["10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "[fe80::1]", "[fc00::1]"]


@pytest.mark.parametrize("host", PRIVATE)
def test_private_networks_are_refused(guarded, host):
    assert attempt_to(guarded, f"http://{host}/push")["class"] == "blocked"


@pytest.mark.parametrize("endpoint", METADATA)
def test_metadata_addresses_are_refused_here(guarded, endpoint):
    assert attempt_to(guarded, endpoint)["class"] == "blocked"


@pytest.mark.parametrize("endpoint", METADATA)
def test_metadata_addresses_are_refused_everywhere(push, endpoint):
    """Also on a loopback server, where the guard is off."""
    assert attempt_to(push, endpoint)["class"] == "blocked"


def test_loopback_is_reached_by_default_on_a_loopback_server(push):
    topic, name = push.pair()
    push.publish(topic, b"x")
    assert push.receiver.wait(1)[0].data == b"x"


ALLOWED = {
    "environment": (
        "",
        {
            "POSTRIDER_PUSH_PRIVATE_NETWORKS": "refuse",
            "POSTRIDER_PUSH_ALLOW": "127.0.0.1/32",
        },
    ),
    "file": ("[push]\nprivate_networks = 'refuse'\nallow = ['10.1.0.0/16', '127.0.0.1']\n", {}),
}


@pytest.mark.parametrize("where", ALLOWED)
def test_what_is_on_the_allow_list_is_reached(tmp_path, where):
    config, env = ALLOWED[where]
    with pushing(tmp_path, config, env) as push:
        topic, name = push.pair()
        push.publish(topic, b"x")
        assert push.receiver.wait(1)[0].data == b"x"
        assert attempt_to(push, "http://127.0.0.2:9/push")["class"] == "blocked"


def test_the_allow_list_does_not_open_the_metadata_address(tmp_path):
    config = "[push]\nallow = ['169.254.0.0/16', '169.254.169.254', '0.0.0.0/0']\n"
    with pushing(tmp_path, config) as push:
        assert attempt_to(push, METADATA[0])["class"] == "blocked"


def test_a_server_that_is_not_loopback_only_refuses_by_itself(tmp_path):
    server = Server(tmp_path, args=["--insecure"])
    command = server.command
    server.command = lambda: [
        word.replace("127.0.0.1:", "0.0.0.0:") if word == server.address else word
        for word in command()
    ]
    server.start()
    with Receiver() as receiver:
        push = Pushing(server, receiver)
        try:
            assert attempt_to(push, receiver.url())["class"] == "blocked"
            assert receiver.connected == 0
        finally:
            push.close()
            server.stop()


EVERY_SETTING = """
[push]
workers = 3
timeout_seconds = 20
in_flight_max = 500
success = "2xx"
retry_default = "google"
attempt_log_bytes_max = "16MiB"
private_networks = "allow"
allow = ["10.0.0.0/8", "fd00::/8", "127.0.0.1"]
ca_file = ""
connect_timeout = "2s"
connects_max = 64
connects_per_host_max = 4
"""


def test_every_setting_is_known(tmp_path):
    with pushing(tmp_path, EVERY_SETTING) as push:
        topic, name = push.pair()
        push.publish(topic, *[b"%d" % n for n in range(50)])
        push.receiver.wait(50)


@pytest.mark.parametrize(
    "config, named",
    [
        ("[push]\nprivate_networks = 'perhaps'\n", "private_networks"),
        ("[push]\nallow = ['not a network']\n", "allow"),
        ("[push]\nallow = ['127.0.0.1/33']\n", "allow"),
        ("[push]\nsuccess = 'always'\n", "success"),
        ("[push]\nretry_default = 'never'\n", "retry_default"),
        ("[push]\ntimeout_seconds = 0\n", "timeout_seconds"),
        ("[push]\nca_file = '/nowhere/at/all.pem'\n", "ca_file"),
        ("[push]\nspeed = 5\n", "speed"),
    ],
)
def test_a_bad_setting_stops_the_start_and_is_named(tmp_path, config, named):
    server = Server(tmp_path, config=config)
    with pytest.raises(AssertionError, match="while starting"):
        server.start()
    assert named in server.tail()
