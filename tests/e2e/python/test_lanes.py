"""Lanes: what is blocked and why, halted lanes, release, skip, the record of it, the command."""

import datetime
import json

import pytest

import program
from rest import Rest
from waiting import data, until


def ordered(key, *datas):
    return [{"data": one, "ordering_key": key} for one in datas]


def halting(rest, clients, **fields):
    """A topic, its dead letters and a subscription whose lanes halt after 5 attempts."""
    topic, (dead, letters) = clients.topic(), clients.pair()
    name = clients.subscription_name()
    rest.subscription(
        name,
        topic,
        deadLetterPolicy={"deadLetterTopic": dead},
        **{"enableMessageOrdering": True, "postrider": {"poison": "halt"}, **fields},
    )
    return topic, name, letters


def exhaust(clients, name):
    """Fails the first message that comes as often as it may fail."""
    for _ in range(5):
        clients.nack(name, clients.pull_exactly(name, 1))


def lanes(rest, name, query="?state=blocked"):
    return rest.ok("GET", f"/v1/{name}/lanes{query}")["lanes"]


def lane(rest, name, query="?state=blocked"):
    (found,) = lanes(rest, name, query)
    return found


def act(rest, name, what, key):
    return rest.post(f"/v1/{name}/lanes:{what}", {"key": key})


def stamp(text):
    return datetime.datetime.fromisoformat(text).timestamp()


def test_a_subscription_without_lanes_lists_none(rest, grpc_clients):
    topic, name = grpc_clients.pair()
    grpc_clients.publish(topic, b"x")
    grpc_clients.nack(name, grpc_clients.pull_exactly(name, 1))
    assert rest.ok("GET", f"/v1/{name}/lanes")["lanes"] == []


def test_a_halted_lane_shows_what_blocks_it(rest, grpc_clients):
    clients = grpc_clients
    topic, name, letters = halting(rest, clients)
    ids = clients.publish_messages(topic, *ordered("ann", b"1", b"2", b"3"))
    before = datetime.datetime.now().timestamp()
    exhaust(clients, name)
    found = lane(rest, name)
    assert found["key"] == "ann"
    assert found["state"] == "halted"
    assert found["messageId"] == ids[0]
    assert found["attempt"] == 5
    assert found["maxAttempts"] == 5
    assert before - 1 <= stamp(found["blockedSince"]) <= datetime.datetime.now().timestamp() + 1
    assert 0 <= found["ageSeconds"] <= 30
    assert found["lastClass"] == "nack"
    assert found["pendingCount"] >= 1
    assert "nextAttemptAt" not in found
    assert clients.pull_now(name) == []
    assert clients.pull_now(letters) == [], "nothing is dead-lettered while it halts"
    # Other lanes go on, and are not blocked.
    clients.publish_messages(topic, *ordered("bob", b"4"))
    assert data(clients.pull_exactly(name, 1)) == [b"4"]
    assert [one["key"] for one in lanes(rest, name)] == ["ann"]


def test_a_released_lane_tries_its_head_again_from_attempt_one(rest, grpc_clients):
    clients = grpc_clients
    topic, name, _ = halting(rest, clients)
    clients.publish_messages(topic, *ordered("ann", b"1", b"2"))
    exhaust(clients, name)
    assert act(rest, name, "release", "ann").code == 200
    received = clients.pull_exactly(name, 2)
    assert data(received) == [b"1", b"2"]
    assert received[0].delivery_attempt == 1
    clients.ack(name, received)
    assert lanes(rest, name) == []


def test_a_skipped_head_is_dead_lettered_and_the_lane_goes_on(rest, grpc_clients):
    clients = grpc_clients
    topic, name, letters = halting(rest, clients)
    ids = clients.publish_messages(topic, *ordered("ann", b"1", b"2"))
    exhaust(clients, name)
    assert act(rest, name, "skip", "ann").code == 200
    letter = clients.pull_exactly(letters, 1)[0].message
    assert letter.data == b"1"
    assert letter.attributes["original_message_id"] == ids[0]
    assert data(clients.pull_exactly(name, 1)) == [b"2"]
    assert lanes(rest, name) == []


def test_a_skipped_head_says_so_and_how_its_last_delivery_failed(rest, grpc_clients):
    topic, name, letters = halting(rest, grpc_clients)
    grpc_clients.publish_messages(topic, *ordered("ann", b"bad"))
    exhaust(grpc_clients, name)
    until(lambda: lanes(rest, name))
    assert act(rest, name, "skip", "ann").code == 200
    (letter,) = grpc_clients.pull_exactly(letters, 1)
    said = dict(letter.message.attributes)
    assert said["failure_reason"] == "skipped"
    assert (said["attempts"], said["error_class"]) == ("5", "nack")


