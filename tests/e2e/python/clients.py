"""The official generated clients over gRPC or REST, with the calls the tests need most."""

import itertools

import grpc
from google.auth.credentials import AnonymousCredentials
from google.protobuf import field_mask_pb2
from google.pubsub_v1 import PublisherClient, SchemaServiceClient, SubscriberClient
from google.pubsub_v1.services.publisher.transports import (
    PublisherGrpcTransport,
    PublisherRestTransport,
)
from google.pubsub_v1.services.schema_service.transports import (
    SchemaServiceGrpcTransport,
    SchemaServiceRestTransport,
)
from google.pubsub_v1.services.subscriber.transports import (
    SubscriberGrpcTransport,
    SubscriberRestTransport,
)


numbers = itertools.count(1)


class Clients:
    """The official generated clients over one transport, and names nobody else uses."""

    def __init__(self, server, transport):
        self.server = server
        self.transport = transport
        self.project = f"projects/e2e-{next(numbers)}"
        self.channel = None
        if transport == "grpc":
            self.channel = grpc.insecure_channel(
                server.address,
                options=[
                    ("grpc.max_receive_message_length", -1),
                    ("grpc.max_send_message_length", -1),
                    # As the official client sets it: refused ack ids come as metadata.
                    ("grpc.max_metadata_size", 4 * 1024 * 1024),
                    # Restarts are part of the tests: find the new process at once.
                    ("grpc.initial_reconnect_backoff_ms", 50),
                    ("grpc.max_reconnect_backoff_ms", 200),
                ],
            )
            self.publisher = PublisherClient(transport=PublisherGrpcTransport(channel=self.channel))
            self.subscriber = SubscriberClient(
                transport=SubscriberGrpcTransport(channel=self.channel)
            )
            self.schemas = SchemaServiceClient(
                transport=SchemaServiceGrpcTransport(channel=self.channel)
            )
        else:
            way = {
                "host": server.address,
                "url_scheme": "http",
                "credentials": AnonymousCredentials(),
            }
            self.publisher = PublisherClient(transport=PublisherRestTransport(**way))
            self.subscriber = SubscriberClient(transport=SubscriberRestTransport(**way))
            self.schemas = SchemaServiceClient(transport=SchemaServiceRestTransport(**way))

    def close(self):
        if self.channel is not None:
            self.channel.close()

    def topic_name(self):
        return f"{self.project}/topics/topic-{next(numbers)}"

    def subscription_name(self):
        return f"{self.project}/subscriptions/subscription-{next(numbers)}"

    def topic(self, **fields):
        name = self.topic_name()
        self.publisher.create_topic(request={"name": name, **fields})
        return name

    def subscription(self, topic, **fields):
        name = self.subscription_name()
        self.subscriber.create_subscription(request={"name": name, "topic": topic, **fields})
        return name

    def pair(self, **fields):
        """A new topic with one subscription."""
        topic = self.topic()
        return topic, self.subscription(topic, **fields)

    def publish(self, topic, *datas):
        messages = [{"data": data} for data in datas]
        answer = self.publisher.publish(request={"topic": topic, "messages": messages})
        return list(answer.message_ids)

    def publish_messages(self, topic, *messages):
        """Ids of the messages, published in their order: a call takes one ordering key."""
        ids = []
        for _, group in itertools.groupby(messages, lambda one: one.get("ordering_key", "")):
            answer = self.publisher.publish(request={"topic": topic, "messages": list(group)})
            ids += answer.message_ids
        return ids

    def snapshot_name(self):
        return f"{self.project}/snapshots/snapshot-{next(numbers)}"

    def get(self, name):
        return self.subscriber.get_subscription(request={"subscription": name})

    def update(self, name, paths, **fields):
        """Changes the fields of a subscription that `paths` name."""
        return self.subscriber.update_subscription(
            request={
                "subscription": {"name": name, **fields},
                "update_mask": field_mask_pb2.FieldMask(paths=paths),
            }
        )

    def seek(self, subscription, **target):
        self.subscriber.seek(request={"subscription": subscription, **target})

    def pull(self, subscription, count=1000, timeout=30, **fields):
        answer = self.subscriber.pull(
            request={"subscription": subscription, "max_messages": count, **fields},
            timeout=timeout,
            retry=None,
        )
        return list(answer.received_messages)

    def pull_now(self, subscription, count=1000):
        """What is there at this moment."""
        return self.pull(subscription, count, return_immediately=True)

    def pull_exactly(self, subscription, count):
        got = []
        while len(got) < count:
            got += self.pull(subscription, count - len(got))
        ids = [received.message.message_id for received in got]
        assert len(set(ids)) == count, f"repeated within one lease: {ids}"
        return got

    def ack(self, subscription, received):
        self.subscriber.acknowledge(
            request={"subscription": subscription, "ack_ids": [one.ack_id for one in received]}
        )

    def nack(self, subscription, received):
        self.modify(subscription, received, 0)

    def modify(self, subscription, received, seconds):
        self.subscriber.modify_ack_deadline(
            request={
                "subscription": subscription,
                "ack_ids": [one.ack_id for one in received],
                "ack_deadline_seconds": seconds,
            }
        )
