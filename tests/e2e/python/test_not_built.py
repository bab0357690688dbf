"""What is not built yet says so: UNIMPLEMENTED, never silently dropped."""

import pytest
from google.iam.v1 import iam_policy_pb2
from google.protobuf import field_mask_pb2

from statuses import refused

FIELDS = {
    "cloud storage": {"cloud_storage_config": {"bucket": "bucket"}},
}


@pytest.mark.parametrize("what", FIELDS)
def test_a_subscription_setting_that_is_not_built_is_refused(clients, what):
    topic = clients.topic()
    with refused("UNIMPLEMENTED"):
        clients.subscription(topic, **FIELDS[what])
    assert list(clients.publisher.list_topic_subscriptions(request={"topic": topic})) == []


def test_an_update_to_a_setting_that_is_not_built_is_refused(clients):
    _, name = clients.pair()
    with refused("UNIMPLEMENTED"):
        clients.subscriber.update_subscription(
            request={
                "subscription": {
                    "name": name,
                    "cloud_storage_config": {"bucket": "bucket"},
                },
                "update_mask": field_mask_pb2.FieldMask(paths=["cloud_storage_config"]),
            }
        )


def test_a_call_that_is_not_built_is_refused(clients):
    topic = clients.topic()
    for call in (
        lambda: clients.publisher.get_iam_policy(
            request=iam_policy_pb2.GetIamPolicyRequest(resource=topic)
        ),
    ):
        with refused("UNIMPLEMENTED") as raised:
            call()
        assert "is not implemented: this server has no" in str(raised.value)
