"""A log that cannot be emptied: it is told, publishing is refused and does not hang, and what can
be moved is moved.
"""

import pytest

from program import Server
from rest import Rest, datas, encode
from waiting import until

# So small that a few publishes fill it.
CONFIG = """
[storage]
wal_segment = "{segment}"
wal_max = "{wal}"
tail_memory = "1MiB"
progress_flush = "50ms"
[alerts]
interval = "1s"
"""

TOPIC, NAME = "projects/p/topics/orders", "projects/p/subscriptions/billing"
BIG = b"x" * 300_000


@pytest.fixture
def make(tmp_path):
    servers = []

    def make_server(segment="1MiB", wal="4MiB", of=Server):
        server = of(tmp_path, config=CONFIG.format(segment=segment, wal=wal)).start()
        servers.append(server)
        return Rest(server)

    yield make_server
    for server in servers:
        server.stop()
        assert "panicked" not in server.log.read_text(errors="replace"), server.tail()


def publish(rest, data, topic=TOPIC):
    return rest.post(f"/v1/{topic}:publish", {"messages": [{"data": encode(data)}]})


def degraded(rest):
    return {one["code"]: one for one in rest.get("/status").json["degraded"]}


def alerting(rest):
    return [one["rule"] for one in rest.get("/alerts").json["alerts"] if one["state"] == "firing"]


def test_a_log_that_cannot_be_emptied_refuses_messages_and_says_so(make):
    rest = make()
    rest.topic(TOPIC)
    rest.subscription(NAME, TOPIC)
    # Nothing can be moved out of the log: a file is where the folder of segments should be.
    in_the_way = rest.server.data / "topics"
    in_the_way.write_text("not a folder")
    taken = 0
    while (answer := publish(rest, BIG)).code == 200:
        taken += 1
        assert taken < 100, "the bound of the log does not hold"
    assert (answer.code, answer.status) == (503, "UNAVAILABLE"), answer
    assert "storage.wal_max" in answer.message and "Not a directory" in answer.message
    assert "log_not_trimmed" in degraded(rest)
    assert rest.get("/status").json["status"] == "degraded"
    ready = rest.get("/readyz")
    assert ready.code == 200 and "degraded: log_not_trimmed: " in ready.text
    until(lambda: alerting(rest) == ["log_not_trimmed"], seconds=30)
    # Deliveries and acks go on.
    received = rest.pull(NAME, 1)
    rest.ack(NAME, received)
    assert datas(received) == [BIG]
    # And by itself it goes on with all once it can.
    in_the_way.unlink()
    until(lambda: publish(rest, BIG).code == 200, seconds=30)
    until(lambda: degraded(rest) == {}, seconds=30)
    until(lambda: alerting(rest) == [], seconds=30)
    assert rest.get("/readyz").text == "ready\n"


def test_a_flipped_byte_in_a_synced_commit_costs_its_message_and_stops_nothing(make):
    # Files that are larger than what is in memory: what is moved is read back.
    rest = make(segment="4MiB", wal="12MiB")
    rest.topic(TOPIC)
    rest.subscription(NAME, TOPIC)
    for number in range(6):
        assert publish(rest, b"message %d " % number * 100).code == 200
    flip(rest.server.data, b"message 3 message 3")
    # Twice the bound of the log.
    for _ in range(80):
        answer = publish(rest, BIG)
        assert answer.code == 200, answer
    until(lambda: any((rest.server.data / "damaged").glob("*")), seconds=30)
    found = set()

    def all_others():
        received = rest.pull(NAME, 100, wait=False)
        rest.ack(NAME, received)
        found.update(data[:9] for data in datas(received))
        return len([data for data in found if data.startswith(b"message")]) == 5

    until(all_others, seconds=30)
    assert b"message 3" not in found
    assert set(degraded(rest)) == {"message_damaged"}
    assert "damaged records in the log" in rest.server.log.read_text()
    # What is named stays named, and stops no start.
    rest.server.restart()
    rest.pull(NAME, 100, wait=False)
    until(lambda: set(degraded(rest)) == {"message_damaged"}, seconds=30)


def flip(data, pattern):
    """Changes one byte of a message in the log."""
    for file in sorted((data / "wal").iterdir()):
        place = file.read_bytes().find(pattern)
        if place >= 0:
            with open(file, "r+b") as log:
                log.seek(place + 3)
                log.write(b"!")
            return
    raise AssertionError(f"{pattern} is not in the log")


class FewFiles(Server):
    """A server that may have few files open."""

    def command(self):
        return ["sh", "-c", 'ulimit -n 256 && exec "$@"', "sh", *super().command()]


def test_more_topics_than_open_files_are_moved_out_of_the_log(make):
    rest = make(segment="8MiB", wal="16MiB", of=FewFiles)
    topics = [f"projects/p/topics/topic-{number}" for number in range(400)]
    for topic in topics:
        rest.ok("PUT", f"/v1/{topic}", {"messageRetentionDuration": "3600s"})
        assert publish(rest, topic.encode(), topic).code == 200
    # All of them are in one file of the log, which is filled and moved away now.
    for _ in range(150):
        answer = publish(rest, BIG, topics[0])
        assert answer.code == 200, answer
    assert degraded(rest) == {}
    assert len(list((rest.server.data / "topics").iterdir())) >= len(topics)
    for topic in topics[:: len(topics) // 20]:
        page = rest.ok("GET", f"/v1/{topic}/messages?pageSize=1")
        assert datas(page["messages"][:1]) == [topic.encode()]
    rest.server.restart()
    assert degraded(rest) == {}
