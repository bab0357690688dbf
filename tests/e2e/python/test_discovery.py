"""Server reflection and the gRPC health service, with the official packages."""

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)


@pytest.fixture
def channel(server):
    with grpc.insecure_channel(server.address) as channel:
        yield channel


def test_health_says_serving(channel):
    health = health_pb2_grpc.HealthStub(channel)
    for service in ("", "Publisher", "Subscriber", "SchemaService"):
        service = service and f"google.pubsub.v1.{service}"
        answer = health.Check(health_pb2.HealthCheckRequest(service=service), timeout=10)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_health_does_not_know_a_service_we_do_not_have(channel):
    health = health_pb2_grpc.HealthStub(channel)
    with pytest.raises(grpc.RpcError) as raised:
        health.Check(health_pb2.HealthCheckRequest(service="nobody"), timeout=10)
    assert raised.value.code() == grpc.StatusCode.NOT_FOUND


def test_reflection_lists_the_services_and_their_methods(channel):
    database = ProtoReflectionDescriptorDatabase(channel)
    services = set(database.get_services())
    assert {
        "google.pubsub.v1.Publisher",
        "google.pubsub.v1.Subscriber",
        "google.pubsub.v1.SchemaService",
        "google.iam.v1.IAMPolicy",
        "grpc.health.v1.Health",
    } <= services
    publisher = DescriptorPool(database).FindServiceByName("google.pubsub.v1.Publisher")
    assert "Publish" in publisher.methods_by_name
    request = publisher.methods_by_name["Publish"].input_type
    assert request.fields_by_name["topic"].number == 1


def test_an_unknown_method_is_unimplemented(channel):
    for method in ("/google.pubsub.v1.Publisher/Fly", "/no.such.Service/Call"):
        call = channel.unary_unary(method, lambda raw: raw, lambda raw: raw)
        with pytest.raises(grpc.RpcError) as raised:
            call(b"", timeout=10)
        assert raised.value.code() == grpc.StatusCode.UNIMPLEMENTED
