"""The seed of a test that draws by chance, and how to have the same draws again."""

import os
import random

VARIABLE = "TEST_SEED"


def draw():
    """The seed in `TEST_SEED`, or one by chance."""
    return int(os.environ.get(VARIABLE) or random.SystemRandom().randrange(2**32))


def seed():
    """The same, and it is printed: pytest shows that of a test that failed."""
    chosen = draw()
    print(told(chosen))
    return chosen


def told(chosen):
    """What repeats a run when it is put before its command."""
    return f"{VARIABLE}={chosen}"
