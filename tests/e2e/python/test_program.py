"""The program itself: configuration, first screen, refusals, stopping, verify."""

import json
import re
import shutil
import threading
import time

import pytest

import program
from clients import Clients
from program import CONFIG, ROOT, Server
from rest import Rest
from statuses import status_of
from streams import Stream


def test_the_first_screen_says_where_and_what_to_set(own_server):
    rest = Rest(own_server)
    assert rest.get("/healthz").code == 200
    screen = "\n".join(own_server.screen)
    assert "Postrider" in screen or "postrider" in screen
    assert re.search(r"^Listening\s+127\.0\.0\.1:\d+", screen, re.M)
    own_server.terminate()
    everything = screen
    while (line := own_server.lines.get(timeout=10)) is not None:
        everything += "\n" + line
    assert str(own_server.data) in everything
    assert f"PUBSUB_EMULATOR_HOST={own_server.address}" in everything


def test_it_starts_well_under_a_second(tmp_path):
    """Well under a second on an idle machine; here other programs may run beside it."""
    server = Server(tmp_path)
    before = time.monotonic()
    server.start()
    took = time.monotonic() - before
    server.stop()
    assert took < 3, f"took {took:.1f} s"


def test_an_unknown_key_is_refused_by_name(tmp_path):
    server = Server(tmp_path, config="[storage]\nprogres_flush = '1s'\n")
    told = program.run(*server.command()[1:])
    assert told.returncode not in (0, None)
    assert "progres_flush" in told.stderr
    assert not server.data.exists(), "a refused configuration must leave nothing behind"


@pytest.mark.parametrize(
    "config, named",
    [
        ("listen = 5\n", "listen"),
        ("shutdown_grace = 'soon'\n", "shutdown_grace"),
        ("[storage]\ndurability = 'maybe'\n", "durability"),
        ("[storage]\nprogress_flush = '-1s'\n", "progress_flush"),
        ("this is not toml", "postrider.toml"),
    ],
)
def test_a_bad_value_is_refused_by_name(tmp_path, config, named):
    server = Server(tmp_path, config=config)
    told = program.run(*server.command()[1:])
    assert told.returncode not in (0, None)
    assert named in told.stderr


def test_a_missing_configuration_file_is_refused(tmp_path):
    told = program.run("serve", "--config", tmp_path / "nowhere.toml", "--data-dir", tmp_path / "d")
    assert told.returncode not in (0, None)
    assert "nowhere.toml" in told.stderr


def test_a_second_process_on_the_same_folder_is_refused(own_server):
    second = Server(own_server.folder)
    told = program.run(*second.command()[1:])
    assert told.returncode not in (0, None)
    assert str(own_server.data) in told.stderr
    assert Rest(own_server).get("/healthz").code == 200


def test_a_port_in_use_is_refused(own_server, tmp_path_factory):
    told = program.run(
        "serve", "--listen", own_server.address, "--data-dir", tmp_path_factory.mktemp("other")
    )
    assert told.returncode not in (0, None)
    assert own_server.address in told.stderr


def test_an_address_for_others_is_refused_without_insecure(tmp_path):
    told = program.run("serve", "--listen", "0.0.0.0:0", "--data-dir", tmp_path / "data")
    assert told.returncode not in (0, None)
    assert "--insecure" in told.stderr
    server = Server(tmp_path / "second", args=["--insecure"])
    command = server.command()
    command[command.index("--listen") + 1] = "0.0.0.0:0"
    server.command = lambda: command
    server.start()
    assert Rest(server).get("/healthz").code == 200
    server.stop()


def test_sigterm_ends_streams_and_waiting_pulls_and_exits_with_0(own_server):
    clients = Clients(own_server, "grpc")
    topic, subscription = clients.pair()
    stream = Stream(clients, subscription)
    clients.publish(topic, b"x")
    stream.take(1)
    errors = []

    def wait():
        try:
            clients.pull(subscription, 1, timeout=60)
        except Exception as error:  # The test looks at it.
            errors.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    waiting.join(timeout=0.5)
    before = time.monotonic()
    assert own_server.terminate() == 0, own_server.tail()
    assert time.monotonic() - before < 5 + 3
    assert status_of(stream.end()) == "UNAVAILABLE"
    waiting.join(timeout=30)
    assert not waiting.is_alive()
    clients.close()


def test_sigterm_at_rest_is_quick(own_server):
    before = time.monotonic()
    assert own_server.terminate() == 0
    assert time.monotonic() - before < 3


PRECREATED = CONFIG + """
[[topics]]
name = "projects/p/topics/orders"
labels = { team = "blue" }

[[subscriptions]]
name = "projects/p/subscriptions/billing"
topic = "projects/p/topics/orders"
"""


@pytest.mark.parametrize("how", ["term", "kill"])
def test_topics_and_subscriptions_are_made_from_the_configuration(tmp_path, how):
    server = Server(tmp_path, config=PRECREATED).start()
    try:
        rest = Rest(server)
        assert rest.ok("GET", "/v1/projects/p/topics/orders")["labels"] == {"team": "blue"}
        published = rest.publish("projects/p/topics/orders", "x")
        server.restart(how)
        received = rest.pull_exactly("projects/p/subscriptions/billing", 1)
        assert int(received[0]["message"]["messageId"]) == published[0]
    finally:
        server.stop()


