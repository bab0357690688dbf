"""A gateway: registers live subscriptions and opens its stream, over plain HTTP."""

import http.client
import json

SUBSCRIPTIONS = "/internal/v1/subscriptions"


class Stream:
    """A gateway's stream as Server-Sent Events."""

    def __init__(self, server, gateway, query="", last=None):
        self.connection = http.client.HTTPConnection(server.address, timeout=30)
        headers = {} if last is None else {"last-event-id": str(last)}
        path = f"/internal/v1/gateways/{gateway}/stream{query}"
        self.connection.request("GET", path, headers=headers)
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.read()
        assert self.response.headers["content-type"] == "text/event-stream"

    def next(self):
        """The next frame that is no heartbeat; None at the end of the stream."""
        while line := self.response.readline().decode():
            if line.startswith("data: "):
                frame = json.loads(line.removeprefix("data: "))
                if frame["type"] != "heartbeat":
                    return frame
        return None

    def close(self):
        self.response.close()
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def registration(gateway, id, **more):
    body = {"gatewayId": gateway, "subscriptionId": id, "tenant": "blue", "collection": "rooms/1"}
    return {**body, **more}


def register(rest, gateway, id, **more):
    answer = rest.post(SUBSCRIPTIONS, registration(gateway, id, **more))
    assert answer.code == 201, answer
    return answer.json
