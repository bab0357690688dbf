"""The built program under libfaketime: its wall clock is set while it runs and between lives."""

import datetime
import glob
import json
import signal
import time

import pytest

from cli import Cli
from program import CONFIG, Server
from rest import Rest, datas
from waiting import until

TOPIC = "projects/clock/topics/orders"
SUBSCRIPTION = "projects/clock/subscriptions/billing"
UNUSED = "projects/clock/subscriptions/unused"
LIBRARIES = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")

ALERTS = '\n[alerts]\ninterval = "1s"\n'


class Clock:
    """The wall clock of one server. The monotonic one is the machine's."""

    def __init__(self, folder):
        self.file = folder / "clock"
        self.set("+0")

    def set(self, offset):
        # At once, so that nobody reads half of it.
        new = self.file.with_suffix(".new")
        new.write_text(offset + "\n")
        new.rename(self.file)

    @property
    def env(self):
        assert LIBRARIES, "libfaketime is not installed: cargo xtask test installs it"
        return {
            "LD_PRELOAD": LIBRARIES[0],
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }


@pytest.fixture
def clock(tmp_path):
    return Clock(tmp_path)


@pytest.fixture
def server(tmp_path, clock):
    server = Server(tmp_path, config=CONFIG + ALERTS, env=clock.env).start()
    rest = Rest(server)
    rest.topic(TOPIC)
    rest.subscription(SUBSCRIPTION, TOPIC)
    rest.subscription(UNUSED, TOPIC)
    yield server
    server.stop()
    assert "panicked" not in server.log.read_text(errors="replace"), server.tail()


def publish(rest, *texts):
    return rest.publish(TOPIC, *texts)


def pull(rest):
    """What is there now, as texts and ack ids."""
    received = rest.pull(SUBSCRIPTION, wait=False)
    return sorted(data.decode() for data in datas(received)), [one["ackId"] for one in received]


def give_back(rest, ids):
    body = {"ackIds": ids, "ackDeadlineSeconds": 0}
    rest.ok("POST", f"/v1/{SUBSCRIPTION}:modifyAckDeadline", body)


def ready(rest):
    answer = rest.get("/readyz")
    assert answer.code == 200
    return answer.text


def test_a_jump_forward_loses_nothing_is_said_everywhere_and_ends_when_put_right(server, clock):
    rest, cli = Rest(server), Cli(server, "clock")
    publish(rest, "one", "two")
    assert ready(rest) == "ready\n"
    assert cli.json("clock")["suspended"] is False
    clock.set("+8d")
    texts, ids = pull(rest)
    assert texts == ["one", "two"], "eight days later they would be too old"
    give_back(rest, ids)
    assert "suspended" in ready(rest)
    status = rest.get("/status").json
    assert [one["code"] for one in status["degraded"]] == ["clock_jumped"]
    assert "postrider_clock_ahead_seconds 691" in rest.get("/metrics").text
    fired = lambda: [one["rule"] for one in rest.get("/alerts").json["alerts"]]
    until(lambda: "clock_jumped" in fired())
    assert "8 d 0 h ahead" in cli.ok("clock")
    clock.set("+0")
    until(lambda: ready(rest) == "ready\n")
    assert pull(rest)[0] == ["one", "two"]


def test_a_start_with_a_clock_far_ahead_expires_nothing_until_it_is_confirmed(server, clock):
    publish(Rest(server), "one")
    assert server.terminate() == 0
    clock.set("+40d")
    server.start()
    rest, cli = Rest(server), Cli(server, "clock")
    assert rest.get(f"/v1/{UNUSED}").code == 200
    assert pull(rest)[0] == ["one"]
    shown = cli.json("clock")
    assert shown["suspended"] is True
    assert shown["aheadSeconds"] // 86_400 in (39, 40)
    assert shown["expiringSubscriptions"] == 1, "the other one was just used"
    server.restart("kill")
    rest = Rest(server)
    assert cli.json("clock")["suspended"] is True, "a restart believes nothing"
    assert "resume" in cli.ok("clock", "confirm")
    until(lambda: rest.get(f"/v1/{UNUSED}").code == 404)
    assert "nothing to confirm" in cli.ok("clock", "confirm")
    assert ready(rest) == "ready\n"
    acts = [json.loads(line) for line in (server.data / "audit.jsonl").read_text().splitlines()]
    assert [act["act"] for act in acts if act.get("resource") == "clock"] == ["confirm clock"]


def test_ids_grow_and_leases_last_though_the_clock_goes_back_and_forth(server, clock):
    rest = Rest(server)
    ids, texts = [], []
    for number, offset in enumerate(["+0", "-1h", "-365d", "+365d", "-365d", "+0"]):
        clock.set(offset)
        texts.append(str(number))
        ids += publish(rest, str(number))
        assert ids == sorted(set(ids)), offset
        got, leases = pull(rest)
        assert got == texts, offset
        assert pull(rest)[0] == [], "their leases have just begun"
        give_back(rest, leases)
    rest.ok("DELETE", f"/v1/{TOPIC}")
    clock.set("-365d")
    rest.topic(TOPIC)
    assert publish(rest, "again")[0] > ids[-1], "another life of the name"


def test_a_lease_ends_in_its_time_though_the_clock_stands_still_and_the_process_pauses(
    server, clock
):
    rest = Rest(server)
    clock.set(datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S"))
    publish(rest, "one")
    assert pull(rest)[0] == ["one"]
    began = time.monotonic()
    server.process.send_signal(signal.SIGSTOP)
    # It shall be stopped for that long: nothing is waited for.
    time.sleep(3)
    server.process.send_signal(signal.SIGCONT)
    until(lambda: pull(rest)[0] == ["one"], seconds=30)
    assert time.monotonic() - began > 9, "not before its ten seconds"
    clock.set("+0")
    assert ready(rest) == "ready\n"
