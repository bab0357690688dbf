"""The rules must catch each broken promise, or the rounds prove nothing."""

import pytest

from lane_rules import Past, judge_free, judge_lane
from leases import Lease, parts

IDS = [1, 2, 3, 4, 5]
END = 100.0


def history(*steps):
    """Leases in the server's order from steps like "1", "2 ack", "3 nack b": id, fate, consumer.

    Everything is asked and answered at the time of its step; "asked" is an ack without an answer.
    """
    leases = []
    for number, step in enumerate(steps):
        id, *words = step.split()
        at = float(number + 1)
        lease = Lease(number, int(id), "k", "a", began=0.0)
        for word in words:
            if word in ("ack", "asked"):
                lease.ack_asked = at
                lease.ack_answered = at if word == "ack" else None
            elif word == "nack":
                lease.nack_asked = lease.nack_answered = at
            elif word == "later":
                # Asked for after everything before it was answered.
                lease.began = at - 0.5
            else:
                lease.consumer = word
        leases.append(lease)
    return leases


def lane(past, *steps, proven=END, ids=IDS):
    return [fault.split()[0] for fault in judge_lane(past, ids, history(*steps), proven)]


def free(past, *steps, proven=END):
    return [fault.split()[0] for fault in judge_free(past, history(*steps), proven)]


def test_an_ack_id_names_its_record_and_lease():
    # Subscription 7, offset 1800000000000000, epoch 3, lease 258.
    text = "AAAAAAAAAAcABmUXKJiAAAAAAAAAAAADAAAAAAAAAQIAAAAA"
    assert parts(text) == (1_800_000_000_000_000, 3, 258)


@pytest.mark.parametrize("once", [False, True])
def test_sound_lanes_have_no_faults(once):
    for steps in [
        ("1 ack", "2 ack", "3 ack"),
        ("1 ack", "2 ack b", "3 ack a"),
        ("1 nack", "1 ack", "2 ack"),
        ("1 nack", "1 ack b", "2 ack b"),
        ("1", "2"),
        ("1 asked", "2"),
    ]:
        assert lane(Past(once), *steps) == []


def test_a_lane_that_came_back_takes_all_behind_it_along():
    # 2 and 3 were acked behind 1, which failed: they come again and that is right.
    assert lane(Past(), "1 nack", "2 ack", "3 ack", "1 ack", "2 ack", "3 ack") == []
    # To another stream too, and what was in flight to the first is no fault.
    assert lane(Past(), "1 nack", "2 ack", "3", "1 ack b", "2 ack b", "3 ack b") == []
    assert lane(Past(), "1 nack", "2 ack", "3 ack", "1 ack", "3 ack") == ["O1"]


def test_exactly_once_brings_back_only_what_failed():
    assert lane(Past(True), "1 nack", "2 ack", "3", "1 ack", "4") == []
    assert lane(Past(True), "1 nack", "2 ack", "1 ack", "2") == ["A1"]


def test_what_is_passed_over_is_caught():
    assert lane(Past(), "1 ack", "3 ack") == ["O1"]
    assert lane(Past(), "2 ack") == ["O1"]
    assert lane(Past(True), "1 ack", "3 ack") == ["O1"]


def test_what_is_passed_over_by_a_restart_is_caught():
    """The first question: a later message came and an earlier, unacked, had not come again."""
    past = Past()
    assert lane(past, "1 ack", "2", "3") == []
    assert lane(past, "3") == ["O1"]
    past = Past()
    assert lane(past, "1 ack", "2", "3 ack") == []
    assert lane(past, "2 ack", "4") == ["O1"], "an ack behind 2 was provisional"


def test_what_a_crash_may_have_kept_or_not_is_no_fault():
    for steps in [("2",), ("1", "2")]:
        past = Past()
        assert lane(past, "1 ack", "2", proven=0.5) == []
        assert lane(past, *steps) == []
    # When the second life began with 2, the ack of 1 was durable.
    past = Past()
    lane(past, "1 ack", "2", proven=0.5)
    lane(past, "2")
    assert lane(past, "1") == ["A1"]


def test_a_durable_ack_that_does_not_stick_is_caught():
    """The second question: it came again although all before it were settled."""
    past = Past()
    assert lane(past, "1 ack", "2 ack", "3") == []
    assert lane(past, "2") == ["A1"]
    # Behind an unsettled one it was provisional.
    past = Past()
    assert lane(past, "1", "2 ack", "3 ack") == []
    assert lane(past, "1", "2", "3") == []
    # And so was one whose lease had ended when its ack came.
    past = Past()
    assert lane(past, "1 nack", "2 ack", "1 ack") == []
    assert lane(past, "2") == []


def test_an_answered_ack_with_exactly_once_sticks_at_once():
    past = Past(True)
    assert lane(past, "1", "2 ack", proven=0.0) == []
    assert lane(past, "1", "2") == ["A1"]
    past = Past(True)
    assert free(past, "1 ack", proven=0.0) == []
    assert free(past, "1") == ["A1"]


def test_a_repeat_in_one_life_is_caught():
    assert lane(Past(), "1 ack", "1") == ["A1"]
    assert lane(Past(), "1", "1") == ["A1"]
    assert free(Past(), "1 ack", "1") == ["A1"]
    assert free(Past(), "1", "1") == ["A1"]
    assert free(Past(), "1 nack", "1 ack") == []


def test_a_first_delivery_after_later_ones_is_caught():
    assert lane(Past(), "2 nack", "1") == ["O1", "O1"]


def test_two_consumers_in_one_lane_are_caught():
    assert lane(Past(), "1", "2 b") == ["O1"]
    assert lane(Past(), "1 nack", "2 b") == ["O1"]
    assert lane(Past(True), "1", "2 b") == ["O1"]
    assert lane(Past(), "1 asked", "2 b") == []


def test_what_was_nacked_goes_first():
    assert lane(Past(), "1 nack", "2 later") == ["O1"]
    assert lane(Past(), "1 nack", "2") == [], "it may have been on its way"


def test_a_lane_goes_on_behind_what_was_given_up():
    past = Past(attempts_max=2)
    assert lane(past, "1 nack", "1 nack", "2 ack b", "3") == []
    assert lane(past, "3") == []
    past = Past(attempts_max=3)
    assert lane(past, "1 nack", "1 nack", "2 b") == ["O1"]
    # It took 2 along, once.
    assert lane(Past(attempts_max=1), "1 nack", "2 ack", "3 ack", "2 ack", "3 ack") == []
    assert lane(Past(attempts_max=1), "1 nack", "2 ack", "2 ack", "2") == ["A1"]
    past = Past(attempts_max=2)
    assert lane(past, "1 nack", "1 nack", "2 nack", "2 ack", "2 ack") == []
    assert lane(Past(attempts_max=2), "1 nack", "2 ack", "2") == ["A1"]


def test_one_attempt_too_many_is_caught():
    assert free(Past(attempts_max=2), "1 nack", "1 nack", "1") == ["X1"]
    assert free(Past(attempts_max=2), "1 nack", "1 nack") == []


def test_messages_in_no_lane_come_again_only_where_a_crash_allows_it():
    past = Past()
    assert free(past, "1 ack", "2 ack", proven=1.5) == []
    assert free(past, "2") == []
    assert free(past, "1") == ["A1"]
