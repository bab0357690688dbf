"""A puller whose process is stopped: it keeps nothing from others, and costs no memory."""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import time

from streams import Stream

# Takes messages with the official client, says so, and acks none of them.
PULLER = """
import sys, threading
from google.cloud import pubsub_v1
client = pubsub_v1.SubscriberClient()
flow = pubsub_v1.types.FlowControl(max_messages=100, max_duration_per_lease_extension=10)
def take(message):
    print(message.message_id, flush=True)
client.subscribe(sys.argv[1], callback=take, flow_control=flow)
threading.Event().wait()
"""

HELD_MAX = 100
MESSAGES = 3_000
WITHIN_SECONDS = 120


@contextlib.contextmanager
def puller(server, subscription):
    env = {**os.environ, "PUBSUB_EMULATOR_HOST": server.address}
    process = subprocess.Popen(
        [sys.executable, "-c", PULLER, subscription], stdout=subprocess.PIPE, text=True, env=env
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def resident_bytes(server):
    with open(f"/proc/{server.process.pid}/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_stopped_puller_keeps_nothing_from_others(own_server, connect):
    clients = connect()
    topic, subscription = clients.pair()
    with puller(own_server, subscription) as stopped:
        clients.publish(topic, b"first")
        assert stopped.stdout.readline(), "the puller does not work"
        stopped.send_signal(signal.SIGSTOP)
        other = Stream(clients, subscription, deadline=600)
        seen = set()
        until = time.monotonic() + WITHIN_SECONDS
        before = resident_bytes(own_server)
        for start in range(0, MESSAGES, 100):
            clients.publish(topic, *(b"%d" % n + b"x" * 2_000 for n in range(start, start + 100)))
        while len(seen) < MESSAGES - HELD_MAX and time.monotonic() < until:
            taken = other.take(1)
            other.ack(taken)
            seen.update(one.message.message_id for one in taken)
        assert len(seen) >= MESSAGES - HELD_MAX, f"only {len(seen)} came to who reads"
        grown = resident_bytes(own_server) - before
        assert grown < 96 << 20, f"the server grew by {grown >> 20} MiB"
        # Its leases end with their deadline, and what it held comes too. While its window is open
        # it may be given some of them again, for another lease.
        while len(seen) < MESSAGES and time.monotonic() < until:
            with contextlib.suppress(queue.Empty):
                taken = other.take(1)
                other.ack(taken)
                seen.update(one.message.message_id for one in taken)
        assert len(seen) >= MESSAGES, "what the stopped one held did not come back"
        other.close()
