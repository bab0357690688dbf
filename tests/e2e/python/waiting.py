"""Waiting for what the server does in its own time: bounded, and timed where the time counts."""

import time

WAIT_SECONDS = 30


def until(condition, seconds=WAIT_SECONDS):
    """The first true answer of `condition`, which is asked again and again."""
    ends = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < ends, f"still {answer!r} after {seconds} s"
        time.sleep(0.02)
    return answer


def data(received):
    return [one.message.data for one in received]


def ids(received):
    return [one.message.message_id for one in received]


class Stopwatch:
    """Seconds since it was made, as this process and a restarted server both see them."""

    def __init__(self):
        self.started = time.time()

    def seconds(self):
        return time.time() - self.started
