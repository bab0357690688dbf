"""A thousand endpoints that accept and never answer, and a healthy one beside them."""

import pathlib
import time

from push import Pushing
from silent import Silent
from waiting import until

ENDPOINTS = 1000
MESSAGES = 100
HEALTHY_SECONDS_MAX = 0.25
MEMORY_MAX = 600 << 20


def latencies(push, topic, path, first):
    """Seconds from the publish of each message to its arrival, ascending."""
    found = []
    for n in range(first, first + MESSAGES):
        before = time.time()
        push.publish(topic, b"x")
        found.append(push.receiver.wait(n + 1, path)[n].arrived - before)
    return sorted(found)


def p99(found):
    return found[int(len(found) * 0.99) - 1]


def resident(server):
    text = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) * 1024


def test_a_thousand_silent_endpoints_do_not_slow_a_healthy_one(own_server, receiver):
    push = Pushing(own_server, receiver)
    with Silent() as silent:
        try:
            healthy, _ = push.pair("/healthy")
            alone = p99(latencies(push, healthy, "/healthy", 0))
            topic = push.clients.topic()
            for n in range(ENDPOINTS):
                push.subscribe(topic, config={"pushEndpoint": silent.url(n), "timeoutSeconds": 600})
            push.made.clear()
            push.publish(topic, *[b"x"] * 5)
            until(lambda: len(silent.accepted) >= ENDPOINTS, 60)
            beside = p99(latencies(push, healthy, "/healthy", MESSAGES))
            # On a busy machine the one alone is slow too.
            assert beside <= max(2 * alone, HEALTHY_SECONDS_MAX), (alone, beside)
            assert resident(own_server) <= MEMORY_MAX
            assert own_server.alive()
        finally:
            push.close()
