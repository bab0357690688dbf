"""The client threads of one life of the server. What breaks down is kept, to be told."""

import random
import threading
from http.client import HTTPException

import grpc

JOIN_SECONDS_MAX = 60
EXPECTED_AT_AN_END = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNKNOWN,
}
# A call on a channel that was closed, or to a server that is gone.
CLOSED = (ValueError, OSError, HTTPException, AssertionError)


class Threads:
    """Publishers, which are told to stop, and consumers, which find their connection gone."""

    def __init__(self, api, seed):
        self.api = api
        self.random = random.Random(seed)
        self.publishing = threading.Event()
        self.publishing.set()
        self.running = threading.Event()
        self.running.set()
        # Set just before the server is killed or asked to end: from then on calls may fail.
        self.is_ending = False
        self.publishers = []
        self.consumers = []
        self.breakdowns = []

    def start(self, into, target, *args):
        """Runs `target` in a thread, with choices of its own."""
        source = random.Random(self.random.random())

        def guarded():
            try:
                target(source, *args)
            except grpc.RpcError as error:
                if not (self.is_ending and error.code() in EXPECTED_AT_AN_END):
                    self.breakdowns.append(f"{target.__name__}: {error.code()} {error.details()}")
            except CLOSED as error:
                if not self.is_ending:
                    self.breakdowns.append(f"{target.__name__}: {error!r}")

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        into.append(thread)

    def stop_publishing(self):
        self.publishing.clear()
        self.join(self.publishers)

    def end(self):
        """After the end of the server: every thread finds its connection gone."""
        self.publishing.clear()
        self.running.clear()
        self.join(self.publishers + self.consumers)
        self.api.close()

    def join(self, threads):
        for thread in threads:
            thread.join(timeout=JOIN_SECONDS_MAX)
            if thread.is_alive():
                self.breakdowns.append("a client thread did not end")