def test_a_fifo_subscription_has_one_lane_without_a_name(rest, grpc_clients):
    clients = grpc_clients
    topic, name, letters = halting(
        rest,
        clients,
        enableMessageOrdering=False,
        postrider={"fifo": True, "poison": "halt"},
    )
    clients.publish(topic, b"1", b"2")
    exhaust(clients, name)
    assert lane(rest, name)["key"] == ""
    assert act(rest, name, "skip", "").code == 200
    assert data(clients.pull_exactly(letters, 1)) == [b"1"]
    assert data(clients.pull_exactly(name, 1)) == [b"2"]


def test_without_a_dead_letter_topic_a_skipped_head_is_acked(rest, grpc_clients):
    clients = grpc_clients
    topic, name = clients.topic(), clients.subscription_name()
    rest.subscription(
        name,
        topic,
        enableMessageOrdering=True,
        postrider={"poison": "halt", "maxAttempts": 2},
    )
    clients.publish_messages(topic, *ordered("ann", b"1", b"2"))
    for _ in range(2):
        clients.nack(name, clients.pull_exactly(name, 1))
    assert lane(rest, name)["maxAttempts"] == 2
    assert act(rest, name, "skip", "ann").code == 200
    received = clients.pull_exactly(name, 1)
    assert data(received) == [b"2"]
    clients.ack(name, received)
    assert clients.pull_now(name) == []


def test_a_lane_in_backoff_is_blocked_until_its_time(rest, grpc_clients):
    clients = grpc_clients
    topic = clients.topic()
    name = clients.subscription(
        topic,
        enable_message_ordering=True,
        retry_policy={"minimum_backoff": datetime.timedelta(seconds=300)},
    )
    ids = clients.publish_messages(topic, *ordered("ann", b"1", b"2"))
    clients.nack(name, clients.pull_exactly(name, 2)[:1])
    found = lane(rest, name)
    assert (found["state"], found["messageId"], found["attempt"]) == ("backing_off", ids[0], 1)
    assert "maxAttempts" not in found
    wait = stamp(found["nextAttemptAt"]) - stamp(found["blockedSince"])
    assert 299 <= wait <= 331
    assert act(rest, name, "release", "ann").code == 200
    assert data(clients.pull_exactly(name, 2)) == [b"1", b"2"]
    assert lanes(rest, name) == []


def test_lanes_that_move_are_listed_when_asked_for(rest, grpc_clients):
    clients = grpc_clients
    topic = clients.topic()
    name = clients.subscription(topic, enable_message_ordering=True)
    clients.publish_messages(topic, *ordered("ann", b"1"), *ordered("bob", b"2"))
    clients.pull_exactly(name, 2)
    assert lanes(rest, name) == []
    found = lanes(rest, name, "")
    assert {one["key"] for one in found} == {"ann", "bob"}
    assert {one["state"] for one in found} == {"moving"}


def test_many_lanes_come_in_pages(rest, grpc_clients):
    clients = grpc_clients
    topic, name, _ = halting(rest, clients)
    keys = [f"key-{n:02}" for n in range(25)]
    clients.publish_messages(topic, *[ordered(key, b"x")[0] for key in keys])
    for _ in range(5):
        clients.nack(name, clients.pull_exactly(name, 25))
    listed, sizes, token = [], [], ""
    while True:
        page = rest.ok(
            "GET", f"/v1/{name}/lanes?state=blocked&pageSize=10&pageToken={token}"
        )
        listed += [one["key"] for one in page["lanes"]]
        sizes.append(len(page["lanes"]))
        token = page.get("nextPageToken")
        if token is None:
            break
    assert sizes == [10, 10, 5]
    assert sorted(listed) == keys


def test_what_is_wrong_is_refused_by_name(rest, grpc_clients):
    clients = grpc_clients
    topic, name, _ = halting(rest, clients)
    for verb, path, body, code, status, named in (
        ("GET", "lanes?state=stuck", None, 400, "INVALID_ARGUMENT", "state"),
        ("GET", "lanes?stat=blocked", None, 400, "INVALID_ARGUMENT", "stat"),
        ("GET", "lanes?pageSize=-1", None, 400, "INVALID_ARGUMENT", "pageSize"),
        ("GET", "lanes?pageSize=x", None, 400, "INVALID_ARGUMENT", "pageSize"),
        ("GET", "lanes?pageToken=rubbish", None, 400, "INVALID_ARGUMENT", "pageToken"),
        ("POST", "lanes:release", {}, 400, "INVALID_ARGUMENT", "key"),
        ("POST", "lanes:release", {"key": 5}, 400, "INVALID_ARGUMENT", "key"),
        ("POST", "lanes:skip", {"key": "a", "why": "b"}, 400, "INVALID_ARGUMENT", "why"),
        ("POST", "lanes:skip", {"key": "nobody"}, 400, "FAILED_PRECONDITION", "nobody"),
        ("POST", "lanes:release", {"key": "nobody"}, 400, "FAILED_PRECONDITION", "not blocked"),
        ("POST", "lanes", {}, 404, "NOT_FOUND", "lanes"),
        ("GET", "lanes:skip", None, 404, "NOT_FOUND", "lanes"),
        ("POST", "lanes:fly", {}, 404, "NOT_FOUND", "lanes"),
    ):
        answer = rest.call(verb, f"/v1/{name}/{path}", body)
        assert (answer.code, answer.status) == (code, status), f"{path}: {answer}"
        assert named in answer.message, f"{path}: {answer}"
    missing = rest.get(f"/v1/{clients.subscription_name()}/lanes")
    assert (missing.code, missing.status) == (404, "NOT_FOUND")


