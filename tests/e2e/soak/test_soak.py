"""Mixed load for a short while, and the judge that long runs are judged by."""

import random

from judge import MIB, Sample, Verdict
from soak import Soak

SECONDS = 40


def samples(seconds, rss=lambda at: 100 * MIB, fds=lambda at: 50, latency=lambda at: 0.01):
    noise = random.Random(1)
    step = max(1, seconds // 500)
    return [
        Sample(at, rss(at) + noise.randrange(MIB), fds(at), [latency(at)] * 10)
        for at in range(0, seconds, step)
    ]


def test_steady_figures_are_fine():
    for seconds in (40, 8 * 3600):
        assert Verdict(samples(seconds)).faults == []


def test_what_grows_in_the_first_hour_only_is_fine():
    warming = lambda at: min(at, 3600) * 50 * 1024  # noqa: E731
    assert Verdict(samples(8 * 3600, rss=warming)).faults == []


def test_a_leak_shows():
    slow = lambda at: 100 * MIB + at * 2 * MIB // 3600  # noqa: E731
    assert "memory grows" in Verdict(samples(8 * 3600, rss=slow)).faults[0]
    fast = lambda at: 100 * MIB + at * 2 * MIB  # noqa: E731
    assert "memory grew" in Verdict(samples(40, rss=fast)).faults[0]


def test_descriptors_that_stay_open_show():
    for seconds in (40, 8 * 3600):
        leak = lambda at, seconds=seconds: 50 + at * 40 // seconds  # noqa: E731
        assert "descriptors" in Verdict(samples(seconds, fds=leak)).faults[0]


def test_a_server_that_becomes_slow_shows():
    slower = lambda at: 0.01 * (1 + at / (8 * 3600))  # noqa: E731
    assert "p99" in Verdict(samples(8 * 3600, latency=slower)).faults[0]


def test_mixed_load_leaves_nothing_behind(tmp_path):
    soak = Soak(tmp_path, SECONDS)
    try:
        verdict = soak.run(print)
    finally:
        soak.server.stop()
    print(verdict)
    assert soak.breakdowns == [], soak.server.tail()
    assert verdict.faults == [], f"{verdict}\n{soak.server.tail()}"
    assert soak.published >= 1000 and soak.receiver.taken > 0
