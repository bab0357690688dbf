"""The checker must catch each broken promise, or the kill rounds prove nothing."""

import checker as checking
from checker import Checker, data_of

TOPIC = "projects/p/topics/orders"
SUBSCRIPTION = "projects/p/subscriptions/billing"


def world():
    checker = Checker()
    checker.started()
    checker.topic_asked(TOPIC, "blue")
    checker.exists(TOPIC)
    checker.subscription_asked(SUBSCRIPTION, TOPIC)
    checker.exists(SUBSCRIPTION)
    return checker


def publish(checker, *shapes, ids=None):
    call = checker.publish_begins(TOPIC, shapes or [("", 10)])
    if ids:
        checker.publish_answered(call, ids)
    return call


def deliver(checker, message, id=None, data=None, key=None, token=None):
    checker.delivered(
        SUBSCRIPTION,
        token or message.token,
        id or message.id or 1,
        data_of(message.token, message.size) if data is None else data,
        {"token": message.token},
        message.key if key is None else key,
        checker.life,
    )


def settle(checker, message, **fields):
    deliver(checker, message, **fields)
    checker.acked(SUBSCRIPTION, [message.token], checker.life)


def restart(checker):
    checker.killed()
    checker.started()


def promises(checker):
    return [fault.split()[0] for fault in checker.faults]


def test_a_sound_history_has_no_faults():
    checker = world()
    one = publish(checker, ids=[1]).messages[0]
    two = publish(checker, ids=[2]).messages[0]
    settle(checker, one)
    deliver(checker, two)
    checker.nacked(SUBSCRIPTION, [two.token])
    settle(checker, two)
    lost = publish(checker)
    restart(checker)
    checker.check_resources({TOPIC: "blue"}, {SUBSCRIPTION: TOPIC})
    checker.check_drained()
    assert lost.answered is None
    assert checker.faults == []


def test_a_lost_message_is_caught():
    checker = world()
    publish(checker, ids=[1])
    checker.check_drained()
    assert promises(checker) == ["D1"]


def test_an_unanswered_message_seen_by_one_is_owed_to_all():
    checker = world()
    other = "projects/p/subscriptions/other"
    checker.subscription_asked(other, TOPIC)
    checker.exists(other)
    settle(checker, publish(checker).messages[0])
    checker.check_drained()
    assert promises(checker) == ["D1"]


def test_a_message_never_settled_is_caught():
    checker = world()
    deliver(checker, publish(checker, ids=[1]).messages[0])
    checker.check_drained()
    assert promises(checker) == ["L1"]


def test_an_ack_whose_answer_the_kill_took_may_count_or_not():
    checker = world()
    message = publish(checker, ids=[1]).messages[0]
    deliver(checker, message)
    checker.ack_asked(SUBSCRIPTION, [message.token])
    assert checker.owed(SUBSCRIPTION) == [message.token], "not while its life lasts"
    restart(checker)
    assert checker.owed(SUBSCRIPTION) == []
    deliver(checker, message)
    assert checker.owed(SUBSCRIPTION) == [message.token]
    assert checker.faults == []


def test_changed_bytes_and_keys_are_caught():
    checker = world()
    message = publish(checker, ids=[1]).messages[0]
    settle(checker, message, data=b"other")
    message = publish(checker, ids=[2]).messages[0]
    settle(checker, message, key="other")
    assert promises(checker) == ["D2", "D2"]


def test_an_invented_message_is_caught():
    checker = world()
    message = publish(checker, ids=[1]).messages[0]
    deliver(checker, message, token="orders.99.10")
    assert promises(checker) == ["D2"]


def test_a_message_from_before_the_subscription_is_caught():
    checker = Checker()
    checker.started()
    checker.topic_asked(TOPIC, "blue")
    checker.exists(TOPIC)
    message = publish(checker, ids=[1]).messages[0]
    checker.subscription_asked(SUBSCRIPTION, TOPIC)
    checker.exists(SUBSCRIPTION)
    deliver(checker, message)
    assert promises(checker) == ["D2"]


def test_a_hole_inside_a_key_is_caught():
    checker = world()
    call = publish(checker, ("k", 10), ("k", 10), ("other", 10))
    settle(checker, call.messages[1])
    settle(checker, call.messages[2], id=2)
    checker.check_drained()
    assert "D3" in promises(checker)


def test_ids_that_repeat_or_shrink_are_caught():
    checker = world()
    publish(checker, ids=[5])
    publish(checker, ids=[4])
    assert promises(checker) == ["D4"]
    checker = world()
    publish(checker, ("", 10), ("", 10), ids=[7, 7])
    assert "D4" in promises(checker)
    checker = world()
    message = publish(checker, ids=[5]).messages[0]
    deliver(checker, message, id=6)
    assert promises(checker) == ["D4"]


def test_a_repeat_in_the_same_life_is_caught():
    checker = world()
    message = publish(checker, ids=[1]).messages[0]
    deliver(checker, message)
    deliver(checker, message)
    assert promises(checker) == ["A1"]
    checker = world()
    message = publish(checker, ids=[1]).messages[0]
    settle(checker, message)
    deliver(checker, message)
    assert promises(checker) == ["A1"]


def test_a_repeat_long_after_its_ack_is_caught(monkeypatch):
    checker = world()
    message = publish(checker, ids=[1]).messages[0]
    settle(checker, message)
    restart(checker)
    deliver(checker, message)
    assert checker.faults == [], "acked just before the kill"
    monkeypatch.setattr(checking, "ACK_SETTLES_SECONDS", -1.0)
    checker = world()
    message = publish(checker, ids=[1]).messages[0]
    settle(checker, message)
    restart(checker)
    deliver(checker, message)
    assert promises(checker) == ["A1"]


def test_a_repeat_of_what_was_outstanding_is_allowed():
    checker = world()
    message = publish(checker, ids=[1]).messages[0]
    deliver(checker, message)
    restart(checker)
    settle(checker, message)
    checker.check_drained()
    assert checker.faults == []


def test_resources_that_vanish_return_or_change_are_caught():
    checker = world()
    checker.check_resources({}, {SUBSCRIPTION: TOPIC})
    assert promises(checker) == ["R1", "R1"], "the topic is missing, and its label"
    checker = world()
    checker.deletion_asked(SUBSCRIPTION)
    checker.gone(SUBSCRIPTION)
    checker.check_resources({TOPIC: "blue"}, {SUBSCRIPTION: TOPIC})
    assert promises(checker) == ["R1"]
    checker = world()
    checker.check_resources({TOPIC: "red"}, {SUBSCRIPTION: "_deleted-topic_"})
    assert promises(checker) == ["R1", "R1"]


def test_what_was_not_answered_may_be_either_way():
    for listed in ({}, {SUBSCRIPTION: TOPIC}):
        checker = world()
        checker.deletion_asked(SUBSCRIPTION)
        checker.check_resources({TOPIC: "blue"}, listed)
        assert checker.faults == []
