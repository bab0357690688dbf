"""Schemas with the official clients: revisions, topics that are held to them, and restarts."""

import json
import threading

import pytest
from google.protobuf import field_mask_pb2
from google.pubsub_v1.types import Encoding, Schema, SchemaView

from cli import Cli
from clients import Clients, numbers
from statuses import refused

AVRO, PROTOBUF = Schema.Type.AVRO, Schema.Type.PROTOCOL_BUFFER


def avro(*optional):
    """An order with a number, and optional texts beside it."""
    fields = [{"name": "n", "type": "long"}]
    fields += [{"name": name, "type": ["null", "string"], "default": None} for name in optional]
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


def order(n, **texts):
    """An order as Avro's JSON has it."""
    wrapped = {key: text and {"string": text} for key, text in texts.items()}
    return json.dumps({"n": n, **wrapped}).encode()


PROTO = 'syntax = "proto3"; message Order { int64 n = 1; optional string note = 2; }'


def create(clients, definition=None, kind=AVRO, project=None):
    parent = project or clients.project
    made = clients.schemas.create_schema(
        request={
            "parent": parent,
            "schema_id": f"schema-{next(numbers)}",
            "schema": {"type_": kind, "definition": definition or avro()},
        }
    )
    return made


def commit(clients, name, definition, kind=AVRO):
    schema = {"name": name, "type_": kind, "definition": definition}
    return clients.schemas.commit_schema(request={"name": name, "schema": schema})


def rollback(clients, name, revision):
    request = {"name": name, "revision_id": revision}
    return clients.schemas.rollback_schema(request=request)


def delete_revision(clients, name, revision):
    request = {"name": f"{name}@{revision}"}
    return clients.schemas.delete_schema_revision(request=request)


def topic_of(clients, schema, encoding=Encoding.JSON, **more):
    return clients.topic(schema_settings={"schema": schema, "encoding": encoding, **more})


def update_settings(clients, topic, paths, **settings):
    return clients.publisher.update_topic(
        request={
            "topic": {"name": topic, "schema_settings": settings},
            "update_mask": field_mask_pb2.FieldMask(paths=paths),
        }
    )


def settings_of(clients, topic):
    return clients.publisher.get_topic(request={"topic": topic}).schema_settings


def revisions(clients, name):
    listed = clients.schemas.list_schema_revisions(request={"name": name})
    return [one.revision_id for one in listed]


def test_a_schema_is_made_shown_listed_and_deleted(clients):
    made = create(clients)
    name = made.name
    assert name.startswith(f"{clients.project}/schemas/schema-")
    assert (made.type_, made.definition) == (AVRO, avro())
    assert len(made.revision_id) == 8 and made.revision_create_time
    full = clients.schemas.get_schema(request={"name": name})
    assert full == made
    basic = clients.schemas.get_schema(request={"name": name, "view": SchemaView.BASIC})
    assert (basic.definition, basic.revision_id) == ("", made.revision_id)
    other = create(clients, PROTO, PROTOBUF)
    listed = list(clients.schemas.list_schemas(request={"parent": clients.project}))
    assert [one.name for one in listed] == sorted([name, other.name])
    assert {one.definition for one in listed} == {""}
    request = {"parent": clients.project, "view": SchemaView.FULL, "page_size": 1}
    pages = list(clients.schemas.list_schemas(request=request).pages)
    assert [len(page.schemas) for page in pages] == [1, 1]
    assert {page.schemas[0].definition for page in pages} == {avro(), PROTO}
    with refused("ALREADY_EXISTS"):
        clients.schemas.create_schema(
            request={
                "parent": clients.project,
                "schema_id": name.rsplit("/", 1)[1],
                "schema": {"type_": AVRO, "definition": avro()},
            }
        )
    clients.schemas.delete_schema(request={"name": name})
    for call in (
        lambda: clients.schemas.get_schema(request={"name": name}),
        lambda: clients.schemas.delete_schema(request={"name": name}),
        lambda: commit(clients, name, avro("a")),
        lambda: revisions(clients, name),
    ):
        with refused("NOT_FOUND") as raised:
            call()
        assert name in str(raised.value)


