"""What the tests of push ask a server for: push subscriptions, attempts, lanes."""

import datetime

from clients import Clients
from rest import Rest
from waiting import until

# The earliest a retry may come before its time: clocks are read in two processes.
EARLY_SECONDS = 0.05
# How late it may come on a busy machine, besides the jitter of 10 %.
LATE_SECONDS = 2.5


class Pushing:
    """One receiver, one server, and calls on it that must succeed."""

    def __init__(self, server, receiver):
        self.server = server
        self.receiver = receiver
        self.rest = Rest(server)
        self.clients = Clients(server, "grpc")
        self.made = []

    def close(self):
        """Deletes what was made: the receiver's port may be another's soon."""
        for name in self.made:
            if self.server.alive():
                self.rest.delete(f"/v1/{name}")
        self.clients.close()

    def reconnect(self):
        """New clients after the server was started again."""
        self.clients.close()
        project, self.clients = self.clients.project, Clients(self.server, "grpc")
        self.clients.project = project

    def restart(self, how):
        self.server.restart(how)
        self.reconnect()

    # Subscriptions.

    def create(self, topic, path="/push", config=None, **fields):
        """The REST answer to a new push subscription."""
        name = self.clients.subscription_name()
        config = {"pushEndpoint": self.receiver.url(path), **(config or {})}
        made = self.rest.subscription(name, topic, pushConfig=config, **fields)
        self.made.append(name)
        return made

    def subscribe(self, topic, path="/push", config=None, **fields):
        """The name of a new push subscription."""
        return self.create(topic, path, config, **fields)["name"]

    def pair(self, path="/push", config=None, **fields):
        """A new topic with one push subscription."""
        topic = self.clients.topic()
        return topic, self.subscribe(topic, path, config, **fields)

    def refusal(self, topic, **fields):
        """The REST answer to a subscription that must not be made."""
        name = self.clients.subscription_name()
        answer = self.rest.put(f"/v1/{name}", {"topic": topic, **fields})
        if answer.code == 200:
            self.made.append(name)
        return answer

    def shown(self, name):
        return self.rest.ok("GET", f"/v1/{name}")

    def patch(self, name, mask, **fields):
        body = {"subscription": fields, "updateMask": mask}
        return self.rest.ok("PATCH", f"/v1/{name}", body)

    def modify(self, name, **config):
        """ModifyPushConfig; nothing given means pull."""
        self.rest.ok("POST", f"/v1/{name}:modifyPushConfig", {"pushConfig": config})

    def pull_from_now_on(self, name):
        """Switches to pull and gives what is left."""
        self.modify(name)
        return self.clients.pull_now(name)

    def publish(self, topic, *datas, key=None, **attributes):
        """Ids of the messages, which all have this key and these attributes."""
        message = {"attributes": attributes, "ordering_key": key or ""}
        return self.clients.publish_messages(topic, *[{**message, "data": one} for one in datas])

    # What the server tells.

    def attempts(self, name, query=""):
        return self.rest.ok("GET", f"/v1/{name}/attempts{query}").get("attempts", [])

    def wait_attempts(self, name, count, query=""):
        """The attempts, newest first, as soon as there are that many."""

        def enough():
            found = self.attempts(name, query)
            return found if len(found) >= count else None

        return until(enough)

    def lanes(self, name, query="?state=blocked"):
        return self.rest.ok("GET", f"/v1/{name}/lanes{query}")["lanes"]

    def act(self, name, what, key):
        self.rest.ok("POST", f"/v1/{name}/lanes:{what}", {"key": key})


def retry(least, most=None):
    """A retry policy as REST has it."""
    return {"minimumBackoff": f"{least}s", "maximumBackoff": f"{most or least}s"}


def dead_letter(topic, attempts=5):
    return {"deadLetterTopic": topic, "maxDeliveryAttempts": attempts}


def gaps(requests):
    """Seconds from each answer to the arrival of the next request."""
    return [later.arrived - one.answered for one, later in zip(requests, requests[1:])]


def assert_waited(seconds, least, most=None):
    """A wait was at least this long, and not much longer than it may be with its jitter."""
    most = least if most is None else most
    assert least - EARLY_SECONDS <= seconds <= most * 1.1 + LATE_SECONDS, (seconds, least)


def stamp(text):
    """Seconds since 1970 of an RFC 3339 time."""
    return datetime.datetime.fromisoformat(text).timestamp()
