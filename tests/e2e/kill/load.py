"""Load on a running server: publishers, streams, pulls, and creation and deletion of resources.

Everything is told to the checker before and after it happens. Threads end when the server dies
or when they are told to stop.
"""

import queue
import time

import grpc
from google.protobuf import empty_pb2
from google.pubsub_v1 import types

from checker import STREAM_ACK_SETTLES_SECONDS, data_of
from threads import Threads

PROJECT = "projects/kill"
ACK_DEADLINE_SECONDS = 600
BACKLOG_MAX = 4000
PULL_SECONDS_MAX = 30


def message_class(name):
    return getattr(types, name).pb()


class Api:
    """Bare calls on one channel, with plain protobuf messages."""

    METHODS = {
        "Publisher": {
            "CreateTopic": ("Topic", "Topic"),
            "DeleteTopic": ("DeleteTopicRequest", None),
            "ListTopics": ("ListTopicsRequest", "ListTopicsResponse"),
            "Publish": ("PublishRequest", "PublishResponse"),
        },
        "Subscriber": {
            "CreateSubscription": ("Subscription", "Subscription"),
            "DeleteSubscription": ("DeleteSubscriptionRequest", None),
            "ListSubscriptions": ("ListSubscriptionsRequest", "ListSubscriptionsResponse"),
            "Pull": ("PullRequest", "PullResponse"),
            "Acknowledge": ("AcknowledgeRequest", None),
            "ModifyAckDeadline": ("ModifyAckDeadlineRequest", None),
            "CreateSnapshot": ("CreateSnapshotRequest", "Snapshot"),
            "DeleteSnapshot": ("DeleteSnapshotRequest", None),
            "Seek": ("SeekRequest", "SeekResponse"),
        },
    }

    def __init__(self, address):
        self.channel = grpc.insecure_channel(
            address,
            options=[("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)],
        )
        self.calls = {}
        for service, methods in self.METHODS.items():
            for method, (request, response) in methods.items():
                answer = message_class(response) if response else empty_pb2.Empty
                self.calls[method] = (
                    message_class(request),
                    self.channel.unary_unary(
                        f"/google.pubsub.v1.{service}/{method}",
                        request_serializer=message_class(request).SerializeToString,
                        response_deserializer=answer.FromString,
                    ),
                )
        self.stream_request = message_class("StreamingPullRequest")
        self.streaming_pull = self.channel.stream_stream(
            "/google.pubsub.v1.Subscriber/StreamingPull",
            request_serializer=self.stream_request.SerializeToString,
            response_deserializer=message_class("StreamingPullResponse").FromString,
        )

    def call(self, method, timeout=30, **fields):
        request, call = self.calls[method]
        return call(request(**fields), timeout=timeout)

    def list_all(self):
        """Topic name → label, and subscription name → topic shown."""
        topics, subscriptions = {}, {}
        token = ""
        while True:
            page = self.call("ListTopics", project=PROJECT, page_size=100, page_token=token)
            topics.update({topic.name: topic.labels.get("label") for topic in page.topics})
            token = page.next_page_token
            if not token:
                break
        while True:
            page = self.call("ListSubscriptions", project=PROJECT, page_size=100, page_token=token)
            subscriptions.update({one.name: one.topic for one in page.subscriptions})
            token = page.next_page_token
            if not token:
                return topics, subscriptions

    def close(self):
        self.channel.close()


class Load(Threads):
    def __init__(self, api, checker, seed):
        super().__init__(api, seed)
        self.checker = checker
        self.life = checker.life
        # Deliveries that a puller keeps unsettled on purpose: (subscription, token, ack id).
        self.kept = []

    # Publishing.

    def publish_loop(self, source, topic, watched):
        while self.publishing.is_set():
            if self.checker.backlog_about(watched) > BACKLOG_MAX:
                time.sleep(0.005)
                continue
            for _ in range(10):
                if self.publishing.is_set():
                    self.publish(source, topic)

    def publish(self, source, topic):
        count = source.choice((1, 1, 5, 20, 60))
        sizes = (30, 100, 1000, 1000, 3000)
        key = source.choice(("", "key-1", "key-2"))
        shapes = [(key, source.choice(sizes)) for _ in range(count)]
        if source.random() < 0.05:
            shapes = [("", 300_000)]
        call = self.checker.publish_begins(topic, shapes)
        messages = [
            {
                "data": data_of(message.token, message.size),
                "attributes": {"token": message.token},
                "ordering_key": message.key,
            }
            for message in call.messages
        ]
        answer = self.api.call("Publish", topic=topic, messages=messages)
        self.checker.publish_answered(call, answer.message_ids)

    # Consuming.

    def note(self, subscription, received):
        """Tells the checker; gives the token."""
        message = received.message
        token = message.attributes.get("token", "")
        self.checker.delivered(
            subscription,
            token,
            int(message.message_id),
            message.data,
            dict(message.attributes),
            message.ordering_key,
            self.life,
        )
        return token

    def split(self, source, subscription, received):
        """Notes each; decides which are acked and which nacked: lists of (token, ack id)."""
        acks, nacks = [], []
        for one in received:
            token = self.note(subscription, one)
            (nacks if source.random() < 0.03 else acks).append((token, one.ack_id))
        return acks, nacks

    def stream_loop(self, source, subscription):
        requests = queue.SimpleQueue()
        request = self.api.stream_request
        requests.put(
            request(
                subscription=subscription,
                stream_ack_deadline_seconds=ACK_DEADLINE_SECONDS,
                max_outstanding_messages=source.choice((0, 10, 1000)),
            )
        )
        responses = self.api.streaming_pull(iter(requests.get, None))
        for response in responses:
            acks, nacks = self.split(source, subscription, response.received_messages)
            self.checker.nacked(subscription, [token for token, _ in nacks])
            requests.put(
                request(
                    ack_ids=[id for _, id in acks],
                    modify_deadline_ack_ids=[id for _, id in nacks],
                    modify_deadline_seconds=[0] * len(nacks),
                )
            )
            tokens = [token for token, _ in acks]
            self.checker.acked(subscription, tokens, self.life, STREAM_ACK_SETTLES_SECONDS)

    def pull_loop(self, source, subscription, keeps=False):
        while self.running.is_set():
            self.pull(source, subscription, keeps=keeps)

    def pull(self, source, subscription, keeps=False):
        """One pull and its acks; how many came, or None if nothing came in time."""
        try:
            answer = self.api.call(
                "Pull",
                timeout=PULL_SECONDS_MAX,
                subscription=subscription,
                max_messages=source.choice((1, 10, 100, 1000)),
            )
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                return None
            raise
        acks, nacks = self.split(source, subscription, answer.received_messages)
        if keeps and self.publishing.is_set() and source.random() < 0.05:
            self.kept += [(subscription, token, id) for token, id in acks]
            acks = []
        if nacks:
            self.checker.nacked(subscription, [token for token, _ in nacks])
            self.api.call(
                "ModifyAckDeadline",
                subscription=subscription,
                ack_ids=[id for _, id in nacks],
                ack_deadline_seconds=0,
            )
        if acks:
            self.acknowledge(subscription, acks)
        return len(acks) + len(nacks)

    def acknowledge(self, subscription, acks):
        """Acks (token, ack id) pairs with a call of their own."""
        tokens = [token for token, _ in acks]
        self.checker.ack_asked(subscription, tokens)
        self.api.call("Acknowledge", subscription=subscription, ack_ids=[id for _, id in acks])
        self.checker.acked(subscription, tokens, self.life)

    def drain(self, source, subscription):
        """Pulls until nothing is owed, or nothing comes any more."""
        while self.checker.owed(subscription):
            if self.pull(source, subscription) is None:
                return

    # Resources.

    def create_topic(self, name, label):
        self.checker.topic_asked(name, label)
        self.api.call("CreateTopic", name=name, labels={"label": label})
        self.checker.exists(name)

    def create_subscription(self, name, topic):
        self.checker.subscription_asked(name, topic)
        self.api.call(
            "CreateSubscription",
            name=name,
            topic=topic,
            ack_deadline_seconds=ACK_DEADLINE_SECONDS,
        )
        self.checker.exists(name)

    def delete(self, method, name, **fields):
        self.checker.deletion_asked(name)
        self.api.call(method, **fields)
        self.checker.gone(name)

    def churn_loop(self, source, prefix):
        """Creates topics with subscriptions, publishes a little, deletes some again."""
        number = 0
        while self.publishing.is_set():
            number += 1
            topic = f"{PROJECT}/topics/{prefix}-{number}"
            self.create_topic(topic, f"label-{number}")
            names = [f"{PROJECT}/subscriptions/{prefix}-{number}-{n}" for n in range(2)]
            for name in names:
                self.create_subscription(name, topic)
            self.publish(source, topic)
            for name in names[source.randrange(3):]:
                self.delete("DeleteSubscription", name, subscription=name)
            if source.random() < 0.7:
                self.delete("DeleteTopic", topic, topic=topic)
