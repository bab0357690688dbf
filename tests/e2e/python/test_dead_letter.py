"""Dead letter policies: attempts counted and shown, forwarding, what a dead letter says."""

import datetime

import pytest

import program
from rest import Rest
from statuses import refused
from streams import opened
from waiting import data, until


def policy(topic, attempts=5):
    return {"dead_letter_topic": topic, "max_delivery_attempts": attempts}


@pytest.fixture
def given_up(grpc_clients):
    """A subscription with a dead letter policy, and one on its dead letter topic."""
    clients = grpc_clients
    topic, (dead, letters) = clients.topic(), clients.pair()
    name = clients.subscription(topic, dead_letter_policy=policy(dead))
    return clients, topic, name, letters


def fail(clients, name, times):
    """Fails the one message of a subscription so often; the attempts that were shown."""
    shown = []
    for _ in range(times):
        received = clients.pull_exactly(name, 1)
        shown.append(received[0].delivery_attempt)
        clients.nack(name, received)
    return shown


def test_every_delivery_shows_its_attempt_and_the_last_failure_forwards(clients):
    topic, (dead, letters) = clients.topic(), clients.pair()
    name = clients.subscription(topic, dead_letter_policy=policy(dead))
    clients.publish_messages(topic, {"data": b"bad", "attributes": {"kind": "order"}})
    assert fail(clients, name, 5) == [1, 2, 3, 4, 5]
    received = clients.pull_exactly(letters, 1)
    assert data(received) == [b"bad"]
    assert received[0].delivery_attempt == 0, "the dead letter's own subscription has no policy"
    assert clients.pull_now(name) == []


def test_without_a_policy_no_attempt_is_shown(grpc_clients):
    topic, name = grpc_clients.pair()
    grpc_clients.publish(topic, b"x")
    assert fail(grpc_clients, name, 3) == [0, 0, 0]


def test_a_stream_shows_attempts_too(given_up):
    clients, topic, name, letters = given_up
    clients.publish(topic, b"bad")
    with opened(clients, name) as stream:
        for attempt in range(1, 6):
            received = stream.take(1)
            assert received[0].delivery_attempt == attempt
            stream.nack(received)
        assert data(clients.pull_exactly(letters, 1)) == [b"bad"]
        clients.publish(topic, b"good")
        received = stream.take(1)
        assert (received[0].message.data, received[0].delivery_attempt) == (b"good", 1)


def test_expired_leases_count_as_attempts(given_up):
    clients, topic, name, letters = given_up
    clients.publish(topic, b"bad")
    assert fail(clients, name, 3) == [1, 2, 3]
    for attempt in (4, 5):
        received = clients.pull_exactly(name, 1)
        assert received[0].delivery_attempt == attempt
        clients.modify(name, received, 1)
    assert data(clients.pull_exactly(letters, 1)) == [b"bad"]


def test_a_dead_letter_says_where_it_comes_from_and_why(given_up):
    clients, topic, name, letters = given_up
    ids = clients.publish_messages(
        topic, {"data": b"bad", "attributes": {"kind": "order"}, "ordering_key": "k"}
    )
    published = None
    for _ in range(5):
        received = clients.pull_exactly(name, 1)
        published = received[0].message.publish_time
        clients.nack(name, received)
    letter = clients.pull_exactly(letters, 1)[0].message
    assert letter.data == b"bad"
    assert letter.ordering_key == "k"
    assert letter.message_id != ids[0]
    told = dict(letter.attributes)
    google = "CloudPubSubDeadLetterSource"
    assert told["kind"] == "order"
    assert told[google + "Subscription"] == name.rsplit("/", 1)[1]
    assert told[google + "SubscriptionProject"] == name.split("/")[1]
    assert told[google + "DeliveryCount"] == "5"
    said = datetime.datetime.fromisoformat(told[google + "TopicPublishTime"])
    assert abs(said.timestamp() - published.timestamp()) < 0.01
    assert told["original_subscription"] == name
    assert told["original_message_id"] == ids[0]
    assert told["failure_reason"] == "max_delivery_attempts_exceeded"
    assert told["attempts"] == "5"
    assert told["error_class"] == "nack"


