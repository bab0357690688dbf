"""REST as curl sees it: shapes, Google's error body, bad input, the `postrider` object."""

import pytest

from rest import Rest, datas, encode


@pytest.fixture
def pair(rest, project):
    topic, subscription = f"{project}/topics/orders", f"{project}/subscriptions/billing"
    rest.topic(topic)
    rest.subscription(subscription, topic)
    return topic, subscription


def refuse(answer, code, status, *names):
    assert answer.code == code, answer
    error = answer.json["error"]
    assert error["code"] == code
    assert error["status"] == status
    for name in names:
        assert name in error["message"], error["message"]


def bad(answer, *names):
    refuse(answer, 400, "INVALID_ARGUMENT", *names)


def test_answers_are_camel_case_and_base64(rest, project):
    topic, subscription = f"{project}/topics/orders", f"{project}/subscriptions/billing"
    made = rest.ok("PUT", f"/v1/{topic}", {"labels": {"a": "b"}, "messageRetentionDuration": "600s"})
    assert made == {"name": topic, "labels": {"a": "b"}, "messageRetentionDuration": "600s"} | {
        key: value for key, value in made.items() if key in ("state",)
    }
    made = rest.subscription(subscription, topic, ackDeadlineSeconds=20)
    assert made["ackDeadlineSeconds"] == 20
    assert made["messageRetentionDuration"] == "604800s"
    assert made["expirationPolicy"] == {"ttl": "2678400s"}
    published = rest.ok(
        "POST",
        f"/v1/{topic}:publish",
        {"messages": [{"data": encode(b"\xff\xfe"), "attributes": {"k": "v"}, "orderingKey": "o"}]},
    )
    received = rest.pull_exactly(subscription, 1)[0]
    assert received["message"]["messageId"] == published["messageIds"][0]
    assert received["message"]["data"] == encode(b"\xff\xfe")
    assert received["message"]["attributes"] == {"k": "v"}
    assert received["message"]["orderingKey"] == "o"
    assert received["message"]["publishTime"].endswith("Z")


def test_every_call_works_by_google_s_path_and_verb(rest, pair, project):
    topic, subscription = pair
    assert rest.ok("GET", f"/v1/{topic}")["name"] == topic
    listed = rest.ok("GET", f"/v1/{project}/topics?pageSize=10")
    assert [one["name"] for one in listed["topics"]] == [topic]
    assert rest.ok("GET", f"/v1/{topic}/subscriptions")["subscriptions"] == [subscription]
    listed = rest.ok("GET", f"/v1/{project}/subscriptions")
    assert [one["name"] for one in listed["subscriptions"]] == [subscription]
    changed = rest.ok("PATCH", f"/v1/{topic}", {"topic": {"labels": {"a": "b"}}, "updateMask": "labels"})
    assert changed["labels"] == {"a": "b"}
    changed = rest.ok(
        "PATCH",
        f"/v1/{subscription}",
        {"subscription": {"ackDeadlineSeconds": 30}, "updateMask": "ackDeadlineSeconds"},
    )
    assert changed["ackDeadlineSeconds"] == 30
    rest.publish(topic, "x")
    received = rest.pull_exactly(subscription, 1)
    ack_ids = [one["ackId"] for one in received]
    body = {"ackIds": ack_ids, "ackDeadlineSeconds": 0}
    assert rest.ok("POST", f"/v1/{subscription}:modifyAckDeadline", body) == {}
    received = rest.pull_exactly(subscription, 1)
    rest.ack(subscription, received)
    assert rest.ok("DELETE", f"/v1/{subscription}") == {}
    assert rest.ok("DELETE", f"/v1/{topic}") == {}
    refuse(rest.get(f"/v1/{topic}"), 404, "NOT_FOUND", topic)
    refuse(rest.get(f"/v1/{subscription}"), 404, "NOT_FOUND", subscription)


def test_paging_by_hand(rest, project):
    for n in range(5):
        rest.topic(f"{project}/topics/topic-{n}")
    first = rest.ok("GET", f"/v1/{project}/topics?pageSize=3")
    assert len(first["topics"]) == 3
    second = rest.ok("GET", f"/v1/{project}/topics?pageSize=3&pageToken={first['nextPageToken']}")
    assert len(second["topics"]) == 2 and "nextPageToken" not in second


