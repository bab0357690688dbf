"""Wrong push settings: refused by name, with nothing made and nothing changed."""

import pytest
from google.protobuf import duration_pb2

from push import dead_letter, retry
from statuses import refused

ENDPOINT = "http://127.0.0.1:9/push"

URLS = {
    "no scheme": "127.0.0.1:9/push",
    "a word": "endpoint",
    "a path": "/push",
    "ftp": "ftp://127.0.0.1/push",
    "file": "file:///etc/passwd",
    "gopher": "gopher://127.0.0.1/",
    "javascript": "javascript:alert(1)",
    "no host": "http://",
    "no host but a path": "http:///push",
    "no host but a port": "http://:80/push",
    "bad port": "http://127.0.0.1:99999/push",
    "port that is no number": "http://127.0.0.1:http/push",
    "space": "http://127.0.0.1/a b",
    "line break": "http://127.0.0.1/a\r\nx-evil: 1",
    "NUL": "http://127.0.0.1/\0",
    "bad IPv6": "http://[::1/push",
    "bad host": "http://exa mple/push",
    "far too long": "http://127.0.0.1/" + "a" * 100_000,
}


@pytest.mark.parametrize("what", URLS)
def test_a_bad_endpoint_is_refused_by_every_call(clients, what):
    topic, name = clients.pair()
    config = {"push_endpoint": URLS[what]}
    with refused("INVALID_ARGUMENT") as raised:
        clients.subscription(topic, push_config=config)
    told = str(raised.value)
    assert "endpoint" in told.lower(), told
    with refused("INVALID_ARGUMENT"):
        clients.subscriber.modify_push_config(
            request={"subscription": name, "push_config": config}
        )
    with refused("INVALID_ARGUMENT"):
        clients.update(name, ["push_config"], push_config=config)
    assert list(clients.publisher.list_topic_subscriptions(request={"topic": topic})) == [name]
    assert not clients.get(name).push_config.push_endpoint


GOOD_URLS = [
    "http://127.0.0.1/",
    "https://example.com",
    "https://example.com:8443/a/b?c=d&e=%20",
    "http://[::1]:8080/push",
    "HTTP://EXAMPLE.COM/push",
    "http://user:password@example.com/push",
]


@pytest.mark.parametrize("endpoint", GOOD_URLS)
def test_a_good_endpoint_is_shown_as_it_was_given(clients, endpoint):
    topic = clients.topic()
    name = clients.subscription(topic, push_config={"push_endpoint": endpoint})
    assert clients.get(name).push_config.push_endpoint == endpoint
    clients.subscriber.delete_subscription(request={"subscription": name})


def push_config(**fields):
    return {"pushConfig": {"pushEndpoint": ENDPOINT, **fields}}


def ours(**fields):
    return {**push_config(), "postrider": fields}


PHASES = {
    "fast": {"min": "5s", "max": "5m", "retries": 30},
    "slow": {"every": "1h", "retries": 30},
}
FAST, SLOW = PHASES["fast"], PHASES["slow"]
DEAD = dead_letter("projects/p/topics/dead", 7)

