"""Mixed load on one server for a long time, and a look at what it takes up.

    soak.py [--minutes 480]

Publishers, streams, pulls, ordering keys, nacks up to the dead letter topic, push, live
subscriptions, clients that come and go, topics and subscriptions that come and go, and calls that
are refused. All of it is paced: the point is not speed but whether anything grows.
"""

import argparse
import http.server
import json
import pathlib
import random
import shutil
import sys
import threading
import time
import urllib.error
import urllib.request

import grpc

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "kill"))
sys.path.insert(0, str(HERE.parent / "python"))

from judge import Sample, Verdict  # noqa: E402
from load import Api  # noqa: E402
from program import ROOT, Server  # noqa: E402

PROJECT = "projects/soak"
TOPIC = f"{PROJECT}/topics/orders"
DEAD = f"{PROJECT}/topics/dead"
BATCH = 20
PUBLISHES_PER_SECOND = 10
DRAIN_SECONDS_MAX = 120
# What a stream held when it ended comes again after this.
LEASE_SECONDS = 10
EARLY_MAX = 100_000
SAMPLE_SECONDS_MAX = 30
KEYS = [f"key-{number}" for number in range(50)]

# Small, so that everything that has a bound reaches it while the run warms up.
CONFIG = """
[storage]
wal_segment = "16MiB"
wal_max = "32MiB"
tail_memory = "1MiB"
progress_flush = "500ms"
[push]
allow = ["127.0.0.0/8"]
"""