def test_attempts_survive_a_crash(own_server, connect):
    clients = connect()
    topic, (dead, letters) = clients.topic(), clients.pair()
    name = clients.subscription(topic, dead_letter_policy=policy(dead))
    clients.publish(topic, b"bad")
    assert fail(clients, name, 3) == [1, 2, 3]
    clients.publish(clients.topic(), b"barrier")
    own_server.restart("kill")
    clients = connect()
    assert fail(clients, name, 1) == [4]
    clients.publish(clients.topic(), b"barrier")
    own_server.restart("kill")
    clients = connect()
    assert fail(clients, name, 1) == [5]
    assert data(clients.pull_exactly(letters, 1)) == [b"bad"]
    assert clients.pull_now(name) == []


@pytest.mark.parametrize("ordering", [False, True])
def test_a_crash_while_forwarding_loses_and_doubles_nothing(own_server, connect, ordering):
    """The append and the ack are one commit: each message is in one place, whenever the end is."""
    clients = connect()
    topic, dead = clients.topic(), clients.topic()
    letters = clients.subscription(dead)
    name = clients.subscription(
        topic, dead_letter_policy=policy(dead), enable_message_ordering=ordering
    )
    messages = [{"data": b"%d" % n, "ordering_key": f"k{n}"} for n in range(200)]
    clients.publish_messages(topic, *messages)
    for _ in range(4):
        clients.nack(name, clients.pull_exactly(name, 200))
    received = clients.pull_exactly(name, 200)
    assert {one.delivery_attempt for one in received} == {5}
    clients.nack(name, received[:150])
    own_server.restart("kill")
    clients = connect()
    dead_ones, alive = set(), set()

    def all_are_somewhere():
        for source, found in ((letters, dead_ones), (name, alive)):
            for one in clients.pull_now(source):
                assert one.message.data not in found, "twice in one place"
                found.add(one.message.data)
                clients.ack(source, [one])
        return len(dead_ones | alive) >= 200

    until(all_are_somewhere)
    assert not dead_ones & alive, "in both places"
    assert len(alive) >= 50, "those that were not nacked have an attempt left"


def test_a_missing_dead_letter_topic_keeps_the_message_and_says_so(own_server, connect):
    clients, rest = connect(), Rest(own_server)
    dead, topic = clients.topic(), clients.topic()
    name = clients.subscription(topic, dead_letter_policy=policy(dead))
    clients.publisher.delete_topic(request={"topic": dead})
    clients.publish(topic, b"bad")
    assert fail(clients, name, 7)[:5] == [1, 2, 3, 4, 5], "it goes on being tried"

    def told_of():
        lines = own_server.log.read_text().splitlines()
        return [line for line in lines if dead in line and '"audit"' not in line]

    line = until(told_of)[0]
    assert "ERROR" in line and name in line, line
    (warning,) = rest.ok("GET", f"/v1/{name}")["warnings"]
    assert dead in warning
    told = program.run("subscription", "describe", name, "--server", own_server.url)
    assert dead in next(line for line in told.stdout.splitlines() if line.startswith("Warning"))
    clients.publisher.create_topic(request={"name": dead})
    letters = clients.subscription(dead)
    clients.nack(name, clients.pull_exactly(name, 1))
    assert data(clients.pull_exactly(letters, 1)) == [b"bad"]
    assert clients.pull_now(name) == []
    assert "warnings" not in rest.ok("GET", f"/v1/{name}")


def test_dead_letters_are_kept_though_nobody_subscribes(own_server, connect):
    clients, rest = connect(), Rest(own_server)
    topic, dead = clients.topic(), clients.topic()
    name = clients.subscription(topic, dead_letter_policy=policy(dead))
    clients.publish(topic, b"bad")
    fail(clients, name, 5)
    # A nack may be forgotten by a crash; what can be seen is durable.
    until(lambda: rest.ok("GET", f"/v1/{dead}/messages").get("messages"))
    own_server.restart("kill")
    clients = connect()
    late = clients.subscription_name()
    rest.subscription(late, dead, postrider={"start": "earliest"})
    received = clients.pull_exactly(late, 1)
    assert data(received) == [b"bad"]
    clients.ack(late, received)
    later = clients.subscription_name()
    rest.subscription(later, dead, postrider={"start": "earliest"})
    assert data(clients.pull_exactly(later, 1)) == [b"bad"], "acked by one, kept for others"


