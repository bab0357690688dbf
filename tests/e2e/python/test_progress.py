"""Durable progress: the cursor, where a subscription starts, and exact resume."""

import time

import pytest

import program
from program import Server
from rest import Rest, datas, ids

TOPIC = "projects/p/topics/orders"
SUBSCRIPTION = "projects/p/subscriptions/billing"

FLUSH_50_MS = """
[storage]
progress_flush = "50ms"
"""


@pytest.fixture
def flushing(tmp_path):
    """A server that saves its progress every 50 ms, with one topic and one subscription."""
    server = Server(tmp_path, config=FLUSH_50_MS).start()
    rest = Rest(server)
    rest.topic(TOPIC)
    rest.subscription(SUBSCRIPTION, TOPIC)
    yield server, rest
    server.stop()


def wait_for(rest, subscription, condition):
    """Reads the saved cursor until it is as wanted."""
    ends = time.monotonic() + 10
    while not condition(cursor := rest.cursor(subscription)):
        assert time.monotonic() < ends, f"cursor is {cursor}"
    return cursor


def wait_for_offset(rest, subscription, offset):
    return wait_for(rest, subscription, lambda cursor: cursor["offset"] == offset)


def test_persisted_on_ack(flushing):
    server, rest = flushing
    published = rest.publish(TOPIC, *"abcde")
    before = rest.cursor(SUBSCRIPTION)
    assert before["offset"] == published[0] - 1
    received = rest.pull_exactly(SUBSCRIPTION, 5)
    rest.ack(SUBSCRIPTION, [one for one in received if ids([one])[0] <= published[2]])
    cursor = wait_for_offset(rest, SUBSCRIPTION, published[2])
    assert abs(cursor["updated_at"] - time.time()) < 60
    assert cursor["ackedAbove"] == 0
    server.restart("kill")
    assert rest.cursor(SUBSCRIPTION)["offset"] == published[2]


def test_the_cursor_shows_what_is_acked_above_it(flushing):
    server, rest = flushing
    published = rest.publish(TOPIC, *"abcde")
    received = rest.pull_exactly(SUBSCRIPTION, 5)
    rest.ack(SUBSCRIPTION, [one for one in received if ids([one])[0] in published[2:4]])
    wait_for(rest, SUBSCRIPTION, lambda cursor: cursor["ackedAbove"] == 2)
    for _ in range(2):
        server.restart("kill")
        cursor = rest.cursor(SUBSCRIPTION)
        assert cursor["offset"] == published[0] - 1
        assert cursor["ackedAbove"] == 2


def test_resumed_from_seeded_cursor(flushing):
    """A cursor seeded through `postrider.start` is where delivery begins."""
    _, rest = flushing
    change = {"topic": {"messageRetentionDuration": "3600s"}, "updateMask": "messageRetentionDuration"}
    rest.ok("PATCH", f"/v1/{TOPIC}", change)
    published = rest.publish(TOPIC, *"abcdefgh")
    seeded = "projects/p/subscriptions/seeded"
    rest.subscription(seeded, TOPIC, postrider={"start": {"offset": published[3]}})
    assert rest.cursor(seeded)["offset"] == published[3] - 1
    received = rest.pull_exactly(seeded, 5)
    assert sorted(ids(received)) == published[3:]


@pytest.mark.parametrize("how", ["term", "kill"])
@pytest.mark.parametrize("order", ["in order", "out of order"])
def test_reliable_dispatch_resume(flushing, how, order):
    """N published, K acked, restarted: delivery goes on at K + 1."""
    server, rest = flushing
    n, k = 20, 8
    published = rest.publish(TOPIC, *map(str, range(n)))
    received = rest.pull_exactly(SUBSCRIPTION, n)
    first = sorted((one for one in received if ids([one])[0] <= published[k - 1]), key=lambda r: ids([r]))
    if order == "out of order":
        first = first[1::2] + first[0::2][::-1]
    for one in first:
        rest.ack(SUBSCRIPTION, [one])
    wait_for_offset(rest, SUBSCRIPTION, published[k - 1])
    server.restart(how)
    again = rest.pull_exactly(SUBSCRIPTION, n - k)
    assert sorted(ids(again)) == published[k:]
    rest.ack(SUBSCRIPTION, again)
    assert rest.pull(SUBSCRIPTION, wait=False) == []


@pytest.mark.parametrize("how", ["term", "kill"])
def test_acks_out_of_order_lose_nothing_below_them(flushing, how):
    """Only the upper half is acked: a cursor that were the last acked offset would lose the rest."""
    server, rest = flushing
    published = rest.publish(TOPIC, *map(str, range(20)))
    received = rest.pull_exactly(SUBSCRIPTION, 20)
    rest.ack(SUBSCRIPTION, [one for one in received if ids([one])[0] >= published[10]])
    rest.publish(TOPIC, "marker")
    server.restart(how)
    again = rest.pull_exactly(SUBSCRIPTION, 11)
    assert datas(sorted(again, key=lambda r: ids([r]))) == [
        *(b"%d" % n for n in range(10)),
        b"marker",
    ]
    assert rest.pull(SUBSCRIPTION, wait=False) == []


@pytest.mark.parametrize("how", ["term", "kill"])
def test_a_start_is_durable_before_the_answer(flushing, how):
    """No message was acked yet and no flush has happened: still nothing is skipped."""
    server, rest = flushing
    rest.subscription("projects/p/subscriptions/fresh", TOPIC)
    published = rest.publish(TOPIC, *"abc")
    server.restart(how)
    received = rest.pull_exactly("projects/p/subscriptions/fresh", 3)
    assert sorted(ids(received)) == published


