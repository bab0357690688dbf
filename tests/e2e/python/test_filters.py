"""Filters: Google's language, what is delivered, what counts as acked, bad ones."""

import pytest

from statuses import refused
from waiting import data

# Attribute sets by name; a message's data is its name.
MESSAGES = {
    b"none": {},
    b"com": {"domain": "com"},
    b"org": {"domain": "org"},
    b"com-us": {"domain": "com", "region": "us-east1"},
    b"org-eu": {"domain": "org", "region": "eu-west1"},
    b"odd": {"a b": "x\"y", "iana.org/lang": "en"},
    b"empty": {"domain": ""},
}

FILTERS = {
    "attributes:domain": {b"com", b"org", b"com-us", b"org-eu", b"empty"},
    'attributes.domain = "com"': {b"com", b"com-us"},
    'attributes.domain="com"': {b"com", b"com-us"},
    'attributes.domain != "com"': {b"none", b"org", b"org-eu", b"odd", b"empty"},
    'hasPrefix(attributes.region, "us-")': {b"com-us"},
    'hasPrefix(attributes.domain, "")': {b"com", b"org", b"com-us", b"org-eu", b"empty"},
    "attributes:domain AND attributes:region": {b"com-us", b"org-eu"},
    'attributes.domain = "com" OR attributes:region': {b"com", b"com-us", b"org-eu"},
    "NOT attributes:domain": {b"none", b"odd"},
    "-attributes:domain": {b"none", b"odd"},
    'attributes:domain AND NOT attributes.domain = "com"': {b"org", b"org-eu", b"empty"},
    'attributes:region AND (attributes.domain = "org" OR attributes.domain = "net")': {b"org-eu"},
    '(NOT attributes:region) AND attributes.domain = "org"': {b"org"},
    'attributes:"a b"': {b"odd"},
    'attributes."a b" = "x\\"y"': {b"odd"},
    'attributes:"iana.org/lang"': {b"odd"},
    'attributes.domain = ""': {b"empty"},
}


@pytest.fixture(scope="module")
def filtered(server):
    """One topic, a subscription for every filter, and all the messages published once."""
    from clients import Clients

    clients = Clients(server, "grpc")
    topic = clients.topic()
    names = {text: clients.subscription(topic, filter=text) for text in FILTERS}
    messages = [{"data": one, "attributes": given} for one, given in MESSAGES.items()]
    clients.publish_messages(topic, *messages)
    yield clients, names
    clients.close()


@pytest.mark.parametrize("text", FILTERS)
def test_exactly_what_matches_is_delivered(filtered, text):
    clients, names = filtered
    assert clients.get(names[text]).filter == text
    received = clients.pull_exactly(names[text], len(FILTERS[text]))
    assert set(data(received)) == FILTERS[text]
    clients.ack(names[text], received)
    assert clients.pull_now(names[text]) == []


@pytest.mark.parametrize(
    "text, position",
    [
        ("domain", 1),
        ("attributes", 11),
        ("attributes:", 12),
        ("attributes.domain", 18),
        ("attributes.domain = com", 21),
        ('attributes.domain > "com"', 19),
        ('attributes.domain = "com', 21),
        ("attributes:a AND", 17),
        ("attributes:a attributes:b", 14),
        ("(attributes:a", 14),
        ("attributes:a)", 13),
        ("attributes:a AND attributes:b OR attributes:c", 31),
        ('hasPrefix(attributes.a "x")', 24),
        ("NOT", 4),
        ("attributes:a b", 14),
    ],
)
def test_a_bad_filter_is_refused_with_the_position(clients, text, position):
    topic = clients.topic()
    with refused("INVALID_ARGUMENT") as raised:
        clients.subscription(topic, filter=text)
    told = str(raised.value)
    assert "filter: at " in told, told
    assert f"at {position}:" in told, told
    assert list(clients.publisher.list_topic_subscriptions(request={"topic": topic})) == []


def test_a_filter_has_at_most_256_bytes(clients):
    topic = clients.topic()
    longest = 'attributes.k = "' + "v" * (256 - 17) + '"'
    assert len(longest) == 256
    clients.subscription(topic, filter=longest)
    with refused("INVALID_ARGUMENT") as raised:
        clients.subscription(topic, filter=longest.replace("vv", "vvv", 1))
    assert "256" in str(raised.value)


def test_a_filter_cannot_be_changed(clients):
    topic = clients.topic()
    name = clients.subscription(topic, filter="attributes:a")
    with refused("INVALID_ARGUMENT") as raised:
        clients.update(name, ["filter"], filter="attributes:b")
    assert "filter" in str(raised.value)
    assert clients.get(name).filter == "attributes:a"


def test_what_does_not_match_counts_as_acked_and_stays_so_after_a_crash(own_server, connect):
    clients = connect()
    topic = clients.topic()
    name = clients.subscription(topic, filter='attributes.want = "yes"')
    everything = clients.subscription(topic)
    messages = [
        {"data": b"%d" % n, "attributes": {"want": "yes" if n % 100 == 7 else "no"}}
        for n in range(500)
    ]
    clients.publish_messages(topic, *messages)
    received = clients.pull_exactly(name, 5)
    assert sorted(map(int, data(received))) == [7, 107, 207, 307, 407]
    clients.ack(name, received[:3])
    clients.publish_messages(topic, {"data": b"last", "attributes": {"want": "no"}})
    own_server.restart("kill")
    clients = connect()
    left = clients.pull_exactly(name, 2)
    assert sorted(map(int, data(left))) == [307, 407]
    clients.ack(name, left)
    assert clients.pull_now(name) == []
    assert len(clients.pull_exactly(everything, 501)) == 501


def test_a_filter_and_an_order_go_together(grpc_clients):
    clients = grpc_clients
    topic = clients.topic()
    name = clients.subscription(topic, filter="attributes:want", enable_message_ordering=True)
    for n in range(10):
        given = {"want": ""} if n % 2 else {"other": ""}
        clients.publish_messages(
            topic, {"data": b"%d" % n, "ordering_key": "k", "attributes": given}
        )
    received = clients.pull_exactly(name, 5)
    assert data(received) == [b"1", b"3", b"5", b"7", b"9"]
    clients.nack(name, received[2:3])
    clients.ack(name, received[:2])
    assert data(clients.pull_exactly(name, 3)) == [b"5", b"7", b"9"]
