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

TOPIC, NAME = "projects/p/topics/orders", "projects/p/subscriptions/billing"


class SmallDisk(Server):
    """A server whose data folder is a file system of its own; it is gone with the process."""

    def command(self):
        self.data.mkdir(exist_ok=True)
        return [*NAMESPACE, f'{MOUNT} && exec "$@"', str(self.data), *super().command()]


@pytest.fixture
def rest(tmp_path):
    place = tmp_path / "probe"
    place.mkdir()
    if shutil.which("unshare") is None or subprocess.run([*NAMESPACE, MOUNT, place]).returncode:
        pytest.skip("this machine lets no user mount a file system of his own")
    server = SmallDisk(tmp_path, config=CONFIG).start()
    yield Rest(server)
    server.stop()
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
