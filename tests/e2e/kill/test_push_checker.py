"""The push checker must catch each broken promise, or the kill rounds prove nothing."""

import push_checker as checking
from push_checker import PushChecker

FIFO, KEYS, PLAIN = "fifo", "keys", "plain"


def world(count=6, key="k"):
    """Six messages published, ids 1 to 6, and a subscription of each ordering."""
    checker = PushChecker()
    checker.add(FIFO, "fifo")
    checker.add(KEYS, "key")
    checker.add(PLAIN, "none")
    checker.started()
    messages = [(f"t{n}", key) for n in range(1, count + 1)]
    checker.publish_begins(messages)
    checker.publish_answered(messages, range(1, count + 1))
    return checker


def message(id, key="k"):
    return (id, f"t{id}", key)


def push(checker, *ids, name=FIFO, outcome="acked", key="k"):
    messages = [message(id, key) for id in ids]
    checker.arrived(name, messages)
    if outcome:
        checker.answers(name, messages, outcome)


def restart(checker):
    checker.killed()
    checker.started()


def promises(checker):
    return [fault.split()[0] for fault in checker.faults]


def test_a_sound_history_has_no_faults():
    checker = world()
    for name in (FIFO, KEYS):
        push(checker, 1, name=name)
        push(checker, 2, 3, 4, name=name, outcome="failed")
        push(checker, 2, name=name)
        push(checker, 3, name=name)
        push(checker, 4, name=name, outcome=None)
    for id in (3, 1, 2, 4):
        push(checker, id, name=PLAIN)
    restart(checker)
    for name in (FIFO, KEYS):
        # The third was acked just before the kill.
        for id in (3, 4, 5, 6):
            push(checker, id, name=name)
    push(checker, 5, name=PLAIN)
    push(checker, 6, name=PLAIN)
    checker.check_drained(0)
    assert checker.faults == []
    assert checker.subscriptions[FIFO].repeats == 5, "a batch that failed, and two after the kill"


def test_a_lost_message_is_caught():
    checker = world()
    for id in (1, 2, 3, 4, 6):
        push(checker, id, name=PLAIN)
    checker.check_drained(0)
    lost = [fault for fault in checker.faults if PLAIN in fault]
    assert len(lost) == 1 and lost[0].startswith("D1 1 owed")


def test_a_gap_in_a_lane_is_caught():
    checker = world()
    push(checker, 1)
    push(checker, 3)
    assert promises(checker) == ["O1"]


def test_a_lane_that_does_not_begin_at_its_beginning_is_caught():
    checker = world()
    push(checker, 2)
    assert promises(checker) == ["O1"]


def test_a_turn_in_a_lane_is_caught():
    checker = world()
    for id in (1, 2):
        push(checker, id, name=KEYS)
    push(checker, 1, name=KEYS)
    assert set(promises(checker)) == {"O1", "A1"}


def test_a_gap_inside_a_batch_is_caught():
    checker = world()
    push(checker, 1, 3)
    assert promises(checker) == ["O1"]


def test_going_on_behind_a_failure_is_caught():
    checker = world()
    push(checker, 1, outcome="failed")
    push(checker, 2)
    assert promises(checker) == ["O1"]


def test_two_requests_of_a_lane_at_once_are_caught():
    checker = world()
    push(checker, 1, outcome=None)
    push(checker, 2, outcome=None)
    assert promises(checker) == ["O2"]
    checker = world()
    push(checker, 1, name=PLAIN, outcome=None)
    push(checker, 2, name=PLAIN, outcome=None)
    assert checker.faults == []


def test_a_repeat_that_is_not_followed_by_the_same_is_caught():
    checker = world()
    for id in (1, 2, 3):
        push(checker, id)
    restart(checker)
    push(checker, 2)
    push(checker, 4)
    assert promises(checker) == ["O1"]


def test_a_gap_over_a_restart_is_caught():
    checker = world()
    push(checker, 1)
    restart(checker)
    push(checker, 3)
    assert promises(checker) == ["O1"]


def test_a_repeat_in_the_same_life_is_caught():
    checker = world()
    push(checker, 1, name=PLAIN)
    push(checker, 1, name=PLAIN)
    assert promises(checker) == ["A1"]


def test_a_repeat_of_what_was_acked_long_before_the_kill_is_caught(monkeypatch):
    checker = world()
    push(checker, 1, name=PLAIN)
    monkeypatch.setattr(checking, "ACK_SETTLES_SECONDS", -1)
    restart(checker)
    push(checker, 1, name=PLAIN)
    assert promises(checker) == ["A1"]


def test_what_nobody_published_is_caught():
    checker = world()
    checker.arrived(PLAIN, [(99, "t99", "k")])
    checker.arrived(PLAIN, [(1, "t2", "k")])
    checker.arrived(PLAIN, [(3, "t3", "other")])
    assert promises(checker) == ["D2", "D2", "D2"]


def test_an_unanswered_publish_may_arrive_in_its_place():
    checker = world()
    checker.publish_begins([("t7", "k")])
    for id in range(1, 8):
        push(checker, id)
    assert checker.faults == []


def test_keys_are_lanes_of_their_own():
    checker = world()
    checker.publish_begins([("t7", "j"), ("t8", "k")])
    checker.publish_answered([("t7", "j"), ("t8", "k")], [7, 8])
    push(checker, 7, name=KEYS, key="j", outcome=None)
    for id in (1, 2, 3, 4, 5, 6, 8):
        push(checker, id, name=KEYS)
    assert checker.faults == []
