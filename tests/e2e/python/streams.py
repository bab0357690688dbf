"""A bare StreamingPull on the generated client, with its requests sent one by one."""

import contextlib
import queue
import threading

from google.pubsub_v1.types import StreamingPullRequest

WAIT_SECONDS = 30
END = object()


class Stream:
    """One open stream; received messages are queued by a reader thread."""

    def __init__(self, clients, subscription, deadline=10, **fields):
        self.outgoing = queue.SimpleQueue()
        self.incoming = queue.SimpleQueue()
        # What the stream says besides messages, and the properties it told last.
        self.confirmations = queue.SimpleQueue()
        self.properties = None
        self.send(subscription=subscription, stream_ack_deadline_seconds=deadline, **fields)
        self.responses = clients.subscriber.streaming_pull(
            requests=iter(self.outgoing.get, END), retry=None, timeout=None
        )
        self.error = None
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        try:
            for response in self.responses:
                self.properties = response.subscription_properties
                if "acknowledge_confirmation" in response:
                    self.confirmations.put(("ack", response.acknowledge_confirmation))
                if "modify_ack_deadline_confirmation" in response:
                    self.confirmations.put(("modify", response.modify_ack_deadline_confirmation))
                for received in response.received_messages:
                    self.incoming.put(received)
        except Exception as error:  # The test looks at it.
            self.error = error
        self.incoming.put(END)

    def send(self, **fields):
        self.outgoing.put(StreamingPullRequest(**fields))

    def take(self, count):
        """The next `count` messages; waits for them."""
        taken = []
        for _ in range(count):
            one = self.incoming.get(timeout=WAIT_SECONDS)
            assert one is not END, f"the stream ended: {self.error}"
            taken.append(one)
        return taken

    def confirmed(self, kind):
        """The next confirmation, which must be of this kind: the ids that counted, and not."""
        got, confirmation = self.confirmations.get(timeout=WAIT_SECONDS)
        assert got == kind, f"{got}: {confirmation}"
        return set(confirmation.ack_ids), set(confirmation.invalid_ack_ids)

    def waiting(self):
        """How many messages have come and were not taken."""
        return self.incoming.qsize()

    def nack(self, received):
        self.modify(received, 0)

    def ack(self, received):
        self.send(ack_ids=[one.ack_id for one in received])

    def modify(self, received, seconds):
        self.send(
            modify_deadline_ack_ids=[one.ack_id for one in received],
            modify_deadline_seconds=[seconds] * len(received),
        )

    def end(self):
        """Waits for the server to end the stream; the error it ended with, if any."""
        while self.incoming.get(timeout=WAIT_SECONDS) is not END:
            pass
        return self.error

    def close(self):
        self.outgoing.put(END)
        self.responses.cancel()
        self.reader.join(timeout=WAIT_SECONDS)


@contextlib.contextmanager
def opened(clients, subscription, **fields):
    """A stream for the time of a block."""
    stream = Stream(clients, subscription, **fields)
    try:
        yield stream
    finally:
        stream.close()
