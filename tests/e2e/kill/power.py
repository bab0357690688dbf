"""Power cuts of the real program, SQLite and all, on a disk that forgets what was not synced.

    power.py [--rounds 20] [--seed N]

The same rounds as those of kill -9: load, the power goes, perhaps again while it recovers, restart,
check. Whatever the disk promised it has kept; of all else any part may be gone.
"""

import pathlib
import subprocess
import sys

import cycle
from program import Server
from rounds import Rounds


class LossyDisk:
    """The file system, in a process of its own."""

    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        program = pathlib.Path(__file__).parent / "lossy_disk.py"
        self.process = subprocess.Popen(
            [sys.executable, str(program), str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        assert self.say("") == "mounted", "cannot mount a file system; this needs root"

    def say(self, line):
        if line:
            self.process.stdin.write(f"{line}\n")
            self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def cut(self, seed):
        assert self.say(f"cut {seed}") == "cut"

    def end(self):
        self.process.stdin.close()
        self.process.wait()


class LossyServer(Server):
    """A server whose death takes the power with it."""

    disk = None
    dice = None

    def kill(self):
        was_running = self.process is not None
        super().kill()
        if was_running and self.disk is not None:
            self.disk.cut(self.dice.randrange(1 << 62))
        self.process = None


class PowerRounds(Rounds):
    def make_server(self, folder):
        self.disk = LossyDisk(folder / "data")
        server = LossyServer(folder, config=self.config())
        server.disk, server.dice = self.disk, self.random
        return server

    def close(self):
        self.disk.end()


if __name__ == "__main__":
    sys.exit(cycle.main(PowerRounds, "power", "power cuts under load", rounds=20))