def test_a_lane_goes_on_behind_a_dead_letter(grpc_clients):
    clients = grpc_clients
    topic, (dead, letters) = clients.topic(), clients.pair()
    name = clients.subscription(
        topic, dead_letter_policy=policy(dead), enable_message_ordering=True
    )
    clients.publish_messages(
        topic, *[{"data": b"%d" % n, "ordering_key": "k"} for n in range(3)]
    )
    for attempt in range(1, 6):
        received = clients.pull_exactly(name, 3)
        assert data(received) == [b"0", b"1", b"2"]
        # Those that only come back with the one that failed spend no attempt.
        assert [one.delivery_attempt for one in received] == [attempt, 1, 1]
        clients.nack(name, received[:1])
    assert data(clients.pull_exactly(letters, 1)) == [b"0"]
    assert data(clients.pull_exactly(name, 2)) == [b"1", b"2"]


def test_the_high_level_subscriber_sees_attempts(server, given_up, monkeypatch):
    from google.cloud import pubsub_v1

    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.address)
    clients, topic, name, letters = given_up
    clients.publish(topic, b"bad")
    seen = []

    def callback(message):
        seen.append(message.delivery_attempt)
        message.nack()

    subscriber = pubsub_v1.SubscriberClient()
    pulling = subscriber.subscribe(name, callback)
    assert data(clients.pull_exactly(letters, 1)) == [b"bad"]
    pulling.cancel()
    pulling.result(timeout=30)
    subscriber.close()
    assert seen == [1, 2, 3, 4, 5]


BAD = {
    "too few attempts": policy("projects/p/topics/dead", 4),
    "too many attempts": policy("projects/p/topics/dead", 101),
    "negative attempts": policy("projects/p/topics/dead", -1),
    "no topic": {"max_delivery_attempts": 5},
    "a bare topic id": policy("dead"),
    "a subscription": policy("projects/p/subscriptions/dead"),
    "a bad topic id": policy("projects/p/topics/goog-dead"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_policy_is_refused_by_name(clients, what):
    topic = clients.topic()
    with refused("INVALID_ARGUMENT") as raised:
        clients.subscription(topic, dead_letter_policy=BAD[what])
    told = str(raised.value)
    assert "dead_letter_policy." in told or "deadLetterPolicy." in told, told
    assert list(clients.publisher.list_topic_subscriptions(request={"topic": topic})) == []


def test_a_policy_is_shown_changed_and_removed(clients):
    topic, dead = clients.topic(), clients.topic()
    name = clients.subscription(topic, dead_letter_policy=policy(dead, 0))
    shown = clients.get(name).dead_letter_policy
    assert (shown.dead_letter_topic, shown.max_delivery_attempts) == (dead, 5)
    changed = clients.update(
        name,
        ["dead_letter_policy.max_delivery_attempts"],
        dead_letter_policy={"max_delivery_attempts": 9},
    ).dead_letter_policy
    assert (changed.dead_letter_topic, changed.max_delivery_attempts) == (dead, 9)
    assert not clients.update(name, ["dead_letter_policy"]).dead_letter_policy
    clients.publish(topic, b"x")
    assert clients.pull_exactly(name, 1)[0].delivery_attempt == 0


def test_its_own_topic_as_dead_letter_topic_is_warned_about(rest, grpc_clients):
    topic, name = grpc_clients.topic(), grpc_clients.subscription_name()
    made = rest.subscription(name, topic, deadLetterPolicy={"deadLetterTopic": topic})
    assert any("own topic" in warning for warning in made["warnings"])
    grpc_clients.publish(topic, b"bad")
    fail(grpc_clients, name, 5)
    again = grpc_clients.pull_exactly(name, 1)[0]
    assert again.message.data == b"bad"
    assert again.message.attributes["failure_reason"] == "max_delivery_attempts_exceeded"
