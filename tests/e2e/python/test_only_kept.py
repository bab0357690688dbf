"""Definitions of what is not run here: kept, shown with a state that says so, or refused."""

import pytest

from clients import Clients
from program import CONFIG, Server
from statuses import refused

TABLE = {"table": "my-project.dataset.table", "write_metadata": True}
ROWS = {"table": "projects/p/instances/i/tables/t", "app_profile_id": "one"}
ARN = "arn:aws:kinesis:us-east-1:123456789012:stream/orders"
ACCOUNT = "reader@p.iam.gserviceaccount.com"
SOURCES = {
    "aws_kinesis": {
        "stream_arn": ARN,
        "consumer_arn": ARN,
        "aws_role_arn": ARN,
        "gcp_service_account": ACCOUNT,
    },
    "cloud_storage": {"bucket": "my-bucket", "avro_format": {}},
    "azure_event_hubs": {"namespace": "n", "event_hub": "h"},
    "aws_msk": {
        "cluster_arn": ARN,
        "topic": "orders",
        "aws_role_arn": ARN,
        "gcp_service_account": ACCOUNT,
    },
    "confluent_cloud": {
        "bootstrap_server": "h.example:9092",
        "cluster_id": "c",
        "topic": "orders",
        "identity_pool_id": "p",
        "gcp_service_account": ACCOUNT,
    },
}


def test_a_bigquery_subscription_is_shown_and_keeps_its_backlog(clients):
    topic = clients.topic()
    name = clients.subscription(topic, bigquery_config=TABLE)
    shown = clients.get(name)
    assert shown.bigquery_config.table == TABLE["table"]
    assert shown.bigquery_config.write_metadata
    assert shown.bigquery_config.state.name == "NOT_FOUND"
    assert shown.state.name == "RESOURCE_ERROR"
    clients.publish(topic, b"waits")
    with refused("FAILED_PRECONDITION") as raised:
        clients.pull_now(name)
    assert "bigquery_config" in str(raised.value)
    back = clients.update(name, ["bigquery_config"])
    assert back.state.name == "ACTIVE"
    assert [one.message.data for one in clients.pull_exactly(name, 1)] == [b"waits"]


def test_a_bigtable_subscription_is_shown(clients):
    name = clients.subscription(clients.topic(), bigtable_config=ROWS)
    shown = clients.get(name)
    assert shown.bigtable_config.table == ROWS["table"]
    assert shown.bigtable_config.state.name == "NOT_FOUND"
    assert shown.state.name == "RESOURCE_ERROR"


@pytest.mark.parametrize("source", SOURCES)
def test_an_import_topic_is_shown_and_can_be_published_to(clients, source):
    settings = {source: SOURCES[source], "platform_logs_settings": {"severity": "WARNING"}}
    topic = clients.topic(ingestion_data_source_settings=settings)
    shown = clients.publisher.get_topic(request={"topic": topic})
    kept = getattr(shown.ingestion_data_source_settings, source)
    assert kept.state.name not in ("ACTIVE", "STATE_UNSPECIFIED")
    for field, value in SOURCES[source].items():
        if isinstance(value, str):
            assert getattr(kept, field) == value
    assert shown.state.name == "INGESTION_RESOURCE_ERROR"
    assert clients.publish(topic, b"x")


@pytest.mark.parametrize(
    "fields",
    [
        {"bigquery_config": {"table": "table"}},
        {"bigquery_config": {**TABLE, "use_topic_schema": True, "use_table_schema": True}},
        {"bigtable_config": {"table": "p.d.t"}},
        {"bigquery_config": TABLE, "bigtable_config": ROWS},
        {"bigquery_config": TABLE, "push_config": {"push_endpoint": "http://127.0.0.1:9/"}},
    ],
    ids=str,
)
def test_bad_definitions_are_refused(clients, fields):
    topic = clients.topic()
    with refused("INVALID_ARGUMENT"):
        clients.subscription(topic, **fields)
    assert list(clients.publisher.list_topic_subscriptions(request={"topic": topic})) == []


@pytest.mark.parametrize("how", ["term", "kill"])
def test_definitions_are_still_there_after_a_restart(own_server, connect, how):
    clients = connect()
    source = {"cloud_storage": SOURCES["cloud_storage"]}
    topic = clients.topic(
        ingestion_data_source_settings=source,
        kms_key_name="projects/p/locations/l/keyRings/r/cryptoKeys/k",
        tags={"1/a": "b"},
    )
    name = clients.subscription(topic, bigquery_config=TABLE)
    before = clients.publisher.get_topic(request={"topic": topic}), clients.get(name)
    own_server.restart(how)
    clients = connect()
    assert clients.publisher.get_topic(request={"topic": topic}) == before[0]
    assert clients.get(name) == before[1]


def test_they_are_refused_if_the_settings_say_so(tmp_path):
    server = Server(tmp_path / "server", config=CONFIG + '\n[api]\nunsupported = "refuse"\n').start()
    try:
        for transport in ("grpc", "rest"):
            clients = Clients(server, transport)
            topic, name = clients.pair()
            with refused("UNIMPLEMENTED") as raised:
                clients.subscription(topic, bigquery_config=TABLE)
            assert "api.unsupported" in str(raised.value)
            with refused("UNIMPLEMENTED"):
                clients.update(name, ["bigtable_config"], bigtable_config=ROWS)
            with refused("UNIMPLEMENTED"):
                clients.topic(ingestion_data_source_settings={"aws_msk": SOURCES["aws_msk"]})
            # What means nothing here is kept all the same.
            clients.topic(kms_key_name="projects/p/locations/l/keyRings/r/cryptoKeys/k")
            clients.close()
    finally:
        server.stop()


def test_warnings_tell_of_it_for_as_long_as_it_is_so(rest, project):
    topic, name = f"{project}/topics/orders", f"{project}/subscriptions/table"
    rest.topic(topic)
    made = rest.ok("PUT", f"/v1/{name}", {"topic": topic, "bigqueryConfig": {"table": "p.d.t"}})
    assert len(made["warnings"]) == 1 and "bigquery_config" in made["warnings"][0]
    assert rest.ok("GET", f"/v1/{name}")["warnings"] == made["warnings"]
