"""What is not built yet says so: UNIMPLEMENTED, never silently dropped."""

from google.iam.v1 import iam_policy_pb2

from statuses import refused


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
