"""The checkers must catch each broken promise, or the rounds prove nothing."""

import base64
import struct
import types

from pull_checker import PullChecker
from seek_checker import SeekChecker


def ack_id(id, number):
    return base64.urlsafe_b64encode(struct.pack(">QQQQI", 1, id, 1, number, 0)).decode()


def received(id, number, data, key="k", kind="a", **attributes):
    message = types.SimpleNamespace(
        message_id=str(id),
        data=data.encode(),
        ordering_key=key,
        attributes={**({"kind": kind} if kind else {}), **attributes},
    )
    return types.SimpleNamespace(message=message, ack_id=ack_id(id, number), delivery_attempt=0)


def world(**rules):
    checker = PullChecker()
    checker.add("s", **rules)
    checker.started()
    return checker


def publish(checker, *names, ids=None, kind="a"):
    messages = [(name, "k", kind) for name in names]
    began = checker.publish_begins(messages)
    if ids:
        checker.publish_answered(messages, ids, began)


def deliver(checker, id, number, data, fate=None, **fields):
    lease = checker.delivered("s", "a", 0.0, received(id, number, data, **fields))
    if fate == "ack":
        checker.acking([lease])
        checker.acked([lease])
    elif fate == "nack":
        checker.nacking([lease])
        checker.nacked([lease])


def letter(checker, id, number, original, data, attempts=2):
    told = {"original_message_id": str(original), "original_subscription": "p/s"}
    told["attempts"] = str(attempts)
    lease = checker.letter(received(id, number, data, **told), 0.0)
    checker.acking([lease])
    checker.acked([lease])


def drained(checker, replayed=()):
    checker.check_drained(0, {"s": replayed})
    return promises(checker)


def promises(checker):
    return [fault.split("life 1: ")[-1].removeprefix("s: ").split()[0] for fault in checker.faults]


def ended(checker):
    checker.ended()
    return promises(checker)


def test_a_sound_life_has_no_faults():
    checker = world(ordering="key")
    publish(checker, "one", "two", ids=[1, 2])
    deliver(checker, 1, 0, "one", "nack")
    deliver(checker, 2, 1, "two", "ack")
    deliver(checker, 1, 2, "one", "ack")
    deliver(checker, 2, 3, "two", "ack")
    assert drained(checker) == [] and ended(checker) == []


def test_answers_that_are_read_late_are_put_in_order():
    checker = world(ordering="key")
    publish(checker, "one", "two", ids=[1, 2])
    deliver(checker, 2, 1, "two")
    deliver(checker, 1, 0, "one")
    assert ended(checker) == []


def test_a_lost_message_is_caught():
    checker = world()
    publish(checker, "one", ids=[1])
    assert drained(checker) == ["D1"]


def test_an_unanswered_publish_may_come_or_not():
    checker = world()
    publish(checker, "one")
    assert drained(checker) == []
    deliver(checker, 1, 0, "one", "ack")
    assert drained(checker) == []


def test_changed_and_invented_messages_are_caught():
    for fields in [{"data": "other"}, {"data": "one", "key": "x"}, {"data": "one", "kind": "b"}]:
        checker = world()
        publish(checker, "one", ids=[1])
        deliver(checker, 1, 0, **fields)
        assert promises(checker) == ["D2"]


def test_what_the_filter_keeps_out_is_caught():
    checker = world(kind="b")
    publish(checker, "one", ids=[1])
    assert drained(checker) == []
    deliver(checker, 1, 0, "one")
    assert promises(checker) == ["F1"]


def test_an_ack_before_an_answered_publish_sticks():
    checker = world()
    publish(checker, "one", ids=[1])
    deliver(checker, 1, 0, "one", "ack")
    publish(checker, "two", ids=[2])
    checker.ended()
    checker.started()
    deliver(checker, 1, 0, "one")
    checker.ended()
    assert [fault.split()[3] for fault in checker.faults] == ["A1"]


def test_an_ack_after_the_last_publish_sticks_where_the_server_was_asked_to_end():
    for asked_to_end, expected in [(0.0, []), (1e18, ["A1"])]:
        checker = world()
        publish(checker, "one", ids=[1])
        deliver(checker, 1, 0, "one", "ack")
        checker.ended(asked_to_end)
        checker.started()
        deliver(checker, 1, 0, "one")
        checker.ended()
        assert [fault.split()[3] for fault in checker.faults] == expected


def given_up(attempts=2, fates=("nack", "nack")):
    checker = world(attempts_max=attempts)
    publish(checker, "one", ids=[1])
    for number, fate in enumerate(fates):
        deliver(checker, 1, number, "one", fate)
    return checker


def test_a_sound_dead_letter_has_no_faults():
    checker = given_up()
    assert checker.owed("s") == [1]
    letter(checker, 9, 0, 1, "one")
    assert drained(checker) == [] and ended(checker) == []