def test_revisions_are_committed_rolled_back_and_deleted(clients):
    first = create(clients)
    name = first.name
    second = commit(clients, name, avro("note"))
    assert second.definition == avro("note") and second.revision_id != first.revision_id
    assert clients.schemas.get_schema(request={"name": name}) == second
    named = clients.schemas.get_schema(request={"name": f"{name}@{first.revision_id}"})
    assert named.definition == avro()
    third = rollback(clients, name, first.revision_id)
    assert third.definition == avro()
    ids = [third.revision_id, second.revision_id, first.revision_id]
    assert revisions(clients, name) == ids
    request = {"name": name, "page_size": 2, "view": SchemaView.FULL}
    pages = list(clients.schemas.list_schema_revisions(request=request).pages)
    assert [[one.revision_id for one in page.schemas] for page in pages] == [ids[:2], ids[2:]]
    delete_revision(clients, name, second.revision_id)
    clients.schemas.delete_schema_revision(
        request={"name": name, "revision_id": third.revision_id}
    )
    assert revisions(clients, name) == [first.revision_id]
    with refused("FAILED_PRECONDITION"):
        delete_revision(clients, name, first.revision_id)
    for revision in (second.revision_id, "00000000"):
        with refused("NOT_FOUND"):
            rollback(clients, name, revision)
        with refused("NOT_FOUND"):
            delete_revision(clients, name, revision)


def test_a_revision_that_does_not_go_with_the_others_is_refused(clients):
    name = create(clients).name
    bad = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "n", "type": "string"}]})
    with refused("INVALID_ARGUMENT") as raised:
        commit(clients, name, bad)
    assert "not compatible" in str(raised.value)
    with refused("INVALID_ARGUMENT"):
        commit(clients, name, PROTO, PROTOBUF)
    for n in range(19):
        commit(clients, name, avro(*[f"f{i}" for i in range(n + 1)]))
    with refused("RESOURCE_EXHAUSTED") as raised:
        commit(clients, name, avro("one_more"))
    assert "20 revisions" in str(raised.value)


@pytest.mark.parametrize(
    "kind, definition, place",
    [
        (AVRO, "{", "line 1"),
        (AVRO, '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "nope"}]}', "nope"),
        (PROTOBUF, 'syntax = "proto3";\nmessage M { int32 = 1; }', "line 2"),
        (AVRO, "", "empty"),
        (AVRO, '"string"' + " " * 300_000, "300"),
        (Schema.Type.TYPE_UNSPECIFIED, avro(), "schema.type"),
    ],
    ids=["json", "name", "protobuf", "empty", "long", "type"],
)
def test_a_bad_definition_is_refused_and_the_place_is_named(clients, kind, definition, place):
    with refused("INVALID_ARGUMENT") as raised:
        create(clients, definition or " ", kind)
    assert place in str(raised.value)
    with refused("INVALID_ARGUMENT"):
        clients.schemas.validate_schema(
            request={
                "parent": clients.project,
                "schema": {"type_": kind, "definition": definition or " "},
            }
        )


def test_definitions_and_messages_are_validated_without_being_kept(clients):
    schema = {"type_": PROTOBUF, "definition": PROTO}
    clients.schemas.validate_schema(request={"parent": clients.project, "schema": schema})
    assert list(clients.schemas.list_schemas(request={"parent": clients.project})) == []
    kept = create(clients).name

    def validate(message, encoding, **against):
        clients.schemas.validate_message(
            request={
                "parent": clients.project,
                "message": message,
                "encoding": encoding,
                **against,
            }
        )

    validate(b'{"n": 3}', Encoding.JSON, schema=schema)
    validate(b"\x08\x03", Encoding.BINARY, schema=schema)
    validate(order(3), Encoding.JSON, name=kept)
    validate(b"\x06", Encoding.BINARY, name=kept)
    for message, encoding, against in (
        (b'{"m": 3}', Encoding.JSON, {"schema": schema}),
        (b"\x0a\x03", Encoding.BINARY, {"schema": schema}),
        (b'{"n": "x"}', Encoding.JSON, {"name": kept}),
        (b"", Encoding.BINARY, {"name": kept}),
        (order(3), Encoding.ENCODING_UNSPECIFIED, {"name": kept}),
    ):
        with refused("INVALID_ARGUMENT"):
            validate(message, encoding, **against)
    with refused("NOT_FOUND"):
        validate(order(3), Encoding.JSON, name=f"{clients.project}/schemas/nobody")


