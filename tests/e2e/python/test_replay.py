"""Dead letters of the built program: replayed at a rate, killed half way, and none twice."""

import time

from rest import Rest, datas, encode
from waiting import until

LETTERS = 5_000
PER_SECOND = 1_000
PULL = 1_000


def set_up(rest, project):
    """A subscription whose messages become dead letters after one attempt."""
    topic, dead = f"{project}/topics/orders", f"{project}/topics/dead"
    name = f"{project}/subscriptions/billing"
    rest.topic(topic)
    rest.topic(dead)
    rest.subscription(
        name, topic, deadLetterPolicy={"deadLetterTopic": dead}, postrider={"maxAttempts": 1}
    )
    return topic, dead, name


def give_up(rest, topic, name, count):
    """Publishes so many messages and fails each once."""
    for first in range(0, count, PULL):
        rest.publish(topic, *(str(number) for number in range(first, min(first + PULL, count))))
    failed = 0
    while failed < count:
        received = rest.pull(name, PULL)
        ids = [one["ackId"] for one in received]
        body = {"ackIds": ids, "ackDeadlineSeconds": 0}
        rest.ok("POST", f"/v1/{name}:modifyAckDeadline", body)
        failed += len(received)


def waiting(rest):
    return rest.ok("GET", "/status")["deadLettersWaiting"]


def replay_of(rest, begun):
    return rest.ok("GET", f"/v1/{begun['name']}")


def pull_all(rest, name, count):
    """Pulls and acks until so many messages have come, and then what else there is."""
    got = []
    while len(got) < count:
        received = rest.pull(name, PULL)
        got += [int(data) for data in datas(received)]
        rest.ack(name, received)
    return got + [int(data) for data in datas(rest.pull(name, wait=False))]


def test_a_replay_keeps_its_rate_and_survives_kill_9_without_doubling(own_server, project):
    rest = Rest(own_server)
    topic, _, name = set_up(rest, project)
    give_up(rest, topic, name, LETTERS)
    until(lambda: waiting(rest) == LETTERS)

    started = time.monotonic()
    begun = rest.ok(
        "POST", f"/v1/{name}/deadLetters:replay", {"all": True, "perSecond": PER_SECOND}
    )
    assert (begun["state"], begun["total"]) == ("running", LETTERS)
    until(lambda: replay_of(rest, begun)["replayed"] >= LETTERS // 2)
    went, took = replay_of(rest, begun)["replayed"], time.monotonic() - started
    assert went <= took * PER_SECOND * 1.1 + PER_SECOND / 20, f"{went} letters in {took} s"
    assert went >= took * PER_SECOND * 0.9 - PER_SECOND / 5, f"{went} letters in {took} s"
    own_server.restart("kill")

    resumed = replay_of(rest, begun)
    assert resumed["state"] == "running" and LETTERS // 2 <= resumed["replayed"] < LETTERS
    until(lambda: replay_of(rest, begun)["state"] != "running")
    done = replay_of(rest, begun)
    assert (done["state"], done["replayed"], done["skipped"]) == ("done", LETTERS, 0), done
    assert pull_all(rest, name, LETTERS) == list(range(LETTERS)), "each once, and in order"
    assert waiting(rest) == 0

    again = rest.ok("POST", f"/v1/{name}/deadLetters:replay", {"all": True})
    until(lambda: replay_of(rest, again)["state"] == "done")
    assert replay_of(rest, again)["skipped"] == LETTERS
    assert rest.pull(name, wait=False) == []


def test_a_replayed_message_is_what_was_published(rest, project):
    topic, dead, name = set_up(rest, project)
    other = f"{project}/subscriptions/other"
    rest.subscription(other, topic)
    message = {"data": encode("bad"), "attributes": {"color": "red"}, "orderingKey": "k"}
    ids = rest.ok("POST", f"/v1/{topic}:publish", {"messages": [message]})["messageIds"]
    rest.ack(other, rest.pull_exactly(other, 1))
    received = rest.pull_exactly(name, 1)
    body = {"ackIds": [received[0]["ackId"]], "ackDeadlineSeconds": 0}
    rest.ok("POST", f"/v1/{name}:modifyAckDeadline", body)
    path = f"/v1/{dead}/deadLetters"
    until(lambda: len(rest.ok("GET", path)["deadLetters"]) == 1)
    letter = rest.ok("GET", path)["deadLetters"][0]
    assert letter["originalSubscription"] == name and letter["originalMessageId"] == ids[0]

    rest.ok("POST", f"{path}:replay", {"messageIds": [letter["messageId"]]})
    again = rest.pull_exactly(name, 1)[0]["message"]
    assert again["data"] == message["data"] and again["orderingKey"] == "k"
    assert again["attributes"] == {"color": "red", "original_message_id": ids[0]}
    assert rest.pull(other, wait=False) == [], "nobody else gets it"


def test_looking_takes_nothing(rest, project):
    topic, dead, name = set_up(rest, project)
    ids = rest.publish(topic, "a", "b")
    before = rest.cursor(name)
    for path in (f"/v1/{topic}/messages", f"/v1/{name}/messages", f"/v1/{dead}/deadLetters"):
        rest.ok("GET", path)
    seen = rest.ok("GET", f"/v1/{name}/messages")["messages"]
    assert [int(one["offset"]) for one in seen] == ids
    assert [(one["state"], one["attempt"]) for one in seen] == [("waiting", 0)] * 2
    assert rest.cursor(name) == before
    received = rest.pull_exactly(name, 2)
    assert [one["deliveryAttempt"] for one in received] == [1, 1]


def test_deleted_letters_stay_deleted_after_kill_9(own_server, project):
    rest = Rest(own_server)
    topic, _, name = set_up(rest, project)
    give_up(rest, topic, name, 3)
    until(lambda: waiting(rest) == 3)
    path = f"/v1/{name}/deadLetters:delete"
    refused = rest.post(path, {"all": True})
    assert refused.status == "FAILED_PRECONDITION" and "confirm 3" in refused.message
    assert rest.ok("POST", path, {"all": True, "confirm": 3}) == {"deleted": 3}
    own_server.restart("kill")
    assert rest.ok("GET", f"/v1/{name}/deadLetters?state=all") == {"deadLetters": []}
    assert waiting(rest) == 0
    acts = (own_server.data / "audit.jsonl").read_text()
    assert "delete dead letters" in acts and "3 deleted" in acts
