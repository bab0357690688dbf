"""The command line against a server that knows Google's API and nothing of ours."""

import http.server
import json
import threading

import pytest

from cli import Cli

TOPIC = "projects/p/topics/orders"
SUBSCRIPTION = "projects/p/subscriptions/billing"

# What such a server answers: path → body.
KNOWN = {
    f"/v1/{TOPIC}": {"name": TOPIC},
    f"/v1/{TOPIC}:publish": {"messageIds": ["7"]},
    f"/v1/{TOPIC}/subscriptions": {"subscriptions": [SUBSCRIPTION]},
    "/v1/projects/p/topics": {"topics": [{"name": TOPIC}]},
    f"/v1/{SUBSCRIPTION}": {"name": SUBSCRIPTION, "topic": TOPIC, "ackDeadlineSeconds": 10},
    "/v1/projects/p/subscriptions": {"subscriptions": [{"name": SUBSCRIPTION, "topic": TOPIC}]},
    f"/v1/{SUBSCRIPTION}:pull": {
        "receivedMessages": [{"ackId": "a", "message": {"messageId": "7", "data": "eA=="}}]
    },
    f"/v1/{SUBSCRIPTION}:acknowledge": {},
    f"/v1/{SUBSCRIPTION}:seek": {},
}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers what is known and notes what was asked."""

    def answer(self):
        length = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        path = self.path.split("?")[0]
        self.server.asked.append((self.command, path, body))
        found = KNOWN.get(path)
        text = json.dumps(found).encode() if found is not None else b"Not Found"
        self.send_response(200 if found is not None else 404)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = answer

    def log_message(self, *_):
        pass


class Elsewhere:
    def __init__(self):
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.asked = []
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.http.server_port}"


@pytest.fixture
def elsewhere():
    elsewhere = Elsewhere()
    yield elsewhere
    elsewhere.http.shutdown()
    elsewhere.http.server_close()


@pytest.fixture
def cli(elsewhere):
    return Cli(elsewhere, "p")


def test_what_google_has_works_and_nothing_of_ours_is_sent(cli, elsewhere):
    cli.ok("topic", "create", "orders")
    cli.ok("topic", "list")
    cli.ok("topic", "describe", "orders")
    cli.ok("subscription", "create", "billing", "--topic", "orders", "--ack-deadline", "20s")
    cli.ok("subscription", "update", "billing", "--ack-deadline", "30s")
    cli.ok("subscription", "list")
    assert cli.ok("publish", "orders", "x") == "7\n"
    assert cli.ok("pull", "billing", "--ack", "--data", "--max", "1") == "x\n"
    cli.ok("seek", "billing", "--latest")
    cli.ok("subscription", "delete", "billing")
    cli.ok("topic", "delete", "orders")
    for verb, path, body in elsewhere.http.asked:
        assert path in KNOWN, f"{verb} {path}"
        assert "postrider" not in json.dumps(body), f"{verb} {path} {body}"


def test_a_subscription_is_described_without_what_only_we_have(cli):
    shown = cli.json("subscription", "describe", "billing")
    assert shown["cursor"] is None
    assert "Ack deadline     10s" in cli.ok("subscription", "describe", "billing")


@pytest.mark.parametrize(
    "words, what",
    [
        (["lane", "list", "billing"], "lanes"),
        (["lane", "skip", "billing", "--key", ""], "lanes"),
        (["attempts", "billing"], "attempts"),
        (["tail", "orders"], "messages"),
        (["dead-letter", "list", "--subscription", "billing"], "dead letters"),
        (["dead-letter", "show", "7", "--topic", "orders"], "dead letters"),
        (["dead-letter", "replay", "--topic", "orders", "--all"], "dead letters"),
        (["dead-letter", "replays"], "dead letters"),
        (["alerts"], "alerts"),
        (["lint"], "lint"),
        (["top", "--once"], "figures"),
    ],
    ids=lambda value: "-".join(value[:2]) if isinstance(value, list) else "",
)
def test_what_only_we_have_is_explained(cli, words, what):
    said = cli.fails(1, *words)
    assert f"this server does not know {what}; is it Postrider?" in said


def test_a_resource_that_is_missing_is_told_from_a_path_that_is(cli):
    said = cli.fails(3, "lane", "list", "nobody")
    assert "is it Postrider" not in said
