"""A few kill -9 rounds under push load; `push_rounds.py` runs as many as one likes."""

from push_rounds import PushRounds
from seeds import seed, told

ROUNDS = 24


def test_killed_again_and_again_push_loses_nothing_and_keeps_the_order(tmp_path):
    chosen = seed()
    rounds = PushRounds(tmp_path, chosen)
    passed = rounds.run(ROUNDS, print)
    said = "\n".join([f"round {passed} of {told(chosen)}", *rounds.checker.faults])
    assert not rounds.checker.faults, f"{said}\n{rounds.server.tail()}"
    assert passed == ROUNDS
    assert rounds.checker.arrivals > len(rounds.checker.published)
