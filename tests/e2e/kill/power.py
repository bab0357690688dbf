"""Power cuts of the real program, SQLite and all, on a disk that forgets what was not synced.

    power.py [--rounds 20] [--seed N]

The same rounds as those of kill -9: load, the power goes, perhaps again while it recovers, restart,
check. Whatever the disk promised it has kept; of all else any part may be gone.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "python"))

from program import ROOT, Server  # noqa: E402
from rounds import DRAIN_EVERY, Rounds  # noqa: E402


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
    def __init__(self, folder, seed):
        super().__init__(folder, seed)
        self.disk = LossyDisk(folder / "data")
        self.server = LossyServer(folder, config=self.config())
        self.server.disk, self.server.dice = self.disk, self.random


def main():
    parser = argparse.ArgumentParser(description="power cuts under load")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    parent = pathlib.Path(os.environ.get("E2E_FOLDER", ROOT / "target/e2e/run"))
    folder = parent / f"power-{os.getpid()}"
    print(f"{options.rounds} power cuts, seed {options.seed}", flush=True)
    rounds = PowerRounds(folder, options.seed)
    # The last round drains, so that nothing published stays unchecked.
    total = -(-options.rounds // DRAIN_EVERY) * DRAIN_EVERY
    began, passed = time.monotonic(), 0
    try:
        while passed < total and not rounds.checker.faults:
            rounds.round(passed)
            passed += not rounds.checker.faults
    except Exception as error:
        rounds.checker.fault(f"L1 round {passed} broke down: {error!r}\n{rounds.server.tail()}")
    finally:
        rounds.server.kill()
        rounds.disk.end()
    faults = rounds.checker.faults
    if faults:
        print(f"round {passed} of seed {options.seed}; log in {folder}")
        for fault in faults:
            print(f"  {fault}")
    else:
        shutil.rmtree(folder)
    failed = 1 if faults else 0
    print(f"{failed} failed, {passed} passed in {time.monotonic() - began:.1f}s")
    return failed


if __name__ == "__main__":
    sys.exit(main())
