"""Compares our definitions with those inside Google's Python package, in both directions.

    compare.py DESCRIPTORS [REST]

DESCRIPTORS is a serialised FileDescriptorSet and REST the table of REST methods as JSON; the
example `descriptor_set` of the crate `postrider-wire` writes both. Needs google-cloud-pubsub.

Prints each difference and how much was compared. Exits with 0 if all is the same, with 1 if
something differs.
"""

import importlib
import json
import pathlib
import pkgutil
import sys
import unittest.mock

import google.pubsub_v1.types
import grpc
from google.iam.v1 import iam_policy_pb2, options_pb2, policy_pb2
from google.protobuf import descriptor_pb2
from google.type import expr_pb2

PACKAGES = ("google.pubsub.v1", "google.iam.v1", "google.type")
# google.type has many messages besides; ours is the one that policies use.
ONLY = {"google.type": {"google.type.Expr"}}
SERVICES = {"publisher": "Publisher", "subscriber": "Subscriber", "schema_service": "SchemaService"}
IAM_SERVICE = "google.iam.v1.IAMPolicy"
FIELD = descriptor_pb2.FieldDescriptorProto


def main(arguments):
    if len(arguments) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    ours = definitions(our_files(arguments[0]), our_services)
    theirs = definitions(their_files(), their_services)
    if len(arguments) == 2:
        ours["REST method"] = our_rest(arguments[1])
        theirs["REST method"] = their_rest()

    differences = [line for kind in theirs for line in compare(kind, ours[kind], theirs[kind])]
    for line in differences:
        print(line)
    counts = ", ".join(f"{len(theirs[kind])} {kind}s" for kind in theirs)
    print(f"compared {counts}: {len(differences)} differences")
    return 1 if differences else 0


def compare(kind, ours, theirs):
    """One line for each name that only one side has or that the two sides see differently."""
    for name in sorted(ours.keys() | theirs.keys()):
        if name not in ours:
            yield f"{kind} {name}: missing here, theirs is {theirs[name]}"
        elif name not in theirs:
            yield f"{kind} {name}: only here, as {ours[name]}"
        elif ours[name] != theirs[name]:
            yield f"{kind} {name}: here {ours[name]}, theirs {theirs[name]}"


def definitions(files, services):
    """What the files define, as one table for each kind, from full name to a description."""
    found = {"message": {}, "field": {}, "enum": {}, "enum value": {}, "service": {}, "method": {}}
    for file in files:
        for enum in file.enum_type:
            add_enum(found, f"{file.package}.{enum.name}", enum)
        for message in file.message_type:
            name = f"{file.package}.{message.name}"
            if name in ONLY.get(file.package, {name}):
                add_message(found, name, message)
    services(found, files)
    return found


def add_enum(found, name, enum):
    found["enum"][name] = "an enum"
    for value in enum.value:
        found["enum value"][f"{name}.{value.name}"] = value.number


def add_message(found, name, message):
    found["message"][name] = "a message"
    for enum in message.enum_type:
        add_enum(found, f"{name}.{enum.name}", enum)
    maps = {}
    for nested in message.nested_type:
        if nested.options.map_entry:
            maps[f".{name}.{nested.name}"] = nested
        else:
            add_message(found, f"{name}.{nested.name}", nested)
    for field in message.field:
        # The Python package adds an underscore to names that are words of Python.
        found["field"][f"{name}.{field.name.rstrip('_')}"] = describe_field(message, field, maps)


def describe_field(message, field, maps):
    described = {
        "number": field.number,
        "type": describe_type(field, maps),
        "label": FIELD.Label.Name(field.label).removeprefix("LABEL_").lower(),
        "json_name": field.json_name,
        "proto3_optional": field.proto3_optional,
    }
    # A field that is merely optional lies in a oneof made up by the compiler.
    if field.HasField("oneof_index") and not field.proto3_optional:
        described["oneof"] = message.oneof_decl[field.oneof_index].name
    return described


def describe_type(field, maps):
    if field.type_name in maps:
        key, value = maps[field.type_name].field
        assert (key.number, value.number) == (1, 2)
        return f"map<{describe_type(key, {})}, {describe_type(value, {})}>"
    kind = FIELD.Type.Name(field.type).removeprefix("TYPE_").lower()
    return f"{kind} {field.type_name.lstrip('.')}".strip()


def our_files(path):
    files = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(path).read_bytes())
    return [file for file in files.file if file.package in PACKAGES]


def our_services(found, files):
    for file in files:
        for service in file.service:
            add_service(found, f"{file.package}.{service.name}", service)


