"""A few kill -9 rounds under push load; `push_rounds.py` runs as many as one likes."""

import os
import random

from push_rounds import PushRounds

ROUNDS = 24


def test_killed_again_and_again_push_loses_nothing_and_keeps_the_order(tmp_path):
    seed = int(os.environ.get("E2E_SEED", random.randrange(2**32)))
    print(f"{ROUNDS} rounds, seed {seed}")
    rounds = PushRounds(tmp_path, seed)
    passed = rounds.run(ROUNDS, print)
    told = "\n".join([f"round {passed} of seed {seed}", *rounds.checker.faults])
    assert not rounds.checker.faults, f"{told}\n{rounds.server.tail()}"
    assert passed == ROUNDS
    assert rounds.checker.arrivals > len(rounds.checker.published)
