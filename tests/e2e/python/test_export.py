"""Subscriptions that write to a bucket: a folder, or a service with S3's API."""

import collections
import contextlib
import json
import os
import time

import pytest
from google.pubsub_v1.types import CloudStorageConfig, Encoding, Subscription
from google.pubsub_v1.types import Schema as SchemaType

import seeds
from avro import read_file
from clients import Clients
from program import CONFIG, Server
from rest import Rest
from s3 import S3
from statuses import refused
from waiting import until

State = CloudStorageConfig.State
BUCKET = "bucket"
PARTS = ".postrider-parts"
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
# The whole figure is for runs by hand: EXPORTED_MESSAGES=100000.
MESSAGES = int(os.environ.get("EXPORTED_MESSAGES", "20000"))


def in_folder(folder):
    return f'{CONFIG}\n[export]\nfolder = "{folder}"\n'


def at_service(s3, url="s3://"):
    return f'{CONFIG}\n[export]\nurl = "{url}"\nendpoint = "{s3.url}"\n'


@contextlib.contextmanager
def serving(folder, config, env=None):
    server = Server(folder, config, env=env).start()
    try:
        yield server
        assert server.alive(), server.tail()
    finally:
        server.stop()
    assert "panicked" not in server.log.read_text(errors="replace"), server.tail()


@pytest.fixture(scope="module")
def buckets(tmp_path_factory):
    return tmp_path_factory.mktemp("buckets")


@pytest.fixture(scope="module")
def server(tmp_path_factory, buckets):
    with serving(tmp_path_factory.mktemp("server"), in_folder(buckets)) as server:
        yield server


@pytest.fixture
def bucket(buckets):
    """A bucket of the test's own."""
    for number in range(1000):
        folder = buckets / f"bucket-{number}"
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
            return folder
    raise AssertionError("no bucket left")