def test_a_put_twice_is_409(rest, pair):
    topic, subscription = pair
    refuse(rest.put(f"/v1/{topic}", {}), 409, "ALREADY_EXISTS", topic)
    refuse(rest.put(f"/v1/{subscription}", {"topic": topic}), 409, "ALREADY_EXISTS", subscription)


def test_what_is_not_built_is_501(rest, pair, project):
    topic, _ = pair
    answer = rest.get(f"/v1/{topic}:getIamPolicy")
    refuse(answer, 501, "UNIMPLEMENTED", "GetIamPolicy")


def test_an_unknown_path_is_404(rest):
    for verb, path in [("GET", "/v2/x"), ("POST", "/v1/projects/p/topics/t1x:fly"), ("GET", "/v1")]:
        answer = rest.call(verb, path, {} if verb == "POST" else None)
        assert answer.code == 404, (path, answer)
        assert answer.json["error"]["code"] == 404


def test_query_parameters_of_google_s_clients_are_tolerated(rest, pair):
    topic, _ = pair
    for query in ("alt=json", "$alt=json;enum-encoding=int", "prettyPrint=false", "key=abc"):
        assert rest.call("GET", f"/v1/{topic}?{query}").code == 200, query


def test_unknown_fields_are_refused_by_name(rest, pair, project):
    topic, subscription = pair
    bad(rest.put(f"/v1/{project}/topics/other", {"labells": {}}), "labells")
    bad(rest.put(f"/v1/{project}/subscriptions/other", {"topic": topic, "ackDeadlin": 10}), "ackDeadlin")
    body = {"messages": [{"data": "eA=="}, {"data": "eA==", "dta": "x"}]}
    bad(rest.post(f"/v1/{topic}:publish", body), "dta", "messages[1]")
    bad(rest.post(f"/v1/{subscription}:pull", {"maxMessages": 1, "fast": True}), "fast")
    body = {"topic": topic, "postrider": {"strat": "latest"}}
    bad(rest.put(f"/v1/{project}/subscriptions/other", body), "strat")
    body = {"topic": {"labls": {}}, "updateMask": "labels"}
    bad(rest.patch(f"/v1/{topic}", body), "labls")


@pytest.mark.parametrize(
    "message, name",
    [
        ({"data": 5}, "data"),
        ({"data": "not base64!"}, "data"),
        ({"data": "abcde"}, "data"),
        ({"data": "eA==", "attributes": []}, "attributes"),
        ({"data": "eA==", "attributes": {"k": 1}}, "attributes"),
        ({"data": "eA==", "orderingKey": {}}, "orderingKey"),
        ("text", "messages[0]"),
        (None, "messages"),
    ],
)
def test_a_message_of_the_wrong_type_is_refused_by_name(rest, pair, message, name):
    topic, subscription = pair
    bad(rest.post(f"/v1/{topic}:publish", {"messages": [message]}), name)
    assert rest.pull(subscription, wait=False) == []


@pytest.mark.parametrize(
    "path, body, name",
    [
        (":publish", {"messages": {}}, "messages"),
        (":publish", {"messages": "x"}, "messages"),
        (":publish", [], ""),
        (":publish", "text", ""),
        (":publish", None, ""),
    ],
)
def test_a_body_of_the_wrong_type_is_refused(rest, pair, path, body, name):
    topic, _ = pair
    bad(rest.post(f"/v1/{topic}{path}", body), name)