@pytest.mark.parametrize(
    "kind, definition, encoding, good, bad",
    [
        (AVRO, avro(), Encoding.JSON, order(7), b'{"n": "seven"}'),
        (AVRO, avro(), Encoding.BINARY, b"\x0e", b"\x0e\x0e"),
        (PROTOBUF, PROTO, Encoding.JSON, b'{"n": 7, "note": "x"}', b'{"n": 7, "m": 1}'),
        (PROTOBUF, PROTO, Encoding.BINARY, b"\x08\x07", b"\x0a\x07"),
    ],
    ids=["avro-json", "avro-binary", "proto-json", "proto-binary"],
)
def test_a_topic_takes_only_messages_of_its_schema(
    clients, kind, definition, encoding, good, bad
):
    schema = create(clients, definition, kind)
    topic = topic_of(clients, schema.name, encoding)
    shown = settings_of(clients, topic)
    assert (shown.schema, shown.encoding) == (schema.name, encoding)
    subscription = clients.subscription(topic)
    clients.publish_messages(topic, {"data": good, "attributes": {"colour": "red"}})
    with refused("INVALID_ARGUMENT") as raised:
        clients.publish(topic, good, bad)
    assert "Message failed schema validation" in str(raised.value)
    assert "messages[1]" in str(raised.value)
    error = raised.value
    word = "JSON" if encoding == Encoding.JSON else "BINARY"
    assert error.reason == f"INVALID_{word}_{'AVRO' if kind == AVRO else 'PROTO'}_MESSAGE"
    assert error.domain == "pubsub.googleapis.com"
    assert schema.revision_id in error.metadata["revisionInfo"]
    (received,) = clients.pull_exactly(subscription, 1)
    assert received.message.data == good
    assert dict(received.message.attributes) == {
        "colour": "red",
        "googclient_schemaname": schema.name,
        "googclient_schemaencoding": word,
        "googclient_schemarevisionid": schema.revision_id,
    }
    clients.ack(subscription, [received])
    assert clients.pull_now(subscription) == []


def test_nobody_can_claim_a_schema_and_a_full_set_of_attributes_fits(clients):
    schema = create(clients)
    claimed = {
        "googclient_schemaname": "projects/other/schemas/forged",
        "googclient_schemaencoding": "BINARY",
        "googclient_schemarevisionid": "ffffffff",
    }
    plain, plain_subscription = clients.pair()
    clients.publish_messages(plain, {"data": b"x", "attributes": {**claimed, "a": "b"}})
    (received,) = clients.pull_exactly(plain_subscription, 1)
    assert dict(received.message.attributes) == {"a": "b"}
    topic = topic_of(clients, schema.name)
    subscription = clients.subscription(topic)
    hundred = {f"k{n}": "v" for n in range(100)}
    clients.publish_messages(
        topic,
        {"data": order(1), "attributes": claimed},
        {"data": order(2), "attributes": hundred},
    )
    for received in clients.pull_exactly(subscription, 2):
        attributes = dict(received.message.attributes)
        assert attributes["googclient_schemaname"] == schema.name
        assert attributes["googclient_schemarevisionid"] == schema.revision_id
        assert len(attributes) in (3, 103)