def test_a_precreated_subscription_without_its_topic_is_refused(tmp_path):
    config = '[[subscriptions]]\nname = "projects/p/subscriptions/s-1"\ntopic = "projects/p/topics/none"\n'
    server = Server(tmp_path, config=config)
    told = program.run(*server.command()[1:])
    assert told.returncode not in (0, None)
    assert "projects/p/topics/none" in told.stderr


def test_the_environment_and_flags_override_the_file(tmp_path):
    server = Server(tmp_path, config="shutdown_grace = '1s'\n", env={"POSTRIDER_ENGINE": "memory"})
    server.start()
    rest = Rest(server)
    rest.topic("projects/p/topics/orders")
    server.restart()
    assert rest.get("/v1/projects/p/topics/orders").code == 404, "memory forgets"
    server.stop()
    server = Server(
        tmp_path, config="engine = 'memory'\n", env={"POSTRIDER_ENGINE": "memory"}, args=["--engine", "disk"]
    ).start()
    rest = Rest(server)
    rest.topic("projects/p/topics/orders")
    server.restart()
    assert rest.get("/v1/projects/p/topics/orders").code == 200
    server.stop()


def test_the_defaults_are_a_complete_configuration(tmp_path):
    told = program.run("config", "show")
    assert told.returncode == 0, told.stderr
    for key in ("listen", "data_dir", "engine", "shutdown_grace", "progress_flush", "durability"):
        assert key in told.stdout


def test_verify_passes_a_sound_folder_and_finds_a_flipped_bit(own_server):
    rest = Rest(own_server)
    rest.topic("projects/p/topics/orders")
    rest.subscription("projects/p/subscriptions/billing", "projects/p/topics/orders")
    for n in range(50):
        rest.publish("projects/p/topics/orders", *[f"message {n} {'x' * 1000}"] * 5)
    running = program.run("verify", "--data-dir", own_server.data)
    assert running.returncode not in (0, None), "a folder in use must not be verified"
    own_server.kill()
    sound = program.run("verify", "--data-dir", own_server.data)
    assert sound.returncode == 0, sound.stdout + sound.stderr
    log = sorted((own_server.data / "wal").iterdir())[0]
    content = bytearray(log.read_bytes())
    place = content.index(b"message 3 ")
    content[place] ^= 1
    log.write_bytes(content)
    broken = program.run("verify", "--data-dir", own_server.data)
    assert broken.returncode == 1
    assert log.name in broken.stdout + broken.stderr
    assert re.search(r"\d{3,}", broken.stdout + broken.stderr)
    # Nothing is cut and nothing is guessed: the server refuses to start.
    server = Server(own_server.folder)
    told = program.run(*server.command()[1:])
    assert told.returncode not in (0, None)
    assert log.name in told.stderr
    assert bytearray(log.read_bytes()) == content


def spoil(server):
    """Changes two bytes of a definition, and sees that the server cannot start; what verify says."""
    database = server.data / "store.sqlite"
    content = bytearray(database.read_bytes())
    place = content.index(b'"topic_id":')
    content[place : place + 2] = b"!!"
    database.write_bytes(content)
    told = program.run(*Server(server.folder).command()[1:])
    assert told.returncode not in (0, None), "the server cannot start"
    broken = program.run("verify", "--data-dir", server.data)
    assert broken.returncode == 1, broken.stdout
    return broken.stdout


def test_verify_finds_a_row_of_the_database_that_would_stop_a_start(own_server):
    rest = Rest(own_server)
    rest.topic("projects/p/topics/orders")
    rest.subscription("projects/p/subscriptions/billing", "projects/p/topics/orders")
    assert own_server.terminate() == 0
    assert "store.sqlite" in spoil(own_server)


def test_verify_finds_a_definition_that_would_stop_a_start(tmp_path):
    # In a folder of the first version rows have no checksums, and SQLite finds nothing wrong.
    server = Server(tmp_path)
    shutil.copytree(ROOT / "crates/storage/tests/fixtures/v1", server.data)
    said = spoil(server)
    assert "store.sqlite" in said and "projects/p/" in said and "not readable" in said


def test_describe_speaks_json(own_server):
    rest = Rest(own_server)
    rest.topic("projects/p/topics/orders")
    rest.subscription("projects/p/subscriptions/billing", "projects/p/topics/orders")
    told = program.run(
        "subscription", "describe", "projects/p/subscriptions/billing",
        "--server", own_server.url, "--json",
    )
    assert told.returncode == 0, told.stderr
    assert "billing" in json.dumps(json.loads(told.stdout))


@pytest.mark.parametrize("args", [["--help"], ["serve", "--help"], ["verify", "--help"], ["--version"]])
def test_help_is_there(args):
    told = program.run(*args)
    assert told.returncode == 0
    assert told.stdout.strip()
