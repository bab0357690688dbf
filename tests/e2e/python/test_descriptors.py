"""The limits of the process: files, sockets and threads. Everybody waits, nobody dies or spins."""

import contextlib
import http.client
import json
import os
import pathlib
import resource
import shutil
import subprocess
import time

import pytest

from program import CONFIG, PROGRAM, Server
from push import Pushing, dead_letter
from receiver import Receiver
from silent import Silent
from waiting import until

NOBODY = "65534"
AS_NOBODY = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]


class Limited(Server):
    """A server that may open so many files from its start on."""

    def __init__(self, folder, files, **kwargs):
        super().__init__(folder, **kwargs)
        self.files = files

    def command(self):
        limited = f'ulimit -n {self.files} && exec "$@"'
        return ["sh", "-c", limited, "sh", *super().command()]


@contextlib.contextmanager
def pushing(server):
    with Receiver() as receiver:
        push = Pushing(server.start(), receiver)
        try:
            yield push
        finally:
            push.close()
            server.stop()
    assert "panicked" not in server.log.read_text(errors="replace"), server.tail()


def open_files(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def threads(server):
    return len(os.listdir(f"/proc/{server.process.pid}/task"))


def cpu_seconds(server):
    fields = pathlib.Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def limit_threads(server, count):
    """Nothing = as many as before. Only its own user may do that to a process."""
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    hard = "unlimited" if hard == resource.RLIM_INFINITY else hard
    limit = f"--nproc={count or hard}:{hard}"
    subprocess.run([*AS_NOBODY, "prlimit", "--pid", str(server.process.pid), limit], check=True)


class Line:
    """One connection that is kept: calls on it need no new one."""

    def __init__(self, server):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)

    def call(self, method, path, body=None):
        self.connection.request(method, path, body=None if body is None else json.dumps(body))
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def ok(self, method, path, body=None):
        status, text = self.call(method, path, body)
        assert status == 200, (path, status, text)
        return json.loads(text) if text else {}

    def publish(self, topic, *datas):
        messages = [{"data": "eA==", "attributes": {"n": str(data)}} for data in datas]
        return self.ok("POST", f"/v1/{topic}:publish", {"messages": messages})["messageIds"]


def test_silent_endpoints_leave_the_log_its_files(tmp_path):
    """120 subscriptions that hold a connection each, as far as they may, with 128 files."""
    with Silent() as silent, pushing(Limited(tmp_path, 128, config=CONFIG)) as push:
        server, line = push.server, Line(push.server)
        topic = "projects/limited/topics/orders"
        line.ok("PUT", f"/v1/{topic}", {})
        for n in range(120):
            config = {"pushEndpoint": silent.url(n), "timeoutSeconds": 600}
            name = f"projects/limited/subscriptions/silent-{n}"
            line.ok("PUT", f"/v1/{name}", {"topic": topic, "pushConfig": config})
        for n in range(50):
            line.publish(topic, n)
        until(lambda: len(silent.accepted) >= 8)
        for n in range(200):
            line.publish(topic, n)
        assert open_files(server) < 128
        status = line.ok("GET", "/status")
        files = status["files"]
        assert files["limit"] == 128 and files["open"] < 128, files
        assert any("push.in_flight_max" in text for text in files["lowered"]), files
        assert any("limits.connections_max" in text for text in files["lowered"]), files
        assert status["status"] == "healthy", status
        log = server.log.read_text(errors="replace")
        assert "push.in_flight_max is" in log and "LimitNOFILE" in log
        assert "Too many open files" not in log
        assert server.alive()


def test_a_healthy_endpoint_is_served_beside_silent_ones_under_a_small_limit(tmp_path):
    with Silent() as silent, pushing(Limited(tmp_path, 256, config=CONFIG)) as push:
        line = Line(push.server)
        hanging, topic = "projects/limited/topics/hanging", "projects/limited/topics/well"
        for name in (hanging, topic):
            line.ok("PUT", f"/v1/{name}", {})
        config = {"pushEndpoint": push.receiver.url("/well")}
        name = "projects/limited/subscriptions/well"
        line.ok("PUT", f"/v1/{name}", {"topic": topic, "pushConfig": config})
        line.publish(topic, "first")
        push.receiver.wait(1, "/well")
        for n in range(60):
            config = {"pushEndpoint": silent.url(n), "timeoutSeconds": 600}
            name = f"projects/limited/subscriptions/silent-{n}"
            line.ok("PUT", f"/v1/{name}", {"topic": hanging, "pushConfig": config})
        line.publish(hanging, *range(10))
        until(lambda: len(silent.accepted) >= 20)
        for n in range(20):
            line.publish(topic, n)
            push.receiver.wait(n + 2, "/well")


