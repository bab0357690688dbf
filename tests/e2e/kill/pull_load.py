"""Load on a running server: publishers, and consumers by pull and stream that nack at once.

Everything is told to the checker before and after it happens. Threads end when the server dies,
when it ends their streams, or when they are told to stop.
"""

import itertools
import queue
import time

import grpc

from threads import Threads

PROJECT = "projects/kill"
TOPIC = f"{PROJECT}/topics/orders"
DEAD = f"{PROJECT}/topics/dead"
LETTERS = f"{PROJECT}/subscriptions/dead-read"
KEYS = ["ann", "bob", "cid", "dan"]
ACK_DEADLINE_SECONDS = 600
BACKLOG_MAX = 400
# A pull that finds nothing is asked again, so that threads see that they shall stop.
PULL_SECONDS_MAX = 30
NACKED = 0.12
POISON = "poison"
REPLAYED_PER_SECOND = 300

tokens = itertools.count(1)
consumers = itertools.count(1)


def full(name):
    return f"{PROJECT}/subscriptions/{name}"


class PullLoad(Threads):
    def __init__(self, api, rest, checker, seed, drains):
        super().__init__(api, seed)
        self.rest = rest
        self.checker = checker
        # In a round that drains nobody goes away with leases: they would be waited for.
        self.drains = drains

    def nacks(self, source):
        return self.publishing.is_set() and source.random() < NACKED

    # Publishing.

    def publish_loop(self, source):
        while self.publishing.is_set():
            if self.checker.owed_about() > BACKLOG_MAX:
                time.sleep(0.005)
            else:
                self.publish(source)

    def publish(self, source, count=None):
        count = count or source.choice((1, 1, 3, 10))
        messages = []
        key = source.choice(KEYS) if source.random() < 0.8 else ""
        for _ in range(count):
            poison = f"{POISON}-" if source.random() < 0.01 else ""
            messages.append((f"{poison}{next(tokens)}", key, source.choice("ab")))
        began = self.checker.publish_begins(messages)
        answer = self.api.call(
            "Publish",
            topic=TOPIC,
            messages=[
                {"data": token.encode(), "attributes": {"kind": kind}, "ordering_key": key}
                for token, key, kind in messages
            ],
        )
        self.checker.publish_answered(messages, answer.message_ids, began)

    # Consuming.

    def take(self, source, name, consumer, began, received):
        """Notes each; decides which are acked and which nacked: lists of (lease, ack id)."""
        acks, nacks = [], []
        poisonous = self.checker.subscriptions[name].past.attempts_max is not None
        for one in received:
            lease = self.checker.delivered(name, consumer, began, one)
            poison = poisonous and one.message.data.startswith(POISON.encode())
            # What was replayed is well by now.
            poison = poison and "original_message_id" not in one.message.attributes
            (nacks if poison or self.nacks(source) else acks).append((lease, one.ack_id))
        return acks, nacks

    def settle(self, source, name, acks, nacks, stream=None):
        """Acks and nacks, in one order or the other; some on the stream."""
        steps = [(self.ack, acks), (self.nack, nacks)]
        source.shuffle(steps)
        for step, pairs in steps:
            step(source, name, pairs, stream)

    def ack(self, source, name, acks, stream):
        if not acks:
            return
        leases = [lease for lease, _ in acks]
        ids = [id for _, id in acks]
        self.checker.acking(leases)
        if stream is not None and source.random() < 0.5:
            stream.put(self.api.stream_request(ack_ids=ids))
            self.checker.acked(leases, on_stream=True)
        else:
            self.api.call("Acknowledge", subscription=full(name), ack_ids=ids)
            self.checker.acked(leases)

    def nack(self, source, name, nacks, stream):
        if not nacks:
            return
        leases = [lease for lease, _ in nacks]
        ids = [id for _, id in nacks]
        self.checker.nacking(leases)
        if stream is not None and source.random() < 0.5:
            zeros = [0] * len(ids)
            stream.put(
                self.api.stream_request(modify_deadline_ack_ids=ids, modify_deadline_seconds=zeros)
            )
        else:
            self.api.call(
                "ModifyAckDeadline",
                subscription=full(name),
                ack_ids=ids,
                ack_deadline_seconds=0,
            )
            self.checker.nacked(leases)

    def stream_loop(self, source, name):
        requests = queue.SimpleQueue()
        requests.put(
            self.api.stream_request(
                subscription=full(name),
                stream_ack_deadline_seconds=ACK_DEADLINE_SECONDS,
                max_outstanding_messages=source.choice((3, 20, 100)),
            )
        )
        quits_after = source.choice((20, 100)) if source.random() < 0.1 else None
        consumer, began = f"stream {next(consumers)}", time.monotonic()
        # With exactly-once an ack on the stream is confirmed on it; a call is answered.
        once = self.checker.subscriptions[name].past.once
        responses = self.api.streaming_pull(iter(requests.get, None))
        taken = 0
        for response in responses:
            acks, nacks = self.take(source, name, consumer, began, response.received_messages)
            taken += len(acks) + len(nacks)
            if not self.drains and quits_after is not None and taken > quits_after:
                # Its lanes wait for it now until their deadline, or a crash.
                responses.cancel()
                return
            self.settle(source, name, acks, nacks, None if once else requests)

    def pull_loop(self, source, name):
        while self.running.is_set():
            began, consumer = time.monotonic(), f"pull {next(consumers)}"
            received = self.pull(full(name), source.choice((1, 5, 30)))
            acks, nacks = self.take(source, name, consumer, began, received)
            self.settle(source, name, acks, nacks)

    def pull(self, subscription, count, **fields):
        try:
            answer = self.api.call(
                "Pull",
                timeout=PULL_SECONDS_MAX,
                subscription=subscription,
                max_messages=count,
                **fields,
            )
            return list(answer.received_messages)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED and not self.is_ending:
                return []
            raise

    # Dead letters.

    def letter_loop(self, source):
        while self.running.is_set():
            began = time.monotonic()
            received = self.pull(LETTERS, 100)
            leases = [self.checker.letter(one, began) for one in received]
            self.checker.acking(leases)
            if leases:
                ids = [one.ack_id for one in received]
                self.api.call("Acknowledge", subscription=LETTERS, ack_ids=ids)
            self.checker.acked(leases)

    def replay_loop(self, source, names):
        """Has letters replayed, some of them named twice."""
        while self.publishing.is_set():
            name = source.choice(names)
            letters = list(self.checker.letters_to_replay(name).values())
            if letters:
                self.replay(name, source.choices(letters, k=10))
            # Paced, so that replays come in between everything else.
            time.sleep(source.uniform(0.02, 0.2))

    def replay(self, name, letters):
        """Begins a replay of letters that are known by their ids. One that runs into too many
        others is refused."""
        path = f"/v1/{full(name)}/deadLetters:replay"
        body = {"messageIds": [str(id) for id in letters], "perSecond": REPLAYED_PER_SECOND}
        answer = self.rest.post(path, body)
        if answer.code != 200:
            assert answer.status == "FAILED_PRECONDITION", f"{path}: {answer}"
        return answer.code == 200