# Fields, and a word the error must hold.
WRONG = {
    "timeout 0": (push_config(timeoutSeconds=0), "timeout"),
    "timeout 601": (push_config(timeoutSeconds=601), "timeout"),
    "timeout -1": (push_config(timeoutSeconds=-1), "timeout"),
    "timeout 1.5": (push_config(timeoutSeconds=1.5), "timeout"),
    "timeout in words": (push_config(timeoutSeconds="soon"), "timeout"),
    "timeout label": ({**push_config(), "labels": {"postrider-timeout-seconds": "x"}}, "timeout"),
    "timeouts that disagree": (
        {**push_config(timeoutSeconds=5), "labels": {"postrider-timeout-seconds": "6"}},
        "timeout",
    ),
    "unknown field": (push_config(pushEndpiont="x"), "pushEndpiont"),
    "two wrappers": (push_config(pubsubWrapper={}, noWrapper={}), "rapper"),
    "retry policies in both places": (
        {**push_config(retryPolicy={"minimumBackoff": "5s"}), "retryPolicy": retry(5)},
        "etryPolicy",
    ),
    "max attempts 0": (push_config(retryPolicy={"maxAttempts": 0}), "maxAttempts"),
    "max attempts 101": (push_config(retryPolicy={"maxAttempts": 101}), "maxAttempts"),
    "max attempts that disagree": (
        {**push_config(retryPolicy={"maxAttempts": 6}), "deadLetterPolicy": DEAD},
        "ttempts",
    ),
    "bounds in the wrong order": (
        push_config(retryPolicy={"minimumBackoff": "20s", "maximumBackoff": "10s"}),
        "ackoff",
    ),
    "backoff too long": (push_config(retryPolicy={"maximumBackoff": "601s"}), "ackoff"),
    "backoff in words": (push_config(retryPolicy={"minimumBackoff": "soon"}), "ackoff"),
    "negative backoff": (push_config(retryPolicy={"minBackoffSeconds": -1}), "ackoff"),
    "unknown retry field": (push_config(retryPolicy={"attempts": 5}), "attempts"),
    "token without an email": (push_config(oidcToken={"audience": "a"}), "mail"),
    "empty ladder": (ours(backoff=[]), "backoff"),
    "ladder without units": (ours(backoff=["5"]), "backoff"),
    "ladder of numbers": (ours(backoff=[5]), "backoff"),
    "ladder of words": (ours(backoff=["soon"]), "backoff"),
    "ladder with a negative step": (ours(backoff=["-5s"]), "backoff"),
    "ladder that is a word": (ours(backoff="5s"), "backoff"),
    "endless ladder": (ours(backoff=["5s"] * 10_000), "backoff"),
    "step that never ends": (ours(backoff=["99999999999h"]), "backoff"),
    "phases with an unknown field": (ours(backoff={**PHASES, "medium": {}}), "medium"),
    "phases without bounds": (ours(backoff={"fast": {"retries": 3}, "slow": SLOW}), "backoff"),
    "phases in the wrong order": (
        ours(backoff={"fast": {**FAST, "min": "6m"}, "slow": SLOW}), "backoff",
    ),
    "phases with negative retries": (
        ours(backoff={"fast": {**FAST, "retries": -1}, "slow": SLOW}), "backoff",
    ),
    "phases and attempts that disagree": (ours(backoff=PHASES, maxAttempts=7), "ttempts"),
    "phases and a dead letter policy that disagree": (
        {**ours(backoff=PHASES), "deadLetterPolicy": DEAD}, "ttempts",
    ),
    "ladder and policy": ({**ours(backoff=["5s"]), "retryPolicy": retry(5)}, "backoff"),
    "ladder and the source's policy": (
        {**push_config(retryPolicy={"maxAttempts": 3}), "postrider": {"backoff": ["5s"]}},
        "backoff",
    ),
    "header with a line break": (ours(headers={"x-a": "b\r\nx-evil: 1"}), "header"),
    "header with a bare line feed": (ours(headers={"x-a": "b\nc"}), "header"),
    "header with a NUL": (ours(headers={"x-a": "b\0c"}), "header"),
    "header name with a line break": (ours(headers={"x-a\r\nx-evil": "1"}), "header"),
    "header name with a space": (ours(headers={"x a": "1"}), "header"),
    "header name with a colon": (ours(headers={"x:a": "1"}), "header"),
    "empty header name": (ours(headers={"": "1"}), "header"),
    "header of a number": (ours(headers={"x-a": 1}), "header"),
    "headers as a list": (ours(headers=["x-a"]), "header"),
    "host": (ours(headers={"Host": "evil.example"}), "ost"),
    "content-length": (ours(headers={"content-length": "1"}), "ontent-"),
    "transfer-encoding": (ours(headers={"Transfer-Encoding": "chunked"}), "ransfer-"),
    "connection": (ours(headers={"Connection": "close"}), "onnection"),
    "one of our headers": (ours(headers={"postrider-sequence": "1"}), "header"),
    "a signature header": (ours(headers={"webhook-signature": "v1,x"}), "header"),
    "huge headers": (ours(headers={"x-a": "b" * 1_000_000}), "header"),
    "method GET": (ours(method="GET"), "method"),
    "no such method": (ours(method="teleport"), "method"),
    "method with a line break": (ours(method="POST\r\n"), "method"),
    "batch 0": (ours(batch={"messages": 0}), "batch"),
    "batch of very many": (ours(batch={"messages": 10_000_000}), "batch"),
    "batch without bytes": (ours(batch={"bytes": 0}), "batch"),
    "batch that lingers for ever": (ours(batch={"linger": "10h"}), "linger"),
    "batch with a bad linger": (ours(batch={"linger": "soon"}), "linger"),
    "batch with an unknown field": (ours(batch={"size": 5}), "size"),
    "batch unwrapped": (
        {**push_config(noWrapper={}), "postrider": {"batch": {"messages": 5}}}, "batch",
    ),
    "rate 0": (ours(rateLimit=0), "rateLimit"),
    "rate 100001": (ours(rateLimit=100_001), "rateLimit"),
    "rate in words": (ours(rateLimit="fast"), "rateLimit"),
    "signing as a word": (ours(signing="yes"), "signing"),
    "signing with an unknown field": (ours(signing={"key": "x"}), "key"),
    "exactly once": ({**push_config(), "enableExactlyOnceDelivery": True}, "xactly"),
    "unknown setting": (ours(backof=["5s"]), "backof"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_setting_is_refused_and_nothing_is_made(rest, grpc_clients, what):
    fields, words = WRONG[what]
    topic, name = grpc_clients.topic(), grpc_clients.subscription_name()
    answer = rest.put(f"/v1/{name}", {"topic": topic, **fields})
    assert (answer.code, answer.status) == (400, "INVALID_ARGUMENT"), answer
    assert words in answer.message, answer.message
    # What is not known at all would be refused whatever it holds.
    assert ("unknown field" in answer.message) == ("unknown" in what), answer.message
    assert len(answer.message) < 4000
    assert rest.get(f"/v1/{name}").code == 404


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_update_changes_nothing(rest, grpc_clients, what):
    fields, words = WRONG[what]
    topic, name = grpc_clients.topic(), grpc_clients.subscription_name()
    before = rest.subscription(name, topic, **push_config())
    mask = ",".join(fields)
    answer = rest.patch(f"/v1/{name}", {"subscription": fields, "updateMask": mask})
    assert (answer.code, answer.status) == (400, "INVALID_ARGUMENT"), answer
    shown = rest.ok("GET", f"/v1/{name}")
    assert shown["pushConfig"] == before["pushConfig"]
    assert shown["postrider"] == before["postrider"]
    rest.delete(f"/v1/{name}")


def test_exactly_once_and_push_exclude_each_other_over_grpc_too(clients):
    topic = clients.topic()
    endpoint = {"push_endpoint": ENDPOINT}
    with refused("INVALID_ARGUMENT"):
        clients.subscription(topic, push_config=endpoint, enable_exactly_once_delivery=True)
    exactly = clients.subscription(topic, enable_exactly_once_delivery=True)
    with refused("INVALID_ARGUMENT", "FAILED_PRECONDITION"):
        clients.subscriber.modify_push_config(
            request={"subscription": exactly, "push_config": endpoint}
        )
    assert not clients.get(exactly).push_config.push_endpoint


def test_push_settings_are_kept_on_a_pull_subscription(push):
    """It may become a push one later, and then they count."""
    topic, name = push.clients.topic(), push.clients.subscription_name()
    settings = {"headers": {"X-Team": "blue"}, "method": "PUT", "rateLimit": 9}
    made = push.rest.subscription(name, topic, postrider=settings)
    push.made.append(name)
    for setting, value in settings.items():
        assert made["postrider"][setting] == value
    push.modify(name, pushEndpoint=push.receiver.url())
    push.publish(topic, b"x")
    (request,) = push.receiver.wait(1)
    assert (request.method, request.headers["x-team"]) == ("PUT", "blue")


def test_snake_case_is_accepted_over_rest(push):
    topic, name = push.clients.topic(), push.clients.subscription_name()
    push.rest.subscription(
        name,
        topic,
        push_config={
            "push_endpoint": push.receiver.url(),
            "timeout_seconds": 9,
            "no_wrapper": {"write_metadata": True},
            "oidc_token": {"service_account_email": "a@b.example"},
        },
    )
    push.made.append(name)
    shown = push.shown(name)["pushConfig"]
    assert shown["pushEndpoint"] == push.receiver.url()
    assert shown["timeoutSeconds"] == 9
    assert shown["noWrapper"] == {"writeMetadata": True}
    assert shown["oidcToken"]["serviceAccountEmail"] == "a@b.example"


def test_an_empty_push_config_means_pull(clients):
    topic = clients.topic()
    name = clients.subscription(topic, push_config={})
    assert not clients.get(name).push_config.push_endpoint
    clients.publish(topic, b"x")
    assert len(clients.pull_exactly(name, 1)) == 1


def test_a_bad_backoff_over_grpc(clients):
    topic = clients.topic()
    with refused("INVALID_ARGUMENT"):
        clients.subscription(
            topic,
            push_config={"push_endpoint": ENDPOINT},
            retry_policy={"minimum_backoff": duration_pb2.Duration(seconds=601)},
        )