def test_progress_replayed_after_one_crash_survives_the_next(tmp_path):
    """A checkpoint must also hold what only the log knew, though nobody touched it in this life."""
    server = Server(tmp_path, config='[storage]\nprogress_flush = "1h"\n').start()
    rest = Rest(server)
    other = "projects/p/subscriptions/other"
    rest.topic(TOPIC)
    rest.subscription(SUBSCRIPTION, TOPIC)
    rest.subscription(other, TOPIC)
    published = rest.publish(TOPIC, *"abcde")
    rest.ack(SUBSCRIPTION, rest.pull_exactly(SUBSCRIPTION, 5))
    # Synced after the ack, so the ack is durable.
    published += rest.publish(TOPIC, "f")
    server.config.write_text(FLUSH_50_MS)
    server.restart("kill")
    rest.ack(other, rest.pull_exactly(other, 6))
    wait_for_offset(rest, other, published[5])
    server.restart("kill")
    assert ids(rest.pull_exactly(SUBSCRIPTION, 1)) == published[5:]
    server.stop()


def test_a_pull_that_must_not_wait_finds_a_backlog_on_disk(flushing):
    server, rest = flushing
    published = rest.publish(TOPIC, *"abcde")
    server.restart("kill")
    assert ids(rest.pull(SUBSCRIPTION, wait=False)) == published


def starts(published, middle):
    return {
        "latest": ("latest", []),
        "earliest": ("earliest", published),
        "offset": ({"offset": published[4]}, published[4:]),
        "offset as text": ({"offset": str(published[4])}, published[4:]),
        "time": ({"time": middle}, published[3:]),
        "time in the future": ({"time": "2100-01-01T00:00:00Z"}, []),
        "time long ago": ({"time": "2000-01-01T00:00:00Z"}, published),
    }


@pytest.fixture(scope="module")
def six(tmp_path_factory):
    """Six retained messages, and a time between the third and the fourth."""
    server = Server(tmp_path_factory.mktemp("six")).start()
    rest = Rest(server)
    rest.ok("PUT", f"/v1/{TOPIC}", {"messageRetentionDuration": "3600s"})
    rest.subscription(SUBSCRIPTION, TOPIC)
    first = rest.publish(TOPIC, *"abc")
    then = time.time()
    while time.time() < then + 0.02:
        pass
    middle = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(middle)) + f".{int(middle % 1 * 1e6):06}Z"
    while time.time() < middle + 0.02:
        pass
    published = first + rest.publish(TOPIC, *"def")
    yield rest, published, stamp, middle
    server.stop()


@pytest.mark.parametrize("what", starts([0] * 6, ""))
def test_a_subscription_starts_where_postrider_start_says(six, what):
    rest, published, stamp, _ = six
    start, wanted = starts(published, stamp)[what]
    name = "projects/p/subscriptions/start-" + what.replace(" ", "-")
    rest.subscription(name, TOPIC, postrider={"start": start})
    received = rest.pull_exactly(name, len(wanted)) if wanted else []
    assert sorted(ids(received)) == wanted
    assert rest.pull(name, wait=False) == []


@pytest.mark.parametrize("what", ["latest", "earliest", "offset", "time"])
def test_a_subscription_starts_where_its_label_says(six, what):
    rest, published, _, middle = six
    label, wanted = {
        "latest": ("latest", []),
        "earliest": ("earliest", published),
        "offset": (str(published[4]), published[4:]),
        "time": (f"time-{int(middle) - 60}", published),
    }[what]
    name = f"projects/p/subscriptions/label-{what}"
    rest.subscription(name, TOPIC, labels={"postrider-start": label})
    received = rest.pull_exactly(name, len(wanted)) if wanted else []
    assert sorted(ids(received)) == wanted
    assert rest.pull(name, wait=False) == []


def test_a_label_and_the_object_that_disagree_are_refused(six):
    rest, *_ = six
    answer = rest.put(
        "/v1/projects/p/subscriptions/torn",
        {"topic": TOPIC, "labels": {"postrider-start": "latest"}, "postrider": {"start": "earliest"}},
    )
    assert answer.code == 400 and answer.status == "INVALID_ARGUMENT"
    assert "start" in answer.message


@pytest.mark.parametrize(
    "start", ["middle", 5, {"offset": -1}, {"offset": "x"}, {"time": "yesterday"}, {"place": 1}, {}], ids=str
)
def test_a_bad_start_is_refused(six, start):
    rest, *_ = six
    answer = rest.put(
        "/v1/projects/p/subscriptions/bad-start", {"topic": TOPIC, "postrider": {"start": start}}
    )
    assert answer.code == 400 and answer.status == "INVALID_ARGUMENT"
    assert "start" in answer.message


def test_the_cursor_of_a_missing_subscription_is_not_found(six):
    rest, *_ = six
    answer = rest.get("/v1/projects/p/subscriptions/nobody/cursor")
    assert answer.code == 404 and answer.status == "NOT_FOUND"


def test_subscription_describe_shows_the_cursor(six):
    rest, published, *_ = six
    told = program.run("subscription", "describe", SUBSCRIPTION, "--server", rest.server.url)
    assert told.returncode == 0, told.stderr
    assert SUBSCRIPTION in told.stdout
    assert str(published[0] - 1) in told.stdout
    missing = program.run(
        "subscription", "describe", "projects/p/subscriptions/nobody", "--server", rest.server.url
    )
    assert missing.returncode != 0
    assert "not found" in missing.stderr
