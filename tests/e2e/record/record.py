"""Records what a server answers to every call, so that two versions of it can be compared.

    record.py run PROGRAM FILE      start PROGRAM on a fresh folder and write its answers to FILE
    record.py compare BEFORE AFTER  list the answers that differ in more than their words

What is of the moment (ids, times, secrets, ports) is replaced by its kind. Of an error the status
and the field count; the words behind them do not.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import grpc
from google.protobuf import json_format
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport
from google.pubsub_v1.types import pubsub

SUB = "/v1/projects/p/subscriptions/"
TOPIC = "projects/p/topics/orders"
DEAD = {"deadLetterTopic": "projects/p/topics/dead", "maxDeliveryAttempts": 5}
PUSH = {"pushEndpoint": "http://127.0.0.1:9/push"}
SECRET = "whsec_" + "AQ" * 21 + "E="

# A subscription each: made, shown, and refused or not.
CREATED = [
    {},
    {"ackDeadlineSeconds": 60, "messageRetentionDuration": "3600s", "retainAckedMessages": True},
    {"ackDeadlineSeconds": 5},
    {"ackDeadlineSeconds": -1},
    {"ackDeadlineSeconds": "soon"},
    {"messageRetentionDuration": "1s"},
    {"messageRetentionDuration": "-1s"},
    {"messageRetentionDuration": "600.5s"},
    {"expirationPolicy": {}},
    {"expirationPolicy": {"ttl": "700000s"}},
    {"expirationPolicy": {"ttl": "1s"}},
    {"labels": {"team": "blue"}},
    {"labels": {"Team": "blue"}},
    {"labels": {"postrider-fifo": "true", "postrider-paused": "true"}},
    {"labels": {"postrider-fifo": "maybe"}},
    {"labels": {"postrider-nothing": "x"}},
    {"labels": {"postrider-fifo": "true"}, "postrider": {"fifo": False}},
    {"labels": {"postrider-start": "earliest", "postrider-max-attempts": "7"}},
    {"labels": {"postrider-max-attempts": "0"}},
    {"labels": {"postrider-timeout-seconds": "40"}},
    {"labels": {"postrider-timeout-seconds": "40"}, "pushConfig": PUSH},
    {"enableMessageOrdering": True},
    {"filter": "attributes:kind"},
    {"filter": "attributes.kind = 5"},
    {"postrider": {"filter": "data.total > 100"}},
    {"postrider": {"filter": "data.total >"}},
    {"filter": "attributes:kind", "postrider": {"filter": "data.total > 100"}},
    {"enableExactlyOnceDelivery": True},
    {"enableExactlyOnceDelivery": True, "pushConfig": PUSH},
    {"retryPolicy": {}},
    {"retryPolicy": {"minimumBackoff": "1s", "maximumBackoff": "5s"}},
    {"retryPolicy": {"minimumBackoff": "6s", "maximumBackoff": "5s"}},
    {"retryPolicy": {"maximumBackoff": "601s"}},
    {"deadLetterPolicy": DEAD},
    {"deadLetterPolicy": {"deadLetterTopic": "projects/p/topics/dead"}},
    {"deadLetterPolicy": {"deadLetterTopic": "dead"}},
    {"deadLetterPolicy": {**DEAD, "maxDeliveryAttempts": 3}},
    {"deadLetterPolicy": {**DEAD, "maxDeliveryAttempts": 3}, "postrider": {"maxAttempts": 3}},
    {"deadLetterPolicy": DEAD, "postrider": {"maxAttempts": 7}},
    {"pushConfig": {}},
    {"pushConfig": PUSH},
    {"pushConfig": {"pushEndpoint": "localhost"}},
    {"pushConfig": {"attributes": {"x": "y"}}},
    {"pushConfig": {**PUSH, "attributes": {"x-goog-version": "v1"}}},
    {"pushConfig": {**PUSH, "noWrapper": {"writeMetadata": True}}},
    {"pushConfig": {**PUSH, "noWrapper": {}}},
    {"pushConfig": {**PUSH, "pubsubWrapper": {}}},
    {"pushConfig": {**PUSH, "oidcToken": {"serviceAccountEmail": "a@b.c", "audience": "me"}}},
    {"pushConfig": {**PUSH, "oidcToken": {"serviceAccountEmail": ""}}},
    {"pushConfig": {**PUSH, "timeoutSeconds": 7}},
    {"pushConfig": {**PUSH, "timeout_seconds": 7}},
    {"pushConfig": {**PUSH, "timeoutSeconds": 601}},
    {"pushConfig": {**PUSH, "timeoutSeconds": 1, "timeout_seconds": 2}},
    {"pushConfig": {"timeoutSeconds": 7}},
    {"pushConfig": {**PUSH, "retryPolicy": {"minimumBackoff": "1s", "maxAttempts": 3}}},
    {"pushConfig": {**PUSH, "retry_policy": {"min_backoff_seconds": 1}}},
    {"pushConfig": {**PUSH, "retryPolicy": {}}, "retryPolicy": {}},
    {"pushConfig": {**PUSH, "retryPolicy": {"wait": 1}}},
    {"fifoMode": True},
    {"fifo_mode": True, "postrider": {"fifo": False}},
    {"isEnabled": False},
    {"is_enabled": "yes"},
    {"postrider": {"fifo": True, "poison": "halt", "maxAttempts": 3}},
    {"postrider": {"poison": "halt"}},
    {"postrider": {"poison": "stop"}},
    {"postrider": {"laneBy": "kind"}},
    {"postrider": {"lane_by": "kind", "fifo": True}},
    {"postrider": {"paused": True}},
    {"postrider": {"maxAttempts": 0}},
    {"postrider": {"max_attempts": 9}},
    {"postrider": {"maxAttempts": "9"}},
    {"postrider": {"start": "earliest"}},
    {"postrider": {"start": {"offset": 7}}},
    {"postrider": {"start": {"time": "2026-01-31T12:00:00Z"}}},
    {"postrider": {"start": "middle"}},
    {"postrider": {"description": "d", "metadata": {"k": "v"}}},
    {"postrider": {"description": 5}},
    {"postrider": {"metadata": {"k": 5}}},
    {"postrider": {"alerts": "off"}},
    {"postrider": {"alerts": {"oldest_unacked_age": {"warning": "10m"}}}},
    {"postrider": {"alerts": {"nothing": "off"}}},
    {"postrider": {"backoff": ["5s", "5m"]}},
    {"postrider": {"backoff": {"fast": {"min": "5s", "max": "5m", "retries": 3},
                               "slow": {"every": "1h", "retries": 3}}}},
    {"postrider": {"backoff": ["soon"]}},
    {"postrider": {"backoff": ["5s"]}, "retryPolicy": {}},
    {"postrider": {"headers": {"x-a": "b"}, "method": "PUT"}, "pushConfig": PUSH},
    {"postrider": {"headers": {"host": "b"}}},
    {"postrider": {"method": "GET"}},
    {"postrider": {"signing": {}}},
    {"postrider": {"signing": {"secret": SECRET}}},
    {"postrider": {"signing": {"secret": "x"}}},
    {"postrider": {"signing": True}},
    {"postrider": {"batch": {}, "rateLimit": 9}, "pushConfig": PUSH},
    {"postrider": {"batch": {"messages": 0}}},
    {"postrider": {"batch": {"size": 1}}},
    {"postrider": {"batch": {}}, "pushConfig": {**PUSH, "noWrapper": {}}},
    {"postrider": {"rateLimit": 0}},
    {"postrider": {"rate_limit": 5}},
    {"postrider": {"nothing": 1}},
    {"postrider": 5},
    {"postrider": None, "fifoMode": None},
    {"bigqueryConfig": {}},
    {"cloudStorageConfig": {"bucket": "b"}},
    {"messageTransforms": [{}]},
    {"tags": {"a": "b"}},
    {"nothing": 1},
    {"topic": "projects/p/topics/none"},
    {"topic": "orders"},
]

# Updates of one subscription that has about everything: what is given, and the mask.
FULL = {
    "labels": {"team": "blue", "postrider-fifo": "false"},
    "deadLetterPolicy": {**DEAD, "maxDeliveryAttempts": 7},
    "pushConfig": {**PUSH, "timeoutSeconds": 9, "attributes": {"a": "b"}},
    "retryPolicy": {"minimumBackoff": "1s", "maximumBackoff": "5s"},
    "filter": "attributes:kind",
    "postrider": {"description": "d", "headers": {"x-a": "b"}, "batch": {}, "rateLimit": 9},
}
UPDATED = [
    ({}, ""),
    ({}, "nothing"),
    ({}, "name"),
    ({"ackDeadlineSeconds": 30}, "ackDeadlineSeconds"),
    ({}, "ackDeadlineSeconds"),
    ({"ackDeadlineSeconds": 30}, "ack_deadline_seconds"),
    ({"labels": {"a": "b"}}, "labels"),
    ({"labels": {"postrider-fifo": "true"}}, "labels"),
    ({}, "labels"),
    ({"retryPolicy": {"minimumBackoff": "2s"}}, "retryPolicy.minimumBackoff"),
    ({}, "retryPolicy.maximumBackoff"),
    ({}, "retryPolicy"),
    ({"deadLetterPolicy": {"maxDeliveryAttempts": 9}}, "deadLetterPolicy.maxDeliveryAttempts"),
    ({"deadLetterPolicy": {"deadLetterTopic": TOPIC}}, "deadLetterPolicy.deadLetterTopic"),
    ({}, "deadLetterPolicy"),
    ({"deadLetterPolicy": {"maxDeliveryAttempts": 9}}, "deadLetterPolicy.maxDeliveryAttempts"),
    ({"pushConfig": {"pushEndpoint": "http://127.0.0.1:9/b"}}, "pushConfig.pushEndpoint"),
    ({"pushConfig": {"timeoutSeconds": 3}}, "pushConfig.timeoutSeconds"),
    ({"pushConfig": {"oidcToken": {"serviceAccountEmail": "a@b.c"}}}, "pushConfig.oidcToken"),
    ({"pushConfig": {"noWrapper": {}}}, "pushConfig.noWrapper"),
    ({"postrider": {"batch": None}}, "postrider.batch"),
    ({"pushConfig": {"noWrapper": {"writeMetadata": True}}}, "pushConfig.noWrapper.writeMetadata"),
    ({"pushConfig": {"pubsubWrapper": {}}}, "pushConfig.pubsubWrapper"),
    ({"pushConfig": {"retryPolicy": {"maxAttempts": 4}}}, "pushConfig.retryPolicy"),
    ({"pushConfig": {}}, "pushConfig.attributes"),
    ({"pushConfig": PUSH}, "pushConfig"),
    ({"postrider": {"paused": True, "description": "e"}}, "postrider"),
    ({"postrider": {"paused": True}}, "postrider.paused,postrider.description"),
    ({"isEnabled": False}, "isEnabled"),
    ({"fifoMode": True}, "fifoMode"),
    ({"fifo_mode": False}, "fifo_mode"),
    ({"postrider": {"fifo": 5}}, "postrider.fifo"),
    ({"postrider": {"signing": {}}}, "postrider.signing"),
    ({"postrider": {"signing": {}}}, "postrider.signing"),
    ({"postrider": {"signing": {"secret": SECRET}}}, "postrider.signing"),
    ({"postrider": {"signing": None}}, "postrider.signing"),
    ({"postrider": {"laneBy": "kind"}}, "postrider.laneBy"),
    ({"postrider": {"start": "latest"}}, "postrider.start"),
    ({"postrider": {"start": "earliest"}}, "postrider.start"),
    ({"filter": "attributes:kind"}, "filter"),
    ({"filter": "attributes:other"}, "filter"),
    ({"topic": TOPIC}, "topic"),
    ({"enableMessageOrdering": True}, "enableMessageOrdering"),
    ({"bigqueryConfig": {}}, "bigqueryConfig"),
    ({}, "bigqueryConfig"),
    ({"expirationPolicy": {}}, "expirationPolicy"),
    ({"expirationPolicy": {"ttl": "700000s"}}, "expirationPolicy.ttl"),
    ({}, "pushConfig"),
    ({"enableExactlyOnceDelivery": True}, "enableExactlyOnceDelivery"),
    ({"messageRetentionDuration": "600s"}, "messageRetentionDuration"),
    ({"retainAckedMessages": True}, "retainAckedMessages"),
]

TOPICS = [
    ("PUT", "/v1/projects/p/topics/topic1", {}),
    ("PUT", "/v1/projects/p/topics/topic1", {}),
    ("PUT", "/v1/projects/p/topics/topic2",
     {"labels": {"team": "blue"}, "messageRetentionDuration": "600s"}),
    ("PUT", "/v1/projects/p/topics/topic3", {"messageRetentionDuration": "1s"}),
    ("PUT", "/v1/projects/p/topics/topic3", {"labels": {"postrider-live": "true"}}),
    ("PUT", "/v1/projects/p/topics/topic4", {"labels": {"postrider-live": "x"}}),
    ("PUT", "/v1/projects/p/topics/topic4", {"kmsKeyName": "k"}),
    ("PUT", "/v1/projects/p/topics/topic4", {"nothing": "k"}),
    ("PUT", "/v1/projects/p/topics/third", {}),
    ("PATCH", "/v1/projects/p/topics/topic2",
     {"topic": {"labels": {"a": "b"}}, "updateMask": "labels"}),
    ("PATCH", "/v1/projects/p/topics/topic2", {"topic": {}, "updateMask": "messageRetentionDuration"}),
    ("PATCH", "/v1/projects/p/topics/topic2", {"topic": {}, "updateMask": ""}),
    ("PATCH", "/v1/projects/p/topics/topic2", {"topic": {}, "updateMask": "nothing"}),
    ("PATCH", "/v1/projects/p/topics/topic2", {"topic": {}, "updateMask": "name"}),
    ("GET", "/v1/projects/p/topics/topic2", None),
    ("GET", "/v1/projects/p/topics/none", None),
    ("GET", "/v1/projects/p/topics", None),
    ("GET", "/v1/projects/p/topics?pageSize=1", None),
    ("GET", "/v1/projects/p/topics?pageSize=-1", None),
    ("GET", "/v1/projects/p/topics?pageToken=x", None),
    ("DELETE", "/v1/projects/p/topics/topic1", None),
    ("DELETE", "/v1/projects/p/topics/topic1", None),
]


def others():
    """Calls that are no settings, in the order in which they build on each other."""
    yield "PUT", SUB + "plain", {"topic": TOPIC}
    for message in [{"data": "YQ==", "attributes": {"kind": "order"}},
                    {"orderingKey": "k", "data": "Yg=="}]:
        yield "POST", "/v1/projects/p/topics/orders:publish", {"messages": [message]}
    for bad in [{}, {"messages": []}, {"messages": [{}]}, {"messages": [{"data": "%"}]}]:
        yield "POST", "/v1/projects/p/topics/orders:publish", bad
    yield "POST", "/v1/projects/p/topics/none:publish", {"messages": [{"data": "YQ=="}]}
    yield "POST", SUB + "plain:pull", {"maxMessages": 0}
    yield "POST", SUB + "plain:pull", {"maxMessages": 10}
    yield "POST", SUB + "none:pull", {"maxMessages": 10}
    yield "POST", SUB + "plain:acknowledge", {"ackIds": ["x"]}
    yield "POST", SUB + "plain:acknowledge", {}
    yield "POST", SUB + "plain:modifyAckDeadline", {"ackIds": ["x"], "ackDeadlineSeconds": 700}
    yield "POST", SUB + "plain:seek", {"time": "2026-01-31T12:00:00Z"}
    yield "POST", SUB + "plain:seek", {}
    yield "POST", SUB + "plain:modifyPushConfig", {"pushConfig": {**PUSH, "timeoutSeconds": 4}}
    yield "POST", SUB + "plain:modifyPushConfig", {"pushConfig": {}}
    yield "POST", SUB + "plain:rotateSecret", {}
    for what in ["cursor", "delivery", "lanes", "attempts", "messages", "figures"]:
        yield "GET", SUB + "plain/" + what, None
        yield "GET", SUB + "none/" + what, None
    yield "GET", "/v1/projects/p/subscriptions?pageSize=2", None
    yield "PUT", "/v1/projects/p/snapshots/snap", {"subscription": "projects/p/subscriptions/plain"}
    yield "PUT", "/v1/projects/p/snapshots/snap", {"subscription": "projects/p/subscriptions/plain"}
    yield "GET", "/v1/projects/p/snapshots/snap", None
    yield "GET", "/v1/projects/p/snapshots", None
    yield "PATCH", "/v1/projects/p/snapshots/snap", {
        "snapshot": {"labels": {"a": "b"}}, "updateMask": "labels"}
    yield "PATCH", "/v1/projects/p/snapshots/snap", {"snapshot": {}, "updateMask": "topic"}
    yield "POST", SUB + "plain:seek", {"snapshot": "projects/p/snapshots/snap"}
    yield "GET", "/v1/projects/p/topics/orders/subscriptions?pageSize=1", None
    yield "GET", "/v1/projects/p/topics/orders/snapshots", None
    yield "DELETE", "/v1/projects/p/snapshots/snap", None
    avro = {"type": "AVRO", "definition": '{"type":"record","name":"R","fields":[]}'}
    yield "POST", "/v1/projects/p/schemas?schemaId=schema", avro
    yield "POST", "/v1/projects/p/schemas?schemaId=schema", avro
    yield "POST", "/v1/projects/p/schemas?schemaId=schema2", {"type": "AVRO", "definition": "x"}
    yield "GET", "/v1/projects/p/schemas/schema", None
    yield "GET", "/v1/projects/p/schemas?view=FULL", None
    yield "GET", "/v1/projects/p/schemas/schema:listRevisions", None
    yield "POST", "/v1/projects/p/schemas:validate", {"schema": avro}
    yield "DELETE", "/v1/projects/p/schemas/schema", None
    yield "POST", SUB + "plain:detach", {}
    yield "GET", SUB + "plain", None
    yield "DELETE", SUB + "plain", None
    yield "DELETE", SUB + "plain", None
    for path in ["/", "/healthz", "/readyz", "/status", "/v1/nothing", "/v1/projects/p/deadLetters",
                 "/v1/alerts", "/v1/backups", "/v1/clock", "/subscriptions", "/health"]:
        yield "GET", path, None


class Server:
    def __init__(self, program):
        self.folder = tempfile.TemporaryDirectory()
        command = [program, "serve", "--listen", "127.0.0.1:0", "--data-dir", self.folder.name + "/d"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for line in self.process.stdout:
            found = re.search(rb"127\.0\.0\.1:(\d+)", line)
            if found:
                self.address = "127.0.0.1:" + found[1].decode()
                break
        self.wait_until_ready()

    def wait_until_ready(self):
        for _ in range(200):
            if self.rest("GET", "/readyz", None)[0] == 200:
                return
            time.sleep(0.05)
        raise SystemExit("the server does not become ready")

    def rest(self, verb, path, body):
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"} if data else {}
        url = f"http://{self.address}{path}"
        request = urllib.request.Request(url, data, headers, method=verb)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(type(error))

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        self.folder.cleanup()


def calls(server):
    """Every call and its answer."""
    for topic in ["orders", "dead", "third"]:
        server.rest("PUT", f"/v1/projects/p/topics/{topic}", {})
    for verb, path, body in TOPICS:
        yield (verb, path, body), server.rest(verb, path, body)
    for body in CREATED:
        body = {"topic": TOPIC, **body}
        yield ("create", body), server.rest("PUT", SUB + "created", body)
        yield ("shown", body), server.rest("GET", SUB + "created", None)
        server.rest("DELETE", SUB + "created", None)
    for body, mask in UPDATED:
        server.rest("PUT", SUB + "updated", {"topic": TOPIC, **FULL})
        request = {"subscription": body, "updateMask": mask}
        yield ("update", body, mask), server.rest("PATCH", SUB + "updated", request)
        yield ("updated", body, mask), server.rest("GET", SUB + "updated", None)
        server.rest("DELETE", SUB + "updated", None)
    for verb, path, body in others():
        yield (verb, path, body), server.rest(verb, path, body)
    yield from grpc_calls(server)


def grpc_calls(server):
    channel = grpc.insecure_channel(server.address)
    subscriber = SubscriberGrpcTransport(channel=channel)
    publisher = PublisherGrpcTransport(channel=channel)

    def call(method, request):
        try:
            answer = method(request)
            message = type(answer).pb(answer) if hasattr(type(answer), "pb") else answer
            return 0, json_format.MessageToJson(message, sort_keys=True)
        except grpc.RpcError as error:
            return error.code().name, json.dumps({"error": {"message": error.details()}})

    name = "projects/p/subscriptions/over-grpc"
    for body in CREATED:
        try:
            body = {k: v for k, v in body.items() if k != "postrider"}
            wire = json_format.ParseDict({"topic": TOPIC, **body, "name": name},
                                         pubsub.Subscription.pb(pubsub.Subscription()))
        except json_format.ParseError:
            continue
        request = pubsub.Subscription.wrap(wire)
        yield ("grpc create", body), call(subscriber.create_subscription, request)
        yield ("grpc list", body), call(
            subscriber.list_subscriptions, pubsub.ListSubscriptionsRequest(project="projects/p"))
        call(subscriber.delete_subscription, pubsub.DeleteSubscriptionRequest(subscription=name))
    for body, mask in UPDATED:
        server.rest("PUT", "/v1/" + name, {"topic": TOPIC, **FULL})
        body = {k: v for k, v in body.items() if k not in ("postrider", "fifoMode", "fifo_mode")}
        try:
            request = json_format.ParseDict(
                {"subscription": {**body, "name": name}, "updateMask": mask},
                pubsub.UpdateSubscriptionRequest.pb(pubsub.UpdateSubscriptionRequest()))
        except json_format.ParseError:
            continue
        request = pubsub.UpdateSubscriptionRequest.wrap(request)
        yield ("grpc update", body, mask), call(subscriber.update_subscription, request)
        yield ("grpc updated", body, mask), server.rest("GET", "/v1/" + name, None)
        call(subscriber.delete_subscription, pubsub.DeleteSubscriptionRequest(subscription=name))
    for topic in [{"name": "projects/p/topics/over-grpc", "labels": {"a": "b"}}, {"name": "g"},
                  {"name": "projects/p/topics/refused", "kms_key_name": "k"}]:
        yield ("grpc topic", topic), call(publisher.create_topic, pubsub.Topic(topic))
    channel.close()


MOMENT = [
    (re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+Z"), "<time>"),
    (re.compile(r"whsec_[A-Za-z0-9+/=]+"), "<secret>"),
    (re.compile(r"127\.0\.0\.1:\d{4,}"), "<address>"),
    (re.compile(r'"(ackId|messageId|revisionId|epoch|pageToken|nextPageToken)": ?"[^"]*"'),
     r'"\1": "<id>"'),
    (re.compile(r"\b\d{10,}\b"), "<number>"),
    (re.compile(r'"(durationMs|uptimeSeconds|startTime|diskFreeBytes|diskUsedBytes)": ?[0-9.]+'),
     r'"\1": 0'),
]


def plain(text):
    for pattern, kind in MOMENT:
        text = pattern.sub(kind, text)
    try:
        answer = json.loads(text)
    except ValueError:
        return text[:200]
    if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
        error = answer["error"]
        field = re.match(r"[\w.\[\]\"-]+(?=: )", str(error.get("message")))
        return {"field": field and field[0], "status": error.get("status"),
                "message": error.get("message")}
    return answer


def run(program, target):
    server = Server(program)
    try:
        with open(target, "w", encoding="utf-8") as out:
            for asked, (status, text) in calls(server):
                record = {"asked": asked, "status": status, "answer": plain(text)}
                out.write(json.dumps(record, sort_keys=True) + "\n")
    finally:
        server.stop()


def compare(before, after):
    def read(path):
        return [json.loads(line) for line in open(path, encoding="utf-8")]

    def meaning(record):
        answer = record["answer"]
        if isinstance(answer, dict):
            answer = {k: v for k, v in answer.items() if k not in ("message", "warnings")}
        return record["status"], answer

    old, new = read(before), read(after)
    words = differing = 0
    for one, other in zip(old, new, strict=True):
        if meaning(one) != meaning(other):
            differing += 1
            print(json.dumps(one["asked"]))
            print("  -", one["status"], json.dumps(one["answer"], sort_keys=True)[:1500])
            print("  +", other["status"], json.dumps(other["answer"], sort_keys=True)[:1500])
        elif one != other:
            words += 1
    print(f"{len(old)} answers: {differing} differ, {words} in their words only")
    return 1 if differing else 0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["run", program, target]:
            run(program, target)
        case ["compare", before, after]:
            sys.exit(compare(before, after))
        case _:
            sys.exit(__doc__)