@pytest.mark.parametrize(
    "fields, name",
    [
        ({"ackDeadlineSeconds": "soon"}, "ackDeadlineSeconds"),
        ({"ackDeadlineSeconds": 1.5}, "ackDeadlineSeconds"),
        ({"ackDeadlineSeconds": 99999999999}, "ackDeadlineSeconds"),
        ({"messageRetentionDuration": 600}, "messageRetentionDuration"),
        ({"messageRetentionDuration": "ten minutes"}, "messageRetentionDuration"),
        ({"retainAckedMessages": "yes"}, "retainAckedMessages"),
        ({"labels": "x"}, "labels"),
        ({"topic": 5}, "topic"),
        ({"postrider": 5}, "postrider"),
    ],
    ids=str,
)
def test_a_field_of_the_wrong_type_is_refused_by_name(rest, pair, project, fields, name):
    topic, _ = pair
    bad(rest.put(f"/v1/{project}/subscriptions/other", {"topic": topic, **fields}), name)
    assert rest.get(f"/v1/{project}/subscriptions/other").code == 404


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"{]", b"\xff\xfe", b'{"messages": [' + b"[" * 100_000, b'{"a": 1e999}', b"nul"],
    ids=lambda raw: str(raw[:12]),
)
def test_rubbish_is_refused(rest, pair, raw):
    topic, _ = pair
    bad(rest.call("POST", f"/v1/{topic}:publish", raw=raw))


@pytest.mark.parametrize("query", ["pageToken=rubbish", "pageSize=x", "pageSize=-1", "pageTocken=x"])
def test_a_bad_query_is_refused_by_name(rest, project, query):
    bad(rest.get(f"/v1/{project}/topics?{query}"), query.split("=")[0])


def test_a_name_in_the_body_that_disagrees_with_the_path_is_refused(rest, pair, project):
    topic, _ = pair
    bad(rest.put(f"/v1/{project}/topics/one", {"name": f"{project}/topics/two"}), "name")


def test_both_kinds_of_base64_are_read(rest, pair):
    topic, subscription = pair
    messages = [{"data": "-_-_"}, {"data": "+/+/"}, {"data": "eA"}]
    rest.ok("POST", f"/v1/{topic}:publish", {"messages": messages})
    received = sorted(datas(rest.pull_exactly(subscription, 3)))
    assert received == sorted([b"\xfb\xff\xbf", b"\xfb\xff\xbf", b"x"])


def test_snake_case_is_read_too(rest, pair, project):
    """JSON of protocol buffers may carry the original field names."""
    topic, _ = pair
    made = rest.subscription(f"{project}/subscriptions/snake", topic, ack_deadline_seconds=44)
    assert made["ackDeadlineSeconds"] == 44


def test_answers_show_the_postrider_object(rest, pair, project):
    topic, subscription = pair
    shown = rest.ok("GET", f"/v1/{subscription}")
    assert shown["postrider"]["fifo"] is False
    assert shown["postrider"]["paused"] is False
    assert shown["fifo_mode"] is False
    name = f"{project}/subscriptions/described"
    extra = {"description": "who is billed", "metadata": {"owner": "billing"}}
    made = rest.subscription(name, topic, postrider=extra)
    assert made["postrider"]["description"] == "who is billed"
    assert made["postrider"]["metadata"] == {"owner": "billing"}
    listed = rest.ok("GET", f"/v1/{project}/subscriptions")["subscriptions"]
    assert made in listed


def test_a_gRPC_update_keeps_the_postrider_object(rest, grpc_clients):
    topic = grpc_clients.topic()
    name = grpc_clients.subscription_name()
    rest.subscription(name, topic, postrider={"description": "kept"})
    grpc_clients.subscriber.update_subscription(
        request={
            "subscription": {"name": name, "ack_deadline_seconds": 77},
            "update_mask": {"paths": ["ack_deadline_seconds"]},
        }
    )
    shown = rest.ok("GET", f"/v1/{name}")
    assert shown["ackDeadlineSeconds"] == 77
    assert shown["postrider"]["description"] == "kept"


def test_rest_and_grpc_see_the_same(rest, grpc_clients):
    topic, subscription = grpc_clients.pair()
    rest.publish(topic, "by rest")
    grpc_clients.publish(topic, b"by grpc")
    received = grpc_clients.pull_exactly(subscription, 2)
    assert sorted(one.message.data for one in received) == [b"by grpc", b"by rest"]
    rest.ok(
        "POST", f"/v1/{subscription}:acknowledge", {"ackIds": [one.ack_id for one in received]}
    )
    assert grpc_clients.pull_now(subscription) == []


def test_the_front_page_and_health(rest):
    assert rest.get("/").code == 200
    assert rest.get("/healthz").code == 200
    assert rest.get("/readyz").code == 200