def test_without_a_free_descriptor_accepting_and_pushing_wait(tmp_path):
    """The limit is taken away from a running server, and given back."""
    with pushing(Server(tmp_path)) as push:
        server, line = push.server, Line(push.server)
        topic, dead = "projects/p/topics/orders", "projects/p/topics/dead"
        for name in (topic, dead):
            line.ok("PUT", f"/v1/{name}", {})
        name = "projects/p/subscriptions/hooks"
        config = {"pushEndpoint": push.receiver.url("/hooks")}
        policy = dead_letter(dead)
        body = {"topic": topic, "pushConfig": config, "deadLetterPolicy": policy}
        line.ok("PUT", f"/v1/{name}", body)
        line.publish(topic, "warm")
        push.receiver.wait(1, "/hooks")
        until(lambda: line.ok("GET", f"/v1/{name}/attempts").get("attempts"))
        # Answered and settled; now the connection that is kept goes: the next push needs a new one.
        push.receiver.unplug()
        push.receiver.listen()
        pid = server.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        # The lowest numbers are all taken by what stays open.
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (8, before[1]))
        waiting = [http.client.HTTPConnection("127.0.0.1", server.port) for _ in range(20)]
        for one in waiting:
            one.request("GET", "/healthz")
        spent, began = cpu_seconds(server), time.monotonic()
        ids = [line.publish(topic, n)[0] for n in range(20)]
        until(lambda: "cannot accept" in server.log.read_text())
        until(lambda: "pushes are waiting" in server.log.read_text())
        until(lambda: time.monotonic() - began > 2)
        share = (cpu_seconds(server) - spent) / (time.monotonic() - began)
        assert share < 0.5, f"{share:.0%} of a core went into waiting"
        assert server.alive()
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        for one in waiting:
            assert one.getresponse().status == 200
        came = push.receiver.wait(21, "/hooks")
        assert sorted({one.id for one in came[1:]}) == sorted(ids)
        assert {one.json["deliveryAttempt"] for one in came} == {1}, "waiting is no attempt"
        attempts = line.ok("GET", f"/v1/{name}/attempts?pageSize=100")["attempts"]
        assert {one["class"] for one in attempts} == {"ok"}


def test_more_clients_than_files_are_turned_away_and_the_first_are_served(tmp_path):
    """256 files: the accept loop neither spins nor dies, and recovers."""
    with pushing(Limited(tmp_path, 256, config=CONFIG)) as push:
        server, line = push.server, Line(push.server)
        topic = "projects/limited/topics/orders"
        line.ok("PUT", f"/v1/{topic}", {})
        connections = []
        for _ in range(400):
            one = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
            one.connect()
            connections.append(one)
        spent, began = cpu_seconds(server), time.monotonic()
        for n in range(50):
            line.publish(topic, n)
        until(lambda: time.monotonic() - began > 1)
        share = (cpu_seconds(server) - spent) / (time.monotonic() - began)
        assert share < 0.8, f"{share:.0%} of a core"
        assert open_files(server) < 256 and server.alive()
        for one in connections:
            one.close()

        def answers():
            with contextlib.suppress(OSError, http.client.HTTPException):
                return Line(server).call("GET", "/healthz")[0] == 200

        until(answers)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run the server as a user of its own")
def test_without_a_free_thread_the_server_goes_on(tmp_path):
    """The system gives no more threads: what is in memory is served, the rest waits."""
    folder = pathlib.Path("/tmp") / f"postrider-threads-{os.getpid()}"
    folder.mkdir(mode=0o777)
    program = shutil.copy(PROGRAM, folder / "postrider")

    class Threads(Server):
        def command(self):
            words = [program, *super().command()[1:]]
            return [*AS_NOBODY, *words]

    try:
        server = Threads(folder / "server")
        os.chmod(folder, 0o777)
        os.chmod(folder / "server", 0o777)
        os.chmod(server.config, 0o666)
        with pushing(server) as push:
            line = Line(server)
            topic, name = "projects/p/topics/orders", "projects/p/subscriptions/hooks"
            line.ok("PUT", f"/v1/{topic}", {})
            config = {"pushEndpoint": push.receiver.url("/hooks")}
            line.ok("PUT", f"/v1/{name}", {"topic": topic, "pushConfig": config})
            limit_threads(server, "1")
            spent, began = cpu_seconds(server), time.monotonic()
            others = [Line(server) for _ in range(20)]
            for n, one in enumerate(others):
                one.publish(topic, n)
            push.receiver.wait(20, "/hooks")
            until(lambda: time.monotonic() - began > 2)
            share = (cpu_seconds(server) - spent) / (time.monotonic() - began)
            assert share < 0.8, f"{share:.0%} of a core"
            assert server.alive()
            limit_threads(server, "")
            assert Line(server).call("GET", "/metrics")[0] == 200
            assert threads(server) > 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
