"""A full disk: publishing is refused, everything else goes on, and publishing resumes by itself.

The server gets a small file system of its own, in a mount namespace that any user may make.
"""

import shutil
import subprocess

import pytest

from program import Server
from rest import Rest, encode
from waiting import until

SIZE = "24m"

# Small files, so that the disk is full before the write-ahead log is at its bound.
CONFIG = """
[storage]
wal_segment = "1MiB"
wal_max = "64MiB"
topic_segment = "1MiB"
reserve = "4MiB"
progress_flush = "50ms"
"""

NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
MOUNT = f'mount -t tmpfs -o size={SIZE} tmpfs "$0"'
# Keeps the file system for as long as its standard input is open.
HOLD = f'{MOUNT} && echo mounted && exec cat'

TOPIC, NAME = "projects/p/topics/orders", "projects/p/subscriptions/billing"


class SmallDisk(Server):
    """A server whose data folder, SQLite and all, is a small file system that outlives it."""

    def mount(self):
        self.data.mkdir(exist_ok=True)
        self.holder = subprocess.Popen(
            [*NAMESPACE, HOLD, str(self.data)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.holder.stdout.readline() == b"mounted\n"
        return self

    def unmount(self):
        self.holder.communicate()

    def inside(self, *command):
        """The command as it is run where the file system is."""
        enter = ["nsenter", "--target", str(self.holder.pid), "--user", "--mount"]
        return [*enter, "--preserve-credentials", *map(str, command)]

    def command(self):
        return self.inside(*super().command())

    def fill_up(self):
        """Something else takes all the space that is left."""
        fill = ["dd", "if=/dev/zero", f"of={self.data}/else", "bs=4096", "status=none"]
        subprocess.run(self.inside(*fill), stderr=subprocess.DEVNULL)

    def make_space(self):
        subprocess.run(self.inside("rm", self.data / "else"), check=True)


@pytest.fixture
def rest(tmp_path):
    place = tmp_path / "probe"
    place.mkdir()
    if shutil.which("unshare") is None or subprocess.run([*NAMESPACE, MOUNT, place]).returncode:
        pytest.skip("this machine lets no user mount a file system of his own")
    server = SmallDisk(tmp_path, config=CONFIG).mount().start()
    yield Rest(server)
    server.stop()
    server.unmount()
    assert "panicked" not in server.log.read_text(errors="replace"), server.tail()


def fill(rest):
    """Publishes until the disk is full and stays so; how many messages were taken."""
    body = {"messages": [{"data": encode(b"x" * 60_000)}] * 8}
    taken = refused = 0
    # One refusal may be followed by room: the server makes some where it can.
    while refused < 5:
        answer = rest.post(f"/v1/{TOPIC}:publish", body)
        if answer.code == 200:
            taken, refused = taken + 8, 0
            continue
        refused += 1
        assert (answer.code, answer.status) == (429, "RESOURCE_EXHAUSTED"), answer
        assert "space" in answer.message
    return taken


def publish_again(rest):
    """A small publish, as soon as there is room for it; its id."""

    def published():
        answer = rest.post(f"/v1/{TOPIC}:publish", {"messages": [{"data": encode(b"again")}]})
        return answer.json["messageIds"][0] if answer.code == 200 else None

    return until(published, seconds=10)


def ack_everything(rest, count):
    acked = set()
    while len(acked) < count:
        received = rest.pull(NAME, 50)
        rest.ack(NAME, received)
        acked |= {one["message"]["messageId"] for one in received}


def test_publishing_is_refused_and_all_else_goes_on(rest):
    rest.topic(TOPIC)
    rest.subscription(NAME, TOPIC)
    taken = fill(rest)
    assert taken > 20
    assert rest.get("/readyz").code == 200, "it is full, not broken"
    snapshot = "projects/p/snapshots/before"
    rest.ok("PUT", f"/v1/{snapshot}", {"subscription": NAME})
    # Nothing that was answered is lost, and acks go on.
    ack_everything(rest, taken)
    rest.ok("POST", f"/v1/{NAME}:seek", {"snapshot": snapshot})
    assert rest.pull(NAME, 1)
    rest.ok("POST", f"/v1/{NAME}:seek", {"time": "2999-01-01T00:00:00Z"})
    assert rest.pull(NAME, wait=False) == []
    rest.ok("DELETE", f"/v1/{snapshot}")
    rest.ok("DELETE", f"/v1/{NAME}")


def test_publishing_resumes_once_all_is_acked(rest):
    rest.topic(TOPIC)
    rest.subscription(NAME, TOPIC)
    ack_everything(rest, fill(rest))
    id = publish_again(rest)
    assert rest.pull_exactly(NAME, 1)[0]["message"]["messageId"] == id


def pulled(rest, count):
    """So many messages of the subscription, acked; their ids."""
    found = set()
    while len(found) < count:
        received = rest.pull(NAME, 50)
        rest.ack(NAME, received)
        found |= {one["message"]["messageId"] for one in received}
    return found


@pytest.mark.parametrize("how", ["term", "kill"])
def test_a_server_on_a_full_disk_starts_again(rest, how):
    server = rest.server
    rest.topic(TOPIC)
    rest.subscription(NAME, TOPIC)
    taken = fill(rest)
    # Not one block is left but what the server has set aside, neither for its log nor for SQLite.
    server.fill_up()
    for _ in range(2):
        server.restart(how)
        # What was made ahead for the log may hold a few more; then messages are refused as before.
        taken += fill(rest)
        assert rest.get("/readyz").text.startswith("ready")
        codes = [one["code"] for one in rest.get("/status").json["degraded"]]
        assert codes == ["disk_full"]
        server.fill_up()
    # All else goes on: pulls, acks, definitions made and deleted.
    rest.ok("PUT", "/v1/projects/p/snapshots/before", {"subscription": NAME})
    rest.ok("DELETE", "/v1/projects/p/snapshots/before")
    assert len(pulled(rest, taken)) == taken, "nothing that was answered is lost"
    server.make_space()
    id = publish_again(rest)
    server.restart(how)
    assert rest.pull_exactly(NAME, 1)[0]["message"]["messageId"] == id


def test_a_disk_may_be_full_again_and_again(rest):
    rest.topic(TOPIC)
    rest.subscription(NAME, TOPIC)
    server = rest.server
    for cycle in range(10):
        taken = fill(rest)
        server.fill_up()
        if cycle % 3 == 2:
            server.restart("term")
        assert len(pulled(rest, taken)) == taken, f"lost in cycle {cycle}"
        server.make_space()
        assert publish_again(rest) in pulled(rest, 1)