def add_service(found, name, service):
    found["service"][name] = "a service"
    for method in service.method:
        found["method"][f"{name}/{method.name}"] = describe_method(
            method.input_type.lstrip("."),
            method.output_type.lstrip("."),
            method.client_streaming,
            method.server_streaming,
        )


def describe_method(request, response, client_streaming, server_streaming):
    before, after = ("stream " if yes else "" for yes in (client_streaming, server_streaming))
    return f"({before}{request}) returns ({after}{response})"


def their_files():
    modules = [options_pb2, policy_pb2, iam_policy_pb2, expr_pb2]
    descriptors = [module.DESCRIPTOR for module in modules]
    package = google.pubsub_v1.types
    for module in pkgutil.iter_modules(package.__path__):
        members = vars(importlib.import_module(f"{package.__name__}.{module.name}")).values()
        descriptors += [
            member.pb().DESCRIPTOR.file
            for member in members
            if hasattr(member, "pb") and member.__module__.endswith(module.name)
        ]
    files = {}
    for descriptor in descriptors:
        file = descriptor_pb2.FileDescriptorProto()
        descriptor.CopyToProto(file)
        for message in file.message_type:
            add_json_names(message, descriptor.message_types_by_name[message.name])
        files[file.name] = file
    return list(files.values())


def add_json_names(message, descriptor):
    """A copied description lacks the JSON names, which the library works out when asked."""
    for field in message.field:
        field.json_name = descriptor.fields_by_name[field.name].json_name
    for nested in message.nested_type:
        add_json_names(nested, descriptor.nested_types_by_name[nested.name])


def their_services(found, files):
    """The package describes the services of Pub/Sub only by the calls that its clients make."""
    our_services(found, files)
    for module, service in SERVICES.items():
        name = f"google.pubsub.v1.{service}"
        found["service"][name] = "a service"
        channel = RecordingChannel()
        transports = importlib.import_module(f"google.pubsub_v1.services.{module}.transports")
        # Interceptors put off what the channel shall see until a call is made.
        with unittest.mock.patch("grpc.intercept_channel", lambda channel, *_: channel):
            getattr(transports, f"{service}GrpcTransport")(channel=channel)
        for path, described in channel.calls.items():
            if path.startswith(f"/{name}/"):
                found["method"][path.removeprefix("/")] = described


class RecordingChannel(grpc.Channel):
    """Notes which calls a client prepares, and makes none."""

    def __init__(self):
        self.calls = {}

    def note(self, path, serialize, deserialize, client_streaming, server_streaming):
        # Calls of access policies come without the type of their request; a file has those.
        if not path.startswith(f"/{IAM_SERVICE}/"):
            self.calls[path] = describe_method(
                type_name(serialize), type_name(deserialize), client_streaming, server_streaming
            )
        return self.refuse

    def refuse(self, *_, **__):
        raise RuntimeError("no call was meant to be made")

    def unary_unary(self, method, request_serializer=None, response_deserializer=None, *_, **__):
        return self.note(method, request_serializer, response_deserializer, False, False)

    def unary_stream(self, method, request_serializer=None, response_deserializer=None, *_, **__):
        return self.note(method, request_serializer, response_deserializer, False, True)

    def stream_unary(self, method, request_serializer=None, response_deserializer=None, *_, **__):
        return self.note(method, request_serializer, response_deserializer, True, False)

    def stream_stream(self, method, request_serializer=None, response_deserializer=None, *_, **__):
        return self.note(method, request_serializer, response_deserializer, True, True)

    def subscribe(self, callback, try_to_connect=False):
        pass

    def unsubscribe(self, callback):
        pass

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def type_name(function):
    """The full name of the message type that a bound (de)serialiser belongs to."""
    message = function.__self__
    message = message.pb() if hasattr(message, "pb") else message
    return message.DESCRIPTOR.full_name


def our_rest(path):
    methods = json.loads(pathlib.Path(path).read_text())
    return {f"{m['rpc']} {m['verb']} {m['path']}": f"body {m['body']}" for m in methods}


def their_rest():
    found = {}
    iam_calls = iam_policy_pb2.DESCRIPTOR.services_by_name["IAMPolicy"].methods_by_name
    for module, service in SERVICES.items():
        base = f"google.pubsub_v1.services.{module}.transports.rest_base"
        transport = getattr(importlib.import_module(base), f"_Base{service}RestTransport")
        for name, method in vars(transport).items():
            if not hasattr(method, "_get_http_options"):
                continue
            call = name.removeprefix("_Base")
            of_policies = call in iam_calls
            rpc = f"{IAM_SERVICE if of_policies else f'google.pubsub.v1.{service}'}/{call}"
            for option in method._get_http_options():
                described = f"body {option.get('body')}"
                found[f"{rpc} {option['method'].upper()} {option['uri']}"] = described
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
