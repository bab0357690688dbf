"""What keeps its name and what is on record: webhook ids over a replay, skipped pushes, audit."""

import json

import pytest

from push import dead_letter, retry
from test_push_guard import attempt_to, pushing
from test_push_token import EMAIL, TOKEN
from waiting import until

HOOKS = {"enableMessageOrdering": True, "retryPolicy": retry(0.1)}


def letters(push, topic):
    return push.rest.ok("GET", f"/v1/{topic}/deadLetters").get("deadLetters", [])


def test_a_replayed_message_keeps_its_webhook_id(push):
    push.receiver.on("/push", *[500] * 5, 200)
    topic, dead = push.clients.topic(), push.clients.topic()
    made = push.create(
        topic, deadLetterPolicy=dead_letter(dead), retryPolicy=retry(0.1),
        postrider={"signing": {}},
    )
    (id,) = push.publish(topic, b"x")
    until(lambda: letters(push, dead))
    push.rest.ok("POST", f"/v1/{made['name']}/deadLetters:replay", {"all": True})
    came = push.receiver.wait(6)
    assert came[5].id != id, "a replay is a message of its own in the topic"
    assert {one.headers["webhook-id"] for one in came} == {id}


def test_a_skipped_push_keeps_class_status_and_error_of_its_last_attempt(push):
    push.receiver.on("/push", 503)
    topic, dead = push.clients.topic(), push.clients.topic()
    name = push.subscribe(
        topic, deadLetterPolicy=dead_letter(dead), postrider={"poison": "halt"}, **HOOKS
    )
    push.publish(topic, b"x", key="ann")
    until(lambda: any(one["state"] == "halted" for one in push.lanes(name)))
    push.act(name, "skip", "ann")
    (letter,) = until(lambda: letters(push, dead))
    assert letter["failureReason"] == "skipped", letter
    assert (letter["errorClass"], letter["lastStatus"]) == ("http_5xx", 503), letter
    assert letter["lastError"].startswith("HTTP 503"), letter
    assert letter["attempts"] == 5


def test_an_account_is_named_only_where_it_is_listed(tmp_path):
    config = "[push]\noidc_accounts = ['*@listed.example']\n"
    with pushing(tmp_path, config) as push:
        topic = push.clients.topic()
        endpoint = {"pushEndpoint": push.receiver.url("/push")}
        refused = push.refusal(topic, pushConfig={**endpoint, "oidcToken": TOKEN})
        assert (refused.code, refused.status) == (403, "PERMISSION_DENIED"), refused
        assert EMAIL in refused.message and "push.oidc_accounts" in refused.message
        assert "oidcToken.serviceAccountEmail" in refused.message, refused.message
        name = push.subscribe(topic)
        changed = push.rest.call(
            "POST",
            f"/v1/{name}:modifyPushConfig",
            {"pushConfig": {**endpoint, "oidcToken": TOKEN}},
        )
        assert changed.code == 403, changed
        listed = {"serviceAccountEmail": "pusher@listed.example"}
        push.modify(name, **endpoint, oidcToken=listed)
        push.publish(topic, b"x")
        assert push.receiver.wait(1)[0].headers["authorization"].startswith("Bearer ")


def test_an_account_that_is_no_longer_listed_gets_no_token(tmp_path):
    with pushing(tmp_path / "one") as push:
        topic, name = push.pair(config={"oidcToken": TOKEN}, retryPolicy=retry(600))
        push.server.config.write_text(
            push.server.config.read_text() + "[push]\noidc_accounts = ['a@b.example']\n"
        )
        push.restart("term")
        push.publish(topic, b"x")
        (attempt,) = push.wait_attempts(name, 1)
        assert attempt["class"] == "blocked", attempt
        assert EMAIL in attempt["error"] and "push.oidc_accounts" in attempt["error"]
        assert not push.receiver.at()


def test_the_server_does_not_push_to_itself(push):
    port = push.server.port
    for host in ("127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]"):
        attempt = attempt_to(push, f"http://{host}:{port}/v1/projects/p/topics/t:publish")
        assert attempt["class"] == "blocked", attempt
        assert "this server itself" in attempt["error"]


@pytest.mark.parametrize("host", ["169.254.1.2", "[fe80::1]", "[::ffff:169.254.1.2]"])
def test_link_local_addresses_are_refused_whatever_is_allowed(tmp_path, host):
    config = "[push]\nprivate_networks = 'allow'\nallow = ['0.0.0.0/0', '::/0']\n"
    with pushing(tmp_path, config) as push:
        attempt = attempt_to(push, f"http://{host}/push")
        assert attempt["class"] == "blocked", attempt
        assert "link-local" in attempt["error"]


def test_a_refused_endpoint_is_warned_of_when_it_is_given(tmp_path):
    env = {"POSTRIDER_PUSH_PRIVATE_NETWORKS": "refuse"}
    with pushing(tmp_path, env=env) as push:
        topic = push.clients.topic()
        for host in ("10.0.0.1", "localhost"):
            made = push.create(topic, config={"pushEndpoint": f"http://{host}:9/push"})
            (warning,) = [text for text in made["warnings"] if "will get no pushes" in text]
            assert warning.endswith("add it to push.allow"), warning
        name = made["name"]
        again = push.patch(name, "ackDeadlineSeconds", ackDeadlineSeconds=30)
        assert not again.get("warnings"), "told once"
        told = push.rest.ok(
            "POST",
            f"/v1/{name}:modifyPushConfig",
            {"pushConfig": {"pushEndpoint": "http://169.254.169.254/"}},
        )
        assert any("link-local" in text for text in told["warnings"]), told
        silent = push.create(topic, config={"pushEndpoint": "http://8.8.8.8:9/push"})
        assert not silent.get("warnings"), silent


def test_what_was_changed_by_hand_is_on_record_with_who_asked(tmp_path):
    env = {"POSTRIDER_STORAGE_BACKUP_DIR": str(tmp_path / "backups")}
    with pushing(tmp_path, env=env) as push:
        topic = push.clients.topic()
        made = push.create(topic, postrider={"signing": {}})
        name = made["name"]
        push.modify(name, pushEndpoint=push.receiver.url("/other?key=hush"))
        rotated = push.rest.ok("POST", f"/v1/{name}:rotateSecret", {})
        push.rest.ok("PUT", "/v1/backups/before", {})
        push.rest.ok("DELETE", f"/v1/{name}")
        push.made.clear()
        push.rest.ok("DELETE", f"/v1/{topic}")
        text = (push.server.data / "audit.jsonl").read_text()
        acts = [json.loads(line) for line in text.splitlines()]
        told = [(one["act"], one.get("subscription") or one.get("topic") or one.get("backup"))
                for one in acts]
        assert told == [
            ("change push", name), ("change push", name), ("rotate secret", name),
            ("backup", "backups/before"), ("delete", name), ("delete", topic),
        ]
        assert all(one["peer"].startswith("127.0.0.1:") for one in acts), acts
        assert acts[1]["details"].endswith(f"-> {push.receiver.url('/other')}"), acts[1]
        secrets = (made["postrider"]["signing"]["secret"], rotated["secret"], "hush")
        assert not any(secret in text for secret in secrets)