def test_a_topic_accepts_a_range_of_revisions_that_updates_change(clients):
    schema = create(clients)
    name, first = schema.name, schema.revision_id
    second = commit(clients, name, avro("note")).revision_id
    third = commit(clients, name, avro("note", "colour")).revision_id
    topic = topic_of(clients, name, first_revision_id=first, last_revision_id=second)
    shown = settings_of(clients, topic)
    assert (shown.first_revision_id, shown.last_revision_id) == (first, second)
    subscription = clients.subscription(topic)
    plain, noted = order(1), order(2, note="x")
    coloured = order(3, note="x", colour="red")
    clients.publish(topic, plain, noted)
    with refused("INVALID_ARGUMENT"):
        clients.publish(topic, coloured)
    by = {
        one.message.data: one.message.attributes["googclient_schemarevisionid"]
        for one in clients.pull_exactly(subscription, 2)
    }
    assert by == {plain: first, noted: second}
    update_settings(clients, topic, ["schema_settings.last_revision_id"], last_revision_id=third)
    clients.publish(topic, plain, noted, coloured)
    update_settings(clients, topic, ["schema_settings.first_revision_id"], first_revision_id=second)
    with refused("INVALID_ARGUMENT"):
        clients.publish(topic, plain)
    # The range goes on to mean the same without the revisions at its ends.
    delete_revision(clients, name, second)
    assert settings_of(clients, topic).first_revision_id == second
    with refused("INVALID_ARGUMENT"):
        clients.publish(topic, plain)
    clients.publish(topic, coloured)
    with refused("INVALID_ARGUMENT"):
        update_settings(
            clients,
            topic,
            ["schema_settings.first_revision_id", "schema_settings.last_revision_id"],
            first_revision_id=third,
            last_revision_id=first,
        )
    with refused("NOT_FOUND"):
        update_settings(
            clients, topic, ["schema_settings.first_revision_id"], first_revision_id="00000000"
        )
    update_settings(
        clients, topic, ["schema_settings"], schema=name, encoding=Encoding.BINARY
    )
    shown = settings_of(clients, topic)
    assert (shown.encoding, shown.first_revision_id) == (Encoding.BINARY, "")
    clients.publish(topic, b"\x0e")
    clients.publisher.update_topic(
        request={
            "topic": {"name": topic},
            "update_mask": field_mask_pb2.FieldMask(paths=["schema_settings"]),
        }
    )
    assert settings_of(clients, topic).schema == ""
    clients.publish(topic, b"anything")


def test_a_schema_may_be_of_another_project_and_must_be_there(clients):
    schema = create(clients, project=f"projects/elsewhere-{next(numbers)}")
    topic = topic_of(clients, schema.name)
    clients.publish(topic, order(1))
    with refused("NOT_FOUND"):
        topic_of(clients, f"{clients.project}/schemas/nobody")
    with refused("INVALID_ARGUMENT") as raised:
        topic_of(clients, schema.name, Encoding.ENCODING_UNSPECIFIED)
    assert "encoding" in str(raised.value)


def test_a_topic_whose_schema_is_deleted_takes_nothing_until_it_has_another(clients):
    schema = create(clients)
    topic = topic_of(clients, schema.name)
    clients.publish(topic, order(1))
    clients.schemas.delete_schema(request={"name": schema.name})
    assert settings_of(clients, topic).schema == "_deleted-schema_"
    again = clients.schemas.create_schema(
        request={
            "parent": clients.project,
            "schema_id": schema.name.rsplit("/", 1)[1],
            "schema": {"type_": AVRO, "definition": avro()},
        }
    )
    # Another schema of the same name is another schema.
    assert settings_of(clients, topic).schema == "_deleted-schema_"
    with refused("INVALID_ARGUMENT") as raised:
        clients.publish(topic, order(1))
    assert "was deleted" in str(raised.value)
    update_settings(clients, topic, ["schema_settings.schema"], schema=again.name)
    assert settings_of(clients, topic).schema == again.name
    clients.publish(topic, order(1))


@pytest.mark.parametrize("how", ["term", "kill"])
def test_schemas_and_settings_are_still_there_after_a_restart(own_server, connect, how):
    clients = connect()
    schema = create(clients)
    name, first = schema.name, schema.revision_id
    second = commit(clients, name, avro("note")).revision_id
    third = rollback(clients, name, first).revision_id
    delete_revision(clients, name, second)
    topic = topic_of(clients, name, first_revision_id=first, last_revision_id=third)
    gone = create(clients, PROTO, PROTOBUF)
    orphan = topic_of(clients, gone.name)
    clients.schemas.delete_schema(request={"name": gone.name})
    subscription = clients.subscription(topic)
    clients.publish(topic, order(1))

    def shown(clients):
        return [
            clients.schemas.get_schema(request={"name": name}),
            list(clients.schemas.list_schema_revisions(request={"name": name, "view": 2})),
            list(clients.schemas.list_schemas(request={"parent": clients.project})),
            clients.publisher.get_topic(request={"topic": topic}),
            clients.publisher.get_topic(request={"topic": orphan}),
        ]

    before = shown(clients)
    assert before[4].schema_settings.schema == "_deleted-schema_"
    own_server.restart(how)
    again = connect()
    again.project = clients.project
    assert shown(again) == before
    again.publish(topic, order(2))
    with refused("INVALID_ARGUMENT"):
        again.publish(topic, b"{}")
    with refused("INVALID_ARGUMENT"):
        again.publish(orphan, b"{}")
    received = again.pull_exactly(subscription, 2)
    revisions_seen = {
        one.message.attributes["googclient_schemarevisionid"] for one in received
    }
    assert revisions_seen == {third}


