"""What all rounds share, whatever the load is and however a life ends.

A life of the server begins, is under load, ends, and the next begins on what is left. The seed
decides the choices; the scheduler of the machine decides the rest.
"""

import argparse
import os
import pathlib
import random
import shutil
import sys
import time

# The programs here are started on their own too, where nobody else says where the rest is.
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "python"))

import seeds  # noqa: E402
from program import ROOT, Server  # noqa: E402


class Cycle:
    """Lives of a server on one data folder. A kind of them has a `checker` and defines `config`,
    `round` and `told`."""

    # Every so many rounds everything owed must arrive, so that a lost message is found.
    DRAIN_EVERY = 10
    # The share of starts that are killed while the server recovers.
    KILLED_STARTS = 0.4

    def __init__(self, folder, seed, checker):
        self.random = random.Random(seed)
        self.checker = checker
        self.server = self.make_server(folder)
        self.killed_starts = 0

    def make_server(self, folder):
        return Server(folder, config=self.config())

    def drains(self, number):
        return (number + 1) % self.DRAIN_EVERY == 0

    def pause(self, seconds):
        """Lets the load go on until the random moment of an end; nothing is waited for."""
        time.sleep(seconds)

    def start(self):
        """Starts the server; in some rounds it is killed again while it recovers."""
        self.server.config.write_text(self.config())
        while self.random.random() < self.KILLED_STARTS:
            self.start_and_kill()
            self.killed_starts += 1
        self.checker.started()
        self.server.start()

    def start_and_kill(self):
        self.server.spawn()
        self.pause(self.random.uniform(0, 0.05))
        self.server.kill()

    def blame(self, breakdowns):
        for breakdown in breakdowns:
            self.checker.fault(f"L1 {breakdown}")

    def run(self, total, tell=lambda text: None):
        """Runs the rounds; how many passed."""
        # The last round drains, so that nothing published stays unchecked.
        total = -(-total // self.DRAIN_EVERY) * self.DRAIN_EVERY
        passed = 0
        try:
            while passed < total:
                self.round(passed)
                if self.checker.faults:
                    break
                passed += 1
                if passed % self.DRAIN_EVERY == 0:
                    tell(f"{passed} rounds, {self.killed_starts} killed starts, {self.told()}")
        except Exception as error:
            self.checker.fault(f"L1 round {passed} broke down: {error!r}\n{self.server.tail()}")
        finally:
            self.server.kill()
            self.close()
        return passed

    def close(self):
        """Puts away what outlives the server."""


def main(kind, name, description, rounds):
    """Runs rounds of a kind as the command line asks; the exit code."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seed", type=int, help=f"by default that of {seeds.VARIABLE}, or any")
    options = parser.parse_args()
    seed = seeds.draw() if options.seed is None else options.seed
    parent = pathlib.Path(os.environ.get("E2E_FOLDER", ROOT / "target/e2e/run"))
    folder = parent / f"{name}-{os.getpid()}"
    print(f"{name}: {options.rounds} rounds, {seeds.told(seed)}", flush=True)
    began = time.monotonic()
    lives = kind(folder, seed)

    def tell(text):
        print(f"{name}: {text}, {time.monotonic() - began:.0f} s", flush=True)

    passed = lives.run(options.rounds, tell)
    failed = 1 if lives.checker.faults else 0
    if failed:
        print(f"{name}: round {passed} of {seeds.told(seed)}; data and log in {folder}")
        for fault in lives.checker.faults:
            print(f"  {fault}")
    else:
        shutil.rmtree(folder)
    print(f"{failed} failed, {passed} passed in {time.monotonic() - began:.1f}s")
    return failed
