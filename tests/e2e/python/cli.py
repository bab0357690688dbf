"""The command line of the built program against one server, in one project."""

import json
import os
import subprocess
import threading

import program


class Cli:
    """Runs commands that ask a server."""

    def __init__(self, server, project):
        self.server = server
        self.project = project

    @property
    def env(self):
        return {"POSTRIDER_SERVER": self.server.url, "POSTRIDER_PROJECT": self.project}

    def run(self, *words, stdin=None, timeout=60, without=()):
        """Runs a command to its end, whatever that is."""
        env = {**self.env, **dict.fromkeys(without)}
        return program.run(*words, env=env, stdin=stdin, timeout=timeout)

    def ok(self, *words, stdin=None, timeout=60):
        """What a command prints that must succeed."""
        told = self.run(*words, stdin=stdin, timeout=timeout)
        assert told.returncode == 0, f"{words}: {told.returncode}\n{told.stdout}\n{told.stderr}"
        return told.stdout

    def json(self, *words, stdin=None, timeout=60):
        """The one JSON value that a command prints."""
        return json.loads(self.ok(*words, "--json", stdin=stdin, timeout=timeout))

    def fails(self, code, *words, stdin=None):
        """What a command says that must end with this exit code."""
        told = self.run(*words, stdin=stdin)
        assert told.returncode == code, f"{words}: {told.returncode}\n{told.stdout}\n{told.stderr}"
        assert told.stderr.startswith("postrider: ") or code == 2, told.stderr
        return told.stderr

    def start(self, *words):
        """Starts a command that goes on."""
        return Running([program.PROGRAM, *map(str, words)], {**os.environ, **self.env})

    def name(self, collection, id):
        return f"projects/{self.project}/{collection}/{id}"


class Running:
    """A command that goes on; its lines are read one by one."""

    def __init__(self, command, env):
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
        )

    def line(self, seconds=30):
        """The next line of its output."""
        return self.read(self.process.stdout, seconds)

    def note(self, seconds=30):
        """The next line of what it says beside its output."""
        return self.read(self.process.stderr, seconds)

    def read(self, stream, seconds):
        """The next line; the process is killed if none comes in time."""
        timer = threading.Timer(seconds, self.process.kill)
        timer.start()
        try:
            line = stream.readline()
        finally:
            timer.cancel()
        assert line, f"no line came: {self.process.wait()} {self.process.stderr.read()}"
        return line.rstrip("\n")

    def wait(self, seconds=30):
        """The exit code."""
        return self.process.wait(timeout=seconds)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()