@pytest.mark.parametrize("fields", [{}, {"enableMessageOrdering": True}], ids=str)
def test_halting_needs_lanes_and_an_end_of_attempts(rest, grpc_clients, fields):
    topic, name = grpc_clients.topic(), grpc_clients.subscription_name()
    answer = rest.put(f"/v1/{name}", {"topic": topic, "postrider": {"poison": "halt"}, **fields})
    assert (answer.code, answer.status) == (400, "INVALID_ARGUMENT")
    assert "postrider.poison" in answer.message


def test_acts_are_on_record_and_halts_survive_crashes(own_server, connect):
    clients, rest = connect(), Rest(own_server)
    topic, name, letters = halting(rest, clients)
    ids = clients.publish_messages(topic, *ordered("ann", b"1", b"2"), *ordered("bob", b"3"))
    for _ in range(5):
        received = clients.pull_exactly(name, 3)
        clients.nack(name, [one for one in received if one.message.data in (b"1", b"3")])
    until(lambda: len(lanes(rest, name)) == 2)
    clients.publish(clients.topic(), b"barrier")
    own_server.restart("kill")
    clients = connect()
    # Nothing has been read since: the lanes are known all the same.
    found = {one["key"]: one for one in lanes(rest, name)}
    assert set(found) == {"ann", "bob"}
    assert {one["state"] for one in found.values()} == {"halted"}
    assert found["ann"]["messageId"] == ids[0] and found["ann"]["attempt"] == 5
    assert clients.pull_now(name) == []
    assert act(rest, name, "skip", "bob").code == 200
    assert act(rest, name, "release", "ann").code == 200
    own_server.restart("kill")
    clients = connect()
    # The answers alone mean that the acts are durable.
    assert lanes(rest, name) == []
    assert data(clients.pull_exactly(letters, 1)) == [b"3"]
    received = clients.pull_exactly(name, 2)
    assert data(received) == [b"1", b"2"]
    assert received[0].delivery_attempt == 1
    acts = [json.loads(line) for line in (own_server.data / "audit.jsonl").open()]
    assert [(one["act"], one["key"], one["messageId"]) for one in acts] == [
        ("skip", "bob", ids[2]),
        ("release", "ann", ids[0]),
    ]
    assert {one["subscription"] for one in acts} == {name}
    assert all(abs(stamp(one["at"]) - datetime.datetime.now().timestamp()) < 60 for one in acts)
    logged = [line for line in own_server.log.read_text().splitlines() if '"audit"' in line]
    assert len(logged) == 2, logged


def test_the_command_shows_releases_and_skips(rest, grpc_clients):
    clients = grpc_clients
    topic, name, letters = halting(rest, clients)

    def run(*words):
        return program.run("subscription", "lanes", *words, "--server", rest.server.url)

    told = run(name)
    assert told.returncode == 0, told.stderr
    assert "no lane is blocked" in told.stdout
    ids = clients.publish_messages(topic, *ordered("ann", b"1"), *ordered("bob", b"2"))
    for _ in range(5):
        clients.nack(name, clients.pull_exactly(name, 2))
    told = run(name)
    assert told.returncode == 0, told.stderr
    for part in ("halted", '"ann"', '"bob"', *ids):
        assert part in told.stdout
    told = run(name, "--json")
    assert {one["key"] for one in json.loads(told.stdout)["lanes"]} == {"ann", "bob"}
    assert run("release", name, "--key", "ann").returncode == 0
    assert run("skip", name, "--key", "bob").returncode == 0
    assert data(clients.pull_exactly(letters, 1)) == [b"2"]
    assert data(clients.pull_exactly(name, 1)) == [b"1"]
    again = run("skip", name, "--key", "bob")
    assert again.returncode == 1
    assert "not blocked" in again.stderr
    assert run("skip", name).returncode == 2, "a key is needed"
    assert run("billing").returncode == 2