def test_what_is_accepted_while_revisions_change_is_of_an_allowed_one(server):
    """Each message names the revision that accepted it, and is of the definition that had."""
    admin = Clients(server, "grpc")
    schema = create(admin)
    name = schema.name
    topic = topic_of(admin, name)
    subscription = admin.subscription(topic)
    definitions = {schema.revision_id: 0}
    stop, accepted, refusals = threading.Event(), [], []

    def publish(worker):
        clients = Clients(server, "grpc")
        n = 0
        while not stop.is_set():
            n += 1
            texts = [{}, {"note": "x"}, {"note": "x", "colour": "y"}][n % 3]
            message = order(worker * 1_000_000 + n, **texts)
            try:
                clients.publish(topic, message)
                accepted.append(message)
            except Exception as error:
                assert "schema validation" in str(error), error
                refusals.append(message)
        clients.close()

    workers = [threading.Thread(target=publish, args=(worker,)) for worker in range(3)]
    for worker in workers:
        worker.start()
    try:
        for turn in range(12):
            made = commit(admin, name, avro("note"))
            definitions[made.revision_id] = 1
            wide = commit(admin, name, avro("note", "colour"))
            definitions[wide.revision_id] = 2
            back = rollback(admin, name, schema.revision_id)
            definitions[back.revision_id] = 0
            for one in (made, wide, back):
                delete_revision(admin, name, one.revision_id)
    finally:
        stop.set()
        for worker in workers:
            worker.join()
    assert accepted and refusals, (len(accepted), len(refusals))
    received = admin.pull_exactly(subscription, len(accepted))
    assert sorted(one.message.data for one in received) == sorted(accepted)
    for one in received:
        texts = len(json.loads(one.message.data)) - 1
        assert definitions[one.message.attributes["googclient_schemarevisionid"]] == texts
    admin.close()


def test_the_command_makes_shows_checks_revises_and_deletes_schemas(server, tmp_path):
    cli = Cli(server, f"cli-schemas-{next(numbers)}")
    definition, message, bad = (tmp_path / name for name in ("o.avsc", "good.json", "bad.json"))
    definition.write_text(avro())
    message.write_bytes(order(3))
    bad.write_bytes(order("three"))
    assert cli.ok("schema", "validate", "--file", definition) == "the definition is good\n"
    cli.ok("schema", "create", "order", "--file", definition)
    cli.ok("topic", "create", "orders", "--schema", "order", "--encoding", "json")
    described = cli.ok("topic", "describe", "orders")
    assert "schemas/order\n" in described and "Encoding         JSON\n" in described
    cli.ok("schema", "validate", "order", "--message", message)
    refusal = cli.run("schema", "validate", "order", "--message", bad)
    assert refusal.returncode == 1 and "n: " in refusal.stderr
    definition.write_text(avro("note"))
    cli.ok("schema", "commit", "order", "--file", definition)
    shown = json.loads(cli.ok("schema", "describe", "order", "--json"))
    assert shown["schema"]["definition"] == avro("note")
    assert len(shown["revisions"]) == 2
    first = shown["revisions"][1]["revisionId"]
    assert avro() in cli.ok("schema", "describe", f"order@{first}")
    assert "schemas/order" in cli.ok("schema", "list")
    cli.ok("schema", "delete", "order")
    assert cli.run("schema", "describe", "order").returncode == 3
    assert "_deleted-schema_" in cli.ok("topic", "describe", "orders")