class Receiver(http.server.ThreadingHTTPServer):
    """Takes pushes; one in fifty fails at its first attempts."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.taken = 0
        self.random = random.Random(7)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        is_good = self.server.random.random() > 0.02
        self.server.taken += is_good
        self.send_response(204 if is_good else 503)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Soak:
    def __init__(self, folder, seconds):
        self.server = Server(folder, config=CONFIG)
        self.receiver = Receiver()
        self.seconds = seconds
        self.random = random.Random(20261116)
        self.running = threading.Event()
        self.publishing = threading.Event()
        self.latencies = []
        self.published = 0
        self.books = threading.Lock()
        # Published and not acked; acked before the publish was answered.
        self.owed, self.early = set(), set()
        self.breakdowns = []
        self.threads = []
        # Those that are open now: at the end nothing comes on them any more.
        self.streams = set()

    def note_published(self, ids):
        with self.books:
            self.published += len(ids)
            self.owed.update(set(ids) - self.early)
            self.early.difference_update(ids)

    def note_acked(self, ids):
        with self.books:
            if self.publishing.is_set():
                self.early.update(set(ids) - self.owed)
            self.owed.difference_update(ids)
            if len(self.early) > EARLY_MAX:
                # Those are of deliveries that came twice.
                self.early.clear()

    def subscription(self, kind):
        return f"{PROJECT}/subscriptions/{kind}"

    def run(self, report):
        self.server.start()
        self.api = Api(self.server.address)
        self.prepare()
        self.running.set()
        self.publishing.set()
        for work in (
            self.publish, self.publish, self.stream, self.stream, self.pull_ordered,
            self.fail, self.read_dead, self.come_and_go, self.make_and_delete, self.live,
            self.be_refused,
        ):
            self.threads.append(threading.Thread(target=self.guard, args=(work,), daemon=True))
            self.threads[-1].start()
        samples = self.watch(report)
        self.publishing.clear()
        self.drain()
        self.running.clear()
        for call in list(self.streams):
            call.cancel()
        for thread in self.threads:
            thread.join(60)
        code = self.server.terminate()
        if code != 0:
            self.breakdowns.append(f"the server ended with {code}")
        return Verdict(samples)

    def guard(self, work):
        """Whatever breaks off a worker is a fault of the run."""
        try:
            work()
        except Exception as error:  # noqa: BLE001
            if self.running.is_set():
                self.breakdowns.append(f"{work.__name__}: {error!r}")

    def prepare(self):
        for topic in (TOPIC, DEAD):
            self.api.call("CreateTopic", name=topic)
        create = lambda kind, **more: self.api.call(  # noqa: E731
            "CreateSubscription", name=self.subscription(kind), ack_deadline_seconds=60, **more
        )
        self.api.call(
            "CreateSubscription", name=self.subscription("stream"), topic=TOPIC,
            ack_deadline_seconds=LEASE_SECONDS,
        )
        create("ordered", topic=TOPIC, enable_message_ordering=True, filter='attributes.ordered = "1"')
        create(
            "failing", topic=TOPIC, filter='attributes.bad = "1"',
            dead_letter_policy={"dead_letter_topic": DEAD, "max_delivery_attempts": 5},
        )
        create("dead", topic=DEAD)
        endpoint = f"http://127.0.0.1:{self.receiver.server_port}/push"
        create("push", topic=TOPIC, filter='attributes.push = "1"', push_config={"push_endpoint": endpoint})

    def watch(self, report):
        """Looks every while; says so at tenths of the time."""
        started = time.monotonic()
        every = max(1.0, min(SAMPLE_SECONDS_MAX, self.seconds / 120))
        samples, told = [], 0
        while time.monotonic() - started < self.seconds and not self.breakdowns:
            time.sleep(every)
            latencies, self.latencies = self.latencies, []
            rss, fds = self.taken_up()
            samples.append(Sample(time.monotonic(), rss, fds, latencies))
            tenth = int((time.monotonic() - started) / self.seconds * 10)
            if tenth > told:
                told = tenth
                report(f"{tenth * 10} %: {rss >> 20} MiB, {fds} descriptors, {self.published} published")
        return samples

    def taken_up(self):
        process = pathlib.Path(f"/proc/{self.server.process.pid}")
        status = (process / "status").read_text()
        rss = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(rss.split()[1]) * 1024, len(list((process / "fd").iterdir()))

    def drain(self):
        ends = time.monotonic() + DRAIN_SECONDS_MAX
        while self.owed and time.monotonic() < ends and not self.breakdowns:
            time.sleep(0.1)
        if self.owed:
            some = sorted(self.owed)[:5]
            self.breakdowns.append(f"L1: {len(self.owed)} did not come, such as {some}")

    # What the load is made of.

    def publish(self):
        rng = random.Random(self.random.random())
        while self.publishing.is_set():
            # A call takes one ordering key.
            by_key = {}
            for message in (self.message(rng) for _ in range(BATCH)):
                by_key.setdefault(message.get("ordering_key"), []).append(message)
            round_began = time.monotonic()
            for messages in by_key.values():
                began = time.monotonic()
                answer = self.api.call("Publish", topic=TOPIC, messages=messages)
                self.latencies.append(time.monotonic() - began)
                self.note_published(answer.message_ids)
            took = time.monotonic() - round_began
            time.sleep(max(0.0, 1 / PUBLISHES_PER_SECOND - took))

    def message(self, rng):
        kind = rng.random()
        attributes = {"n": str(rng.randrange(1000))}
        message = {"data": rng.randbytes(rng.randrange(50, 400)), "attributes": attributes}
        if kind < 0.2:
            attributes["ordered"] = "1"
            message["ordering_key"] = rng.choice(KEYS)
        elif kind < 0.25:
            attributes["bad"] = "1"
        elif kind < 0.4:
            attributes["push"] = "1"
        return message

    def stream(self):
        """Streams that end now and then and begin anew."""
        name = self.subscription("stream")
        while self.running.is_set():
            asked = [{"subscription": name, "stream_ack_deadline_seconds": LEASE_SECONDS}]
            more = threading.Condition()

            def requests():
                while self.running.is_set():
                    with more:
                        more.wait_for(lambda: asked, timeout=0.5)
                        ready, asked[:] = list(asked), []
                    for one in ready:
                        yield self.api.stream_request(**one)

            ends = time.monotonic() + self.random.uniform(2, 10)
            call = self.api.streaming_pull(requests(), timeout=30)
            self.streams.add(call)
            try:
                if not self.running.is_set():
                    break
                for answer in call:
                    ids = [one.ack_id for one in answer.received_messages]
                    self.api.call("Acknowledge", subscription=name, ack_ids=ids)
                    self.note_acked([one.message.message_id for one in answer.received_messages])
                    if time.monotonic() > ends or not self.running.is_set():
                        break
            except grpc.RpcError as error:
                if error.code() not in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED):
                    raise
            finally:
                self.streams.discard(call)
                call.cancel()

    def pull(self, kind, most=100):
        name = self.subscription(kind)
        answer = self.api.call("Pull", subscription=name, max_messages=most, return_immediately=True)
        return name, [one.ack_id for one in answer.received_messages]

    def pull_ordered(self):
        while self.running.is_set():
            name, ids = self.pull("ordered")
            if ids:
                self.api.call("Acknowledge", subscription=name, ack_ids=ids)
            time.sleep(0.05)

    def fail(self):
        """Nacks everything, until it goes to the dead letter topic."""
        while self.running.is_set():
            name, ids = self.pull("failing")
            if ids:
                self.api.call(
                    "ModifyAckDeadline", subscription=name, ack_ids=ids, ack_deadline_seconds=0
                )
            time.sleep(0.05)

    def read_dead(self):
        while self.running.is_set():
            name, ids = self.pull("dead")
            if ids:
                self.api.call("Acknowledge", subscription=name, ack_ids=ids)
            time.sleep(0.2)

    def come_and_go(self):
        """Clients with connections of their own, of which some just leave."""
        while self.running.is_set():
            api = Api(self.server.address)
            api.call("ListTopics", project=PROJECT)
            if self.random.random() < 0.5:
                asked = iter([api.stream_request(
                    subscription=self.subscription("dead"), stream_ack_deadline_seconds=60,
                )])
                api.streaming_pull(asked, timeout=5)
            api.close()
            time.sleep(0.2)

    def make_and_delete(self):
        number = 0
        while self.running.is_set():
            topic, name = f"{PROJECT}/topics/t-{number}", self.subscription(f"s-{number}")
            self.api.call("CreateTopic", name=topic)
            self.api.call("CreateSubscription", name=name, topic=topic)
            self.api.call("Publish", topic=topic, messages=[{"data": b"x"}])
            self.api.call("DeleteSubscription", subscription=name)
            self.api.call("DeleteTopic", topic=topic)
            number += 1
            time.sleep(0.2)

    def live(self):
        number = 0
        while self.running.is_set():
            body = {
                "gatewayId": "soak", "subscriptionId": f"live-{number % 200}", "tenant": "t",
                "collection": "orders", "ttl": 60,
                "filters": [{"field": "attributes.n", "op": "==", "value": str(number % 1000)}],
            }
            self.rest("POST", "/internal/v1/subscriptions", body)
            number += 1
            time.sleep(0.05)

    def be_refused(self):
        """Calls that are wrong in many ways; each answers, and none leaves anything behind."""
        wrong = [
            ("GET", f"/v1/{PROJECT}/topics/none", None),
            ("PUT", f"/v1/{PROJECT}/topics/goog-not-allowed", {}),
            ("POST", f"/v1/{TOPIC}:publish", {"messages": [{"data": "%%%"}]}),
            ("POST", "/v1/nowhere", {"a": ["b"] * 100}),
        ]
        while self.running.is_set():
            for verb, path, body in wrong:
                self.rest(verb, path, body)
            time.sleep(0.2)

    def rest(self, verb, path, body):
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"{self.server.url}{path}", data, headers, method=verb)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status
        except urllib.error.HTTPError as refusal:
            refusal.read()
            return refusal.code


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--minutes", type=float, default=480)
    minutes = arguments.parse_args().minutes
    folder = ROOT / "target/e2e/run/soak"
    shutil.rmtree(folder, ignore_errors=True)
    soak = Soak(folder, minutes * 60)
    try:
        verdict = soak.run(lambda line: print(line, flush=True))
    finally:
        soak.server.stop()
    print(verdict)
    faults = [*verdict.faults, *soak.breakdowns]
    for fault in faults:
        print(f"FAULT {fault}")
    print(f"{0 if faults else 1} passed, {1 if faults else 0} failed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