def test_neither_acked_nor_dead_lettered_is_caught():
    assert drained(given_up()) == ["D1"]


def test_two_letters_of_one_message_are_caught():
    checker = given_up()
    letter(checker, 9, 0, 1, "one")
    letter(checker, 10, 1, 1, "one")
    assert ended(checker) == ["X1"]


def test_a_letter_too_early_is_caught():
    checker = given_up(fates=["nack"])
    letter(checker, 9, 0, 1, "one")
    assert ended(checker) == ["X1"]


def test_a_letter_that_counts_wrongly_is_caught():
    checker = given_up()
    letter(checker, 9, 0, 1, "one", attempts=3)
    assert ended(checker) == ["X1"]


def test_a_letter_of_what_was_acked_is_caught():
    checker = given_up(fates=["ack"])
    checker.subscriptions["s"].past.nacks[1] = 2
    publish(checker, "two", ids=[2])
    letter(checker, 9, 0, 1, "one")
    assert ended(checker) == ["X1"]


def test_a_delivery_after_the_letter_is_caught():
    checker = given_up()
    letter(checker, 9, 0, 1, "one")
    checker.ended()
    checker.started()
    deliver(checker, 1, 0, "one")
    checker.ended()
    assert "X1" in [fault.split()[3] for fault in checker.faults]


def test_a_letter_is_owed_its_replay_and_only_one():
    checker = given_up()
    letter(checker, 9, 0, 1, "one")
    assert checker.owed("s", [1]) == [1]
    deliver(checker, 5, 7, "one", "ack", original_message_id="1")
    assert drained(checker, [1]) == [] and ended(checker) == []
    deliver(checker, 6, 8, "one", "ack", original_message_id="1")
    assert ended(checker) == ["X1"]


def test_what_was_drained_twice_may_not_come_again():
    checker = world()
    publish(checker, "one", ids=[1])
    deliver(checker, 1, 0, "one", "ack")
    for _ in range(2):
        assert drained(checker) == []
        checker.ended()
        checker.forget()
    deliver(checker, 1, 1, "one")
    assert promises(checker) == ["A1"]


# Seeks.


def sought(is_ordered=False, count=4):
    checker = SeekChecker("s", is_ordered)
    for id in range(1, count + 1):
        checker.learn(id, "k")
    return checker


def give(checker, *ids, acked=True):
    checker.delivered([(id, "k", id // 2) for id in ids])
    if acked:
        checker.acking(ids)
        checker.acked(ids)


def seek(checker, begin, *args):
    begin(*args)
    checker.sought()


def kinds(checker):
    return [fault.split()[1] for fault in checker.faults]


def test_a_snapshot_brings_back_what_was_unacked_and_nothing_else():
    checker = sought()
    give(checker, 1, 2)
    checker.snapshot("then")
    give(checker, 3, 4)
    assert checker.owed() == []
    seek(checker, checker.seeking_snapshot, "then")
    assert checker.owed() == [3, 4]
    give(checker, 3, 4)
    assert kinds(checker) == []
    seek(checker, checker.seeking_snapshot, "then")
    give(checker, 2)
    assert kinds(checker) == ["A1"]


def test_a_time_brings_back_what_was_published_since():
    checker = sought()
    give(checker, 1, 2, 3, 4)
    # 2 and 3 have one time.
    seek(checker, checker.seeking_time_of, 3)
    assert checker.owed() == [2, 3, 4]
    give(checker, 1)
    assert kinds(checker) == ["A1"]


def test_what_is_settled_does_not_come():
    checker = sought()
    give(checker, 1)
    give(checker, 1)
    assert kinds(checker) == ["A1"]


def test_a_seek_that_was_not_answered_has_happened_or_not():
    checker = sought()
    give(checker, 1, 2)
    checker.snapshot("then")
    give(checker, 3)
    checker.seeking_snapshot("then")
    checker.killed()
    assert checker.owed() == [4]
    give(checker, 3)
    assert kinds(checker) == []
    give(checker, 2)
    assert kinds(checker) == ["A1"]


def test_an_ack_that_was_not_answered_counts_or_not():
    checker = sought(count=1)
    give(checker, 1, acked=False)
    checker.acking([1])
    checker.killed()
    assert checker.owed() == []
    give(checker, 1, acked=False)
    assert kinds(checker) == [] and checker.owed() == [1]


def test_order_is_kept_after_a_seek():
    checker = sought(is_ordered=True)
    give(checker, 1, 2)
    seek(checker, checker.seeking_time_of, 1)
    give(checker, 2, 3)
    assert kinds(checker) == ["O1"]
    checker = sought(is_ordered=True)
    give(checker, 2, 1)
    assert kinds(checker) == ["O1"]
