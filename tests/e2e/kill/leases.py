"""One delivery as the server counted it, and what its consumer did with it.

An ack id names the lease it stands for, and a subscription numbers its leases in the order in which
it gives them out. So deliveries of several streams can be put into the server's order afterwards,
whatever order their answers were read in.
"""

import base64
import struct


class Lease:
    """Times are `time.monotonic()`; `None` = it did not happen, or nobody knows."""

    __slots__ = (
        "number", "id", "key", "consumer", "life", "began", "attempt",
        "ack_asked", "ack_answered", "nack_asked", "nack_answered", "is_void",
    )

    def __init__(self, number, id, key="", consumer=None, life=1, began=0.0, attempt=0):
        self.number = number
        self.id = id
        self.key = key
        self.consumer = consumer
        self.life = life
        # Not given out before this time.
        self.began = began
        self.attempt = attempt
        self.ack_asked = None
        self.ack_answered = None
        self.nack_asked = None
        self.nack_answered = None
        # A record before it in its lane came back since: its ack counts no more.
        self.is_void = False

    def __repr__(self):
        return f"{self.id} (lease {self.number})"


def parts(ack_id):
    """The record's offset, the epoch and the number of the lease that an ack id names."""
    _, offset, epoch, number, _ = struct.unpack(">QQQQI", base64.urlsafe_b64decode(ack_id))
    return offset, epoch, number
