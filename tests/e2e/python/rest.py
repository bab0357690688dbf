"""A bare REST caller: what curl would send, without any client library in between."""

import base64
import http.client
import json


class Answer:
    """Status code, headers and parsed body of one answer."""

    def __init__(self, code, headers, text):
        self.code = code
        self.headers = headers
        self.text = text

    @property
    def json(self):
        return json.loads(self.text)

    @property
    def status(self):
        return self.json["error"]["status"]

    @property
    def message(self):
        return self.json["error"]["message"]

    def __repr__(self):
        return f"{self.code} {self.text}"


class Rest:
    """Calls `/v1/...` of one server; a new connection for every call."""

    def __init__(self, server):
        self.server = server

    def call(self, verb, path, body=None, raw=None, headers=None, timeout=30):
        if raw is None and body is not None:
            raw = json.dumps(body).encode()
        connection = http.client.HTTPConnection(self.server.address, timeout=timeout)
        try:
            connection.request(
                verb, path, body=raw, headers={"content-type": "application/json", **(headers or {})}
            )
            response = connection.getresponse()
            text = response.read().decode()
            return Answer(response.status, dict(response.getheaders()), text)
        finally:
            connection.close()

    def get(self, path):
        return self.call("GET", path)

    def put(self, path, body):
        return self.call("PUT", path, body)

    def post(self, path, body):
        return self.call("POST", path, body)

    def patch(self, path, body):
        return self.call("PATCH", path, body)

    def delete(self, path):
        return self.call("DELETE", path)

    def ok(self, verb, path, body=None):
        """The parsed body of a call that must succeed."""
        answer = self.call(verb, path, body)
        assert answer.code == 200, f"{verb} {path}: {answer}"
        return answer.json

    def topic(self, name):
        return self.ok("PUT", f"/v1/{name}", {})

    def subscription(self, name, topic, **fields):
        return self.ok("PUT", f"/v1/{name}", {"topic": topic, **fields})

    def publish(self, topic, *datas):
        messages = [{"data": encode(data)} for data in datas]
        answer = self.ok("POST", f"/v1/{topic}:publish", {"messages": messages})
        return [int(id) for id in answer["messageIds"]]

    def pull(self, subscription, count=1000, wait=True):
        """One pull; waits for a message unless told otherwise."""
        body = {"maxMessages": count, "returnImmediately": not wait}
        answer = self.ok("POST", f"/v1/{subscription}:pull", body)
        return answer.get("receivedMessages", [])

    def pull_exactly(self, subscription, count):
        """Pulls until `count` messages have come, each a different one."""
        got = []
        while len(got) < count:
            got += self.pull(subscription, count - len(got))
        ids = [received["message"]["messageId"] for received in got]
        assert len(set(ids)) == count, f"repeated within one lease: {ids}"
        return got

    def ack(self, subscription, received):
        ids = [one["ackId"] for one in received]
        self.ok("POST", f"/v1/{subscription}:acknowledge", {"ackIds": ids})

    def cursor(self, subscription):
        return self.ok("GET", f"/v1/{subscription}/cursor")


def encode(data):
    return base64.b64encode(data if isinstance(data, bytes) else data.encode()).decode()


def datas(received):
    return [base64.b64decode(one["message"].get("data", "")) for one in received]


def ids(received):
    return [int(one["message"]["messageId"]) for one in received]