def objects(folder):
    """Every object of a bucket that is a folder, by name."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and PARTS not in path.parts:
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def backlog(server, subscription):
    """How many messages are not acked, and what is known of the export."""
    project = "/".join(subscription.split("/")[:2])
    answer = Rest(server).call("GET", f"/v1/{project}/figures").json
    one = next(one for one in answer["subscriptions"] if one["name"] == subscription)
    return one["backlogMessages"], one["export"]


def finish(server, subscription, left):
    """Has everything written: all but what the last object has, and that one by a stop, unless a
    service keeps failing for as long."""
    until(lambda: backlog(server, subscription)[0] < left, seconds=300)
    until(lambda: server.restart() and backlog(server, subscription)[0] == 0, seconds=300)


def large(number):
    return f"{number:06} ".encode() + b"x" * 1_000


def test_lines_of_text_come_with_names_as_asked_for(server, clients, bucket):
    topic, name = clients.pair(
        cloud_storage_config={
            "bucket": bucket.name,
            "filename_prefix": "orders/day-",
            "filename_suffix": ".txt",
            "filename_datetime_format": "YYYY/MM/DD/hh_mm_ssZ",
            "max_bytes": 10_000,
        }
    )
    shown = clients.get(name).cloud_storage_config
    assert (shown.state, shown.max_bytes) == (State.ACTIVE, 10_000)
    assert shown.max_duration.total_seconds() == 300
    assert "text_config" in shown
    clients.publish(topic, *[large(number) for number in range(30)])
    found = until(lambda: len(found := objects(bucket)) >= 3 and found)
    for key, data in found.items():
        assert key.startswith("orders/day-20") and key.endswith(".txt")
        assert key.count("/") == 4
        assert data.endswith(b"\n") and len(data) <= 10_000
    lines = [line for data in found.values() for line in data.splitlines()]
    assert set(lines) <= {large(number) for number in range(30)}
    assert len(lines) == len(set(lines)) >= 27
    with refused("FAILED_PRECONDITION"):
        clients.pull(name)


def test_avro_files_have_googles_schemas(server, clients, bucket):
    topic = clients.topic()
    for metadata in (False, True):
        clients.subscription(
            topic,
            cloud_storage_config={
                "bucket": bucket.name,
                "filename_prefix": f"{metadata}-",
                "avro_config": {"write_metadata": metadata},
                "max_bytes": 1_000,
            },
        )
    message = {"data": large(1), "attributes": {"kind": "order"}, "ordering_key": "customer"}
    (message_id,) = clients.publish_messages(topic, message)
    found = until(lambda: len(found := objects(bucket)) == 2 and found)
    for key, data in found.items():
        schema, (record,) = read_file(data)
        assert record["data"] == large(1)
        if key.startswith("False-"):
            assert (schema["name"], list(record)) == ("PubsubMessage", ["data"])
            continue
        assert schema["name"] == "PubsubMessageWithMetadata"
        assert record["message_id"] == message_id
        assert record["subscription_name"].startswith(f"{clients.project}/subscriptions/")
        assert record["attributes"] == {"kind": "order", "ordering_key": "customer"}
        assert abs(record["publish_time"] / 1e6 - time.time()) < 60


@pytest.mark.parametrize("encoding", [Encoding.BINARY, Encoding.JSON], ids=["binary", "json"])
def test_records_are_those_of_the_topics_schema(server, clients, bucket, encoding):
    definition = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "note", "type": "string"}, {"name": "count", "type": "int"}],
    }
    schema = clients.schemas.create_schema(
        request={
            "parent": clients.project,
            "schema_id": f"order-{bucket.name}",
            "schema": {"type_": SchemaType.Type.AVRO, "definition": json.dumps(definition)},
        }
    )
    topic = clients.topic(schema_settings={"schema": schema.name, "encoding": encoding})
    clients.subscription(
        topic,
        cloud_storage_config={
            "bucket": bucket.name,
            "avro_config": {"write_metadata": True, "use_topic_schema": True},
            "max_bytes": 1_000,
        },
    )
    note = "n" * 1_000
    data = {
        Encoding.BINARY: b"\xd0\x0f" + note.encode() + b"\x0e",
        Encoding.JSON: json.dumps({"note": note, "count": 7}).encode(),
    }[encoding]
    clients.publish(topic, data)
    ((_, data),) = until(lambda: objects(bucket)).items()
    written, (record,) = read_file(data)
    assert written["name"] == "Order"
    assert (record["note"], record["count"]) == (note, 7)
    assert record["attributes"]["googclient_schemaname"] == schema.name


def test_a_filter_and_an_order_hold_for_objects_too(server, clients, bucket):
    topic, name = clients.pair(
        filter='attributes.kind = "order"',
        enable_message_ordering=True,
        cloud_storage_config={"bucket": bucket.name, "max_messages": 1_000},
    )
    messages = [
        {
            "data": f"{number}".encode(),
            "attributes": {"kind": "order" if number % 3 else "other"},
            "ordering_key": f"k{number % 7}",
        }
        for number in range(3_000)
    ]
    for start in range(0, 3_000, 500):
        clients.publish_messages(topic, *messages[start : start + 500])
    until(lambda: backlog(server, name)[0] == 0)
    lines = [int(line) for data in objects(bucket).values() for line in data.split()]
    assert sorted(lines) == [number for number in range(3_000) if number % 3]
    for data in objects(bucket).values():
        by_key = collections.defaultdict(list)
        for line in data.split():
            by_key[int(line) % 7].append(int(line))
        assert all(numbers == sorted(numbers) for numbers in by_key.values())


def test_what_google_refuses_is_refused(server, clients, bucket):
    topic = clients.topic()
    good = {"bucket": bucket.name}
    for config in (
        {},
        {"bucket": "gs://bucket"},
        {"bucket": ".."},
        {**good, "filename_suffix": "x/"},
        {**good, "filename_prefix": "../../etc/"},
        {**good, "filename_datetime_format": "YYYY-MM-DD"},
        {**good, "max_duration": "59s"},
        {**good, "max_bytes": 999},
        {**good, "max_messages": 999},
    ):
        if isinstance(config.get("max_duration"), str):
            config = {**config, "max_duration": {"seconds": 59}}
        with refused("INVALID_ARGUMENT"):
            clients.subscription(topic, cloud_storage_config=config)
    with refused("INVALID_ARGUMENT"):
        clients.subscription(
            topic,
            cloud_storage_config=good,
            push_config={"push_endpoint": "http://127.0.0.1:9/"},
        )


def test_a_missing_bucket_is_shown_until_it_is_there(server, clients, buckets):
    missing = buckets / f"missing-{clients.transport}"
    topic, name = clients.pair(
        cloud_storage_config={"bucket": missing.name, "max_bytes": 1_000}
    )
    until(lambda: clients.get(name).cloud_storage_config.state == State.NOT_FOUND)
    assert clients.get(name).state == Subscription.State.RESOURCE_ERROR
    clients.publish(topic, large(1))
    until(lambda: backlog(server, name)[1]["failures"] >= 2)
    assert backlog(server, name)[0] == 1
    missing.mkdir()
    until(lambda: objects(missing))
    until(lambda: clients.get(name).cloud_storage_config.state == State.ACTIVE)
    assert clients.get(name).state == Subscription.State.ACTIVE


def test_an_update_sends_what_comes_elsewhere_and_can_end_it(server, clients, bucket):
    other = bucket.with_name(f"{bucket.name}-other")
    other.mkdir()
    topic, name = clients.pair(
        cloud_storage_config={"bucket": bucket.name, "filename_prefix": "a-"}
    )
    clients.publish(topic, large(1))
    paths = ["cloud_storage_config.bucket", "cloud_storage_config.max_bytes"]
    shown = clients.update(
        name, paths, cloud_storage_config={"bucket": other.name, "max_bytes": 1_000}
    ).cloud_storage_config
    assert (shown.bucket, shown.filename_prefix) == (other.name, "a-")
    found = until(lambda: objects(other))
    assert [data for data in found.values()] == [large(1) + b"\n"]
    assert objects(bucket) == {}
    clients.update(name, ["cloud_storage_config"])
    clients.publish(topic, b"pulled")
    assert [one.message.data for one in clients.pull(name)] == [b"pulled"]


def test_without_a_place_for_buckets_nothing_is_exported(own_server, connect):
    clients = connect()
    topic = clients.topic()
    with refused("FAILED_PRECONDITION") as raised:
        clients.subscription(topic, cloud_storage_config={"bucket": BUCKET})
    assert "export.folder" in str(raised.value)


def test_a_stop_completes_the_open_object(tmp_path):
    bucket = tmp_path / "buckets" / BUCKET
    bucket.mkdir(parents=True)
    with serving(tmp_path / "server", in_folder(bucket.parent)) as server:
        clients = Clients(server, "grpc")
        topic, name = clients.pair(cloud_storage_config={"bucket": BUCKET})
        clients.publish(topic, b"one", b"two")
        until(lambda: list((bucket / PARTS).glob("*")))
        assert objects(bucket) == {}
        server.restart()
        assert [data for data in objects(bucket).values()] == [b"one\ntwo\n"]
        until(lambda: backlog(server, name)[0] == 0)
        clients.close()


def test_what_a_service_denies_is_shown_and_tried_again(tmp_path):
    s3 = S3()
    s3.denied.add(BUCKET)
    with serving(tmp_path, at_service(s3), KEYS) as server:
        clients = Clients(server, "grpc")
        topic, name = clients.pair(
            cloud_storage_config={"bucket": BUCKET, "max_bytes": 1_000}
        )
        gone_topic, gone = clients.pair(
            cloud_storage_config={"bucket": "no-bucket", "max_bytes": 1_000}
        )
        clients.publish(topic, large(1))
        clients.publish(gone_topic, large(1))
        until(lambda: clients.get(name).cloud_storage_config.state == State.PERMISSION_DENIED)
        until(lambda: clients.get(gone).cloud_storage_config.state == State.NOT_FOUND)
        s3.denied.clear()
        until(lambda: s3.read(BUCKET))
        until(lambda: clients.get(name).cloud_storage_config.state == State.ACTIVE)
        clients.close()
    s3.close()


@pytest.mark.parametrize("url", ["s3://", "gs://"], ids=["s3", "gs"])
def test_large_objects_go_to_a_service_in_parts(tmp_path, url):
    s3 = S3(is_signed=url == "s3://")
    with serving(tmp_path, at_service(s3, url), KEYS) as server:
        clients = Clients(server, "grpc")
        topic, name = clients.pair(
            cloud_storage_config={"bucket": BUCKET, "avro_config": {}, "max_bytes": 20_000_000}
        )
        sent = [bytes([number]) * 1_000_000 for number in range(50)]
        for data in sent:
            clients.publish(topic, data)
        finish(server, name, 20)
        found = s3.read(BUCKET)
        assert s3.in_parts >= 2 and all(len(data) <= 20_000_000 for data in found.values())
        read = [record["data"] for data in found.values() for record in read_file(data)[1]]
        assert sorted(read) == sorted(sent)
        clients.close()
    s3.close()


def publish_all(clients, topic, first, last):
    for start in range(first, last, 1_000):
        numbers = range(start, min(start + 1_000, last))
        clients.publish(topic, *[f"{number:07}".encode() for number in numbers])


def exported(read):
    """Every message there is; each object must be whole."""
    found = collections.Counter()
    for data in read().values():
        _, records = read_file(data)
        assert records, "an object without messages"
        found.update(int(record["data"]) for record in records)
    return found


def kill_in_between(tmp_path, config, read, env=None):
    """Publishes everything while the server is killed again and again; each message must be there
    at least once, every object whole at all times, and in the end everything acked."""
    with serving(tmp_path / "server", config, env) as server:
        clients = Clients(server, "grpc")
        topic, name = clients.pair(
            cloud_storage_config={
                "bucket": BUCKET,
                "avro_config": {"write_metadata": True},
                "max_messages": 1_000,
            }
        )
        step = MESSAGES // 8
        for round_number in range(8):
            publish_all(clients, topic, round_number * step, (round_number + 1) * step)
            # Somewhere in the middle of writing.
            time.sleep(0.05 * (round_number % 4))
            server.restart("kill")
            exported(read)
        finish(server, name, 1_000)
        found = exported(read)
        assert set(found) == set(range(8 * step))
        print(f"{8 * step} messages, {found.total()} written, {len(read())} objects")
        clients.close()


def test_nothing_is_lost_when_a_server_that_writes_to_a_folder_is_killed(tmp_path):
    bucket = tmp_path / "buckets" / BUCKET
    bucket.mkdir(parents=True)
    kill_in_between(tmp_path, in_folder(bucket.parent), lambda: objects(bucket))
    assert list((bucket / PARTS).glob("*")) == []


def test_nothing_is_lost_when_a_server_that_writes_to_a_service_is_killed(tmp_path):
    s3 = S3(faults=0.3, seed=seeds.seed())
    try:
        kill_in_between(tmp_path, at_service(s3), lambda: s3.read(BUCKET), KEYS)
        assert s3.failed > 0
    finally:
        s3.close()
