"""DetachSubscription: the backlog is dropped, nothing more is delivered, and it says so."""

import datetime

from statuses import refused, status_of
from streams import opened
from waiting import data


def detach(clients, name):
    clients.publisher.detach_subscription(request={"subscription": name})


def test_a_detached_subscription_is_cut_off(clients):
    topic, name = clients.pair()
    other = clients.subscription(topic)
    clients.publish(topic, b"dropped")
    assert not clients.get(name).detached
    detach(clients, name)
    shown = clients.get(name)
    assert shown.detached
    assert shown.name == name
    listed = clients.publisher.list_topic_subscriptions(request={"topic": topic})
    assert list(listed) == [other], "only attached ones are listed"
    with refused("FAILED_PRECONDITION"):
        clients.pull_now(name)
    now = datetime.datetime.now(datetime.timezone.utc)
    with refused("FAILED_PRECONDITION"):
        clients.seek(name, time=now)
    with refused("FAILED_PRECONDITION"):
        clients.subscriber.create_snapshot(
            request={"name": clients.snapshot_name(), "subscription": name}
        )
    assert data(clients.pull_exactly(other, 1)) == [b"dropped"]
    clients.subscriber.delete_subscription(request={"subscription": name})
    with refused("NOT_FOUND"):
        clients.get(name)


def test_open_streams_and_new_ones_end(grpc_clients):
    clients = grpc_clients
    topic, name = clients.pair()
    with opened(clients, name) as stream:
        clients.publish(topic, b"x")
        stream.take(1)
        detach(clients, name)
        assert status_of(stream.end()) == "FAILED_PRECONDITION"
    with opened(clients, name) as stream:
        assert status_of(stream.end()) == "FAILED_PRECONDITION"


def test_it_stays_detached_over_a_crash(own_server, connect):
    clients = connect()
    topic, name = clients.pair()
    clients.publish(topic, b"dropped")
    detach(clients, name)
    own_server.restart("kill")
    clients = connect()
    assert clients.get(name).detached
    with refused("FAILED_PRECONDITION"):
        clients.pull_now(name)
    assert list(clients.publisher.list_topic_subscriptions(request={"topic": topic})) == []


def test_a_missing_subscription_cannot_be_detached(clients):
    with refused("NOT_FOUND"):
        detach(clients, clients.subscription_name())
    with refused("INVALID_ARGUMENT"):
        clients.publisher.detach_subscription(request={"subscription": "projects/p/subscriptions/a"})
