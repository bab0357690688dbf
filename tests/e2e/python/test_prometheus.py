"""The shipped rule file and dashboard against real programs: promtool and a Prometheus."""

import itertools
import json
import subprocess
import time

import pytest

from live import SUBSCRIPTIONS, Stream, register, registration
from program import CONFIG, Server
from prometheus import ROOT, RULES, Prometheus
from push import Pushing, dead_letter, retry
from receiver import Receiver
from streams import opened
from waiting import until

# Two scrapes must see a figure move, and the machine may be busy.
SHOWN_SECONDS_MAX = 90
DASHBOARD = ROOT / "docs/operating/grafana-dashboard.json"


def promtool(*words):
    ended = subprocess.run(["promtool", *map(str, words)], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_promtool_accepts_the_rule_file():
    levels = RULES.read_text().count("- alert:")
    assert levels > 16
    assert f"SUCCESS: {levels} rules found" in promtool("check", "rules", RULES)


def test_the_rule_file_says_what_it_should_over_time():
    promtool("test", "rules", ROOT / "tests/e2e/prometheus/rules_test.yml")


def queries():
    """Title of the panel → queries, with everything chosen."""
    found = {}
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", []):
            query = target["expr"].replace("$__rate_interval", "1m")
            query = query.replace("$subscription", ".*").replace("$topic", ".*")
            found.setdefault(panel["title"], []).append(query)
    return found


class Load:
    """Subscriptions of every kind, and what makes each figure of them move."""

    def __init__(self, push):
        self.push = push
        self.clients = push.clients
        receiver = push.receiver
        receiver.on("/down", 500)
        receiver.on("/refuses", 400)
        quick = retry(0.1, 0.2)
        soon = {"oldest_unacked_age": {"warning": "1s", "critical": "off"}}
        self.topic = self.clients.topic()
        self.letters = self.clients.topic()
        keep = {"function_name": "keep", "code": "function keep(message) { return message; }"}
        self.changed = self.clients.topic(message_transforms=[{"javascript_udf": keep}])
        self.pulled = self.clients.subscription(self.topic)
        self.streamed = self.clients.subscription(self.topic)
        push.subscribe(self.topic, "/ok")
        push.subscribe(self.topic, "/refuses", retryPolicy=quick)
        self.failing = self.clients.subscription_name()
        policy = dead_letter(self.letters)
        push.rest.subscription(self.failing, self.topic, deadLetterPolicy=policy)
        push.subscribe(
            self.topic, "/down", retryPolicy=retry(1), postrider={"fifo": True, "alerts": soon}
        )
        push.subscribe(self.topic, "/down", {"retryPolicy": {"maxAttempts": 1}})
        paused = self.clients.subscription_name()
        push.rest.subscription(paused, self.topic, postrider={"paused": True})
        for bucket in ("bucket", "missing"):
            storage = {"bucket": bucket, "max_bytes": 1_000}
            self.clients.subscription(self.topic, cloud_storage_config=storage)
        self.halt_a_lane()

    def halt_a_lane(self):
        """One message of a key fails for good, and its lane waits for an operator."""
        name = self.clients.subscription_name()
        halting = {"poison": "halt", "maxAttempts": 1}
        self.push.rest.subscription(
            name, self.topic, enableMessageOrdering=True, postrider=halting
        )
        keyed = {"messages": [{"data": "eA==", "orderingKey": "ann"}]}
        self.push.rest.ok("POST", f"/v1/{self.topic}:publish", keyed)
        self.clients.nack(name, self.clients.pull_exactly(name, 1))

    def run(self):
        """Publishes, and settles one message in each way."""
        clients, name = self.clients, self.pulled
        clients.publish(self.topic, *[b"x" * 100] * 5)
        clients.publish(self.changed, b"x")
        acked, nacked, expired = clients.pull_exactly(name, 3)
        clients.ack(name, [acked])
        clients.nack(name, [nacked])
        clients.modify(name, [expired], 1)
        clients.nack(self.failing, clients.pull_exactly(self.failing, 1))


class LiveLoad:
    """A gateway that watches, and others that come, go and do what is refused."""

    def __init__(self, server, push):
        self.server, self.rest, self.clients = server, push.rest, push.clients
        self.topic = f"{self.clients.project}/topics/changes"
        labels = {"postrider-live": "true"}
        self.clients.publisher.create_topic(request={"name": self.topic, "labels": labels})
        filters = [{"field": "data.n", "op": ">", "value": 0}]
        register(self.rest, "watching", "watched", filters=filters)
        self.numbers = itertools.count(1)

    def run(self):
        number = next(self.numbers)
        register(self.rest, "leaving", f"left-{number}", ttl=1)
        register(self.rest, "closing", f"closed-{number}")
        self.rest.delete(f"{SUBSCRIPTIONS}/closed-{number}")
        assert self.rest.post(SUBSCRIPTIONS, registration("g", "no id")).code == 400
        self.rest.ok("PUT", f"{SUBSCRIPTIONS}/watched/heartbeat")
        assert self.rest.call("PUT", f"{SUBSCRIPTIONS}/nobody/heartbeat").code == 404
        attributes = {"tenant": "blue", "collection": "rooms/1"}
        messages = [{"data": data, "attributes": attributes} for data in (b'{"n": 1}', b"no")]
        self.clients.publisher.publish(request={"topic": self.topic, "messages": messages})
        # No frame has that number.
        with Stream(self.server, "closing", query="?sequence=1") as stream:
            assert stream.next()["type"] in ("register", "resync")


@pytest.fixture(scope="module")
def scraped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scraped")
    (folder / "buckets" / "bucket").mkdir(parents=True)
    config = CONFIG + '\n[alerts]\ninterval = "500ms"\n[live]\nmin_ttl = "1s"\n'
    config += f'[export]\nfolder = "{folder}/buckets"\n'
    server = Server(folder / "server", config=config).start()
    try:
        with Receiver() as receiver:
            push = Pushing(server, receiver)
            load = Load(push)
            live = LiveLoad(server, push)
            with Prometheus(folder / "prometheus", server) as prometheus:
                yield prometheus, load, live
            push.close()
    finally:
        server.stop()


def test_no_query_of_the_dashboard_is_empty_under_load(scraped):
    prometheus, load, live = scraped
    waiting = queries()
    assert len(waiting) > 25
    ends = time.monotonic() + SHOWN_SECONDS_MAX
    with opened(load.clients, load.streamed), Stream(live.server, "watching"):
        while waiting:
            load.run()
            live.run()
            for title, exprs in list(waiting.items()):
                if all(any(value > 0 for value in prometheus.values(expr)) for expr in exprs):
                    del waiting[title]
            assert time.monotonic() < ends, f"nothing to see of {waiting}"


def test_prometheus_evaluates_every_rule(scraped):
    prometheus, _, _ = scraped

    def health():
        groups = prometheus.get("/api/v1/rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        found = {rule["health"] for rule in rules}
        return found if "unknown" not in found else None

    assert until(health) == {"ok"}
