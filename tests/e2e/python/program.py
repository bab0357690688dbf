"""Starts, stops and kills the built `postrider` program for the end-to-end tests."""

import os
import pathlib
import queue
import re
import signal
import subprocess
import threading

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = os.environ.get("E2E_PROGRAM", str(ROOT / "target/debug/postrider"))
START_SECONDS_MAX = 30
STOP_SECONDS_MAX = 15

# Small segments, so that the log rolls and is recycled while the tests run.
CONFIG = """
[storage]
wal_segment = "16MiB"
wal_max = "32MiB"
"""


class Server:
    """One data folder and the process that serves it; the port is kept over restarts."""

    def __init__(self, folder, config=CONFIG, args=(), env=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.data = self.folder / "data"
        self.config = self.folder / "postrider.toml"
        self.config.write_text(config)
        self.log = self.folder / "server.log"
        self.args = list(args)
        self.env = env or {}
        self.port = 0
        self.process = None
        self.screen = []

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    @property
    def url(self):
        return f"http://{self.address}"

    def command(self):
        return [
            PROGRAM, "serve",
            "--listen", self.address,
            "--data-dir", str(self.data),
            "--config", str(self.config),
            *self.args,
        ]

    def start(self):
        """Starts the process and returns when it says where it listens."""
        self.spawn()
        self.wait_listening()
        return self

    def spawn(self):
        """Starts the process without waiting for it to listen."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **self.env},
            )
        self.screen = []
        self.lines = queue.SimpleQueue()
        threading.Thread(
            target=read_lines, args=(self.process.stdout, self.lines), daemon=True
        ).start()
        return self

    def wait_listening(self):
        while True:
            try:
                line = self.lines.get(timeout=START_SECONDS_MAX)
            except queue.Empty:
                self.kill()
                raise AssertionError(f"server did not start in time:\n{self.tail()}") from None
            if line is None:
                code = self.process.wait()
                raise AssertionError(f"server ended with {code} while starting:\n{self.tail()}")
            self.screen.append(line)
            found = re.match(r"^Listening\s+(\S+)", line)
            if found:
                self.port = int(found.group(1).rsplit(":", 1)[1])
                return

    def kill(self):
        """kill -9, and waits until the process is gone."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def terminate(self):
        """SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=STOP_SECONDS_MAX)

    def restart(self, how="term"):
        if how == "kill":
            self.kill()
        else:
            assert self.terminate() == 0, self.tail()
        return self.start()

    def stop(self):
        """Ends the process whatever state it is in."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.kill()

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def tail(self):
        """The last lines of the server's log, for failure messages."""
        if not self.log.exists():
            return ""
        return self.log.read_text(errors="replace")[-4000:]


def read_lines(pipe, lines):
    for line in pipe:
        lines.put(line.rstrip("\n"))
    lines.put(None)


def run(*args, env=None, stdin=None, timeout=20):
    """Runs the program to its end. What `env` has as None is not in its environment."""
    env = {**os.environ, **(env or {})}
    return subprocess.run(
        [PROGRAM, *map(str, args)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        env={name: value for name, value in env.items() if value is not None},
    )
