"""Commands on a terminal of their own."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import program


class OnTerminal:
    """A command whose input and output are a terminal; what it writes is collected."""

    def __init__(self, cli, *words, columns=80, rows=24, env=None):
        self.ours, theirs = pty.openpty()
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
        self.before = termios.tcgetattr(theirs)
        self.theirs = theirs
        self.process = subprocess.Popen(
            [program.PROGRAM, *map(str, words)],
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env={**os.environ, "TERM": "xterm", **cli.env, **(env or {})},
        )
        self.output = b""

    def read(self, seconds):
        """Takes in what is written within so many seconds, or until it is something."""
        ready, _, _ = select.select([self.ours], [], [], seconds)
        if not ready:
            return b""
        try:
            more = os.read(self.ours, 65536)
        except OSError:
            more = b""
        self.output += more
        return more

    def until(self, wanted, seconds=60):
        """Waits until the output holds this."""
        end = time.monotonic() + seconds
        while wanted not in self.output:
            assert time.monotonic() < end, f"{wanted} did not come: {self.output[-2000:]}"
            self.read(0.5)
        return self.output

    def press(self, keys):
        os.write(self.ours, keys)

    def end(self, seconds=60):
        """Waits for its end; all that it wrote, and its exit code."""
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it goes on: {self.output[-2000:]}"
            self.read(0.1)
        while self.read(0.1):
            pass
        return self.output, self.process.returncode

    def is_as_before(self):
        """Whether the terminal reads keys as it did at first."""
        return termios.tcgetattr(self.theirs)[:4] == self.before[:4]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        os.close(self.ours)
        os.close(self.theirs)


def plain(output):
    """Output without the sequences that place and colour it."""
    return re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", output).decode()


def screens(output):
    """The screens that were shown one after the other, as lists of lines."""
    shown = output.split(b"\x1b[H")[1:]
    return [plain(one).replace("\r", "").split("\n") for one in shown]
