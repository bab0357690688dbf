"""The attempt log: what each attempt says, how it is searched, and that restarts keep it."""

import time

from answers import never
from push import dead_letter, retry, stamp
from receiver import status
from waiting import until


def ids(attempts):
    return [one["messageId"] for one in attempts]


def page(push, name, query):
    return push.rest.ok("GET", f"/v1/{name}/attempts{query}")


def test_an_attempt_says_what_happened(push):
    before = time.time()
    push.receiver.on("/push", status(500, body=b"out of order"), status(201, body=b"thanks"))
    topic, name = push.pair(retryPolicy=retry(0.2))
    (id,) = push.publish(topic, b"x")
    good, bad = push.wait_attempts(name, 2)
    address = f"127.0.0.1:{push.receiver.port}"
    for attempt, number in ((bad, 1), (good, 2)):
        assert attempt["messageId"] == id
        assert attempt["attempt"] == number
        assert attempt["address"] == address
        assert before - 1 <= stamp(attempt["time"]) <= time.time() + 1
        assert 0 < attempt["durationMs"] < 10_000
    assert (bad["status"], bad["class"], bad["response"]) == (500, "http_5xx", "out of order")
    assert (good["status"], good["class"], good["response"]) == (201, "ok", "thanks")
    assert stamp(bad["time"]) < stamp(good["time"])


def test_attempts_of_a_subscription_that_has_none(push):
    topic, name = push.pair()
    assert push.attempts(name) == []
    answer = push.rest.get(f"/v1/{push.clients.subscription_name()}/attempts")
    assert (answer.code, answer.status) == (404, "NOT_FOUND")


def test_attempts_are_searched_by_class_and_message(push):
    push.receiver.on("/push", 404, 500, 200)
    topic, name = push.pair(retryPolicy=retry(0.1), postrider={"fifo": True})
    first, second = push.publish(topic, b"1", b"2")
    push.wait_attempts(name, 4)
    assert ids(push.attempts(name)) == [second, first, first, first]
    assert [one["status"] for one in push.attempts(name, "?class=http_4xx")] == [404]
    assert [one["status"] for one in push.attempts(name, "?class=http_5xx")] == [500]
    assert ids(push.attempts(name, "?class=ok")) == [second, first]
    assert ids(push.attempts(name, f"?messageId={second}")) == [second]
    assert len(push.attempts(name, f"?messageId={first}")) == 3
    both = push.attempts(name, f"?messageId={first}&class=ok")
    assert [one["attempt"] for one in both] == [3]
    assert push.attempts(name, "?class=timeout") == []
    assert push.attempts(name, "?messageId=1") == []


def test_attempts_come_in_pages_newest_first(push):
    topic, name = push.pair(postrider={"fifo": True})
    published = push.publish(topic, *[b"x"] * 25)
    push.wait_attempts(name, 25, "?pageSize=100")
    listed, sizes, token = [], [], ""
    while True:
        found = page(push, name, f"?pageSize=10&pageToken={token}")
        listed += ids(found["attempts"])
        sizes.append(len(found["attempts"]))
        token = found.get("nextPageToken", "")
        if not token:
            break
    assert sizes == [10, 10, 5]
    assert listed == published[::-1]


def test_pages_are_not_disturbed_by_new_attempts(push):
    topic, name = push.pair(postrider={"fifo": True})
    published = push.publish(topic, *[b"x"] * 6)
    push.wait_attempts(name, 6)
    first = page(push, name, "?pageSize=3")
    push.publish(topic, *[b"y"] * 3)
    push.wait_attempts(name, 9)
    second = page(push, name, f"?pageSize=3&pageToken={first['nextPageToken']}")
    assert ids(first["attempts"]) + ids(second["attempts"]) == published[::-1]


def test_each_subscription_has_its_own(push):
    topic = push.clients.topic()
    one, two = push.subscribe(topic, "/one"), push.subscribe(topic, "/two")
    push.receiver.on("/two", 500, 200)
    push.publish(topic, b"x")
    push.wait_attempts(two, 2)
    push.wait_attempts(one, 1)
    assert len(push.attempts(one)) == 1


def test_what_is_wrong_is_refused_by_name(push):
    topic, name = push.pair()
    for query, named in (
        ("class=wrong", "class"),
        ("pageSize=-1", "pageSize"),
        ("pageSize=x", "pageSize"),
        ("pageToken=rubbish", "pageToken"),
        ("clas=ok", "clas"),
    ):
        answer = push.rest.get(f"/v1/{name}/attempts?{query}")
        assert (answer.code, answer.status) == (400, "INVALID_ARGUMENT"), f"{query}: {answer}"
        assert named in answer.message


def test_attempts_are_kept_over_restarts(own_push):
    push = own_push
    push.receiver.on("/push", 500, 500, 200)
    topic, name = push.pair(retryPolicy=retry(0.1))
    push.publish(topic, b"1")
    before = push.wait_attempts(name, 3)
    push.restart("term")
    assert push.attempts(name) == before
    push.publish(topic, b"2")
    push.wait_attempts(name, 4)
    push.restart("kill")
    # A crash may lose those of the last flush, and only those.
    assert push.attempts(name)[-3:] == before


def test_the_last_failure_of_what_is_unsettled_is_kept_beyond_the_last_thousand(push):
    """More than a thousand successes do not push out why one message still waits."""

    def answer(exchange):
        return status(500 if exchange.request.data == b"bad" else 200)(exchange)

    push.receiver.on("/push", answer)
    topic, name = push.pair(retryPolicy=retry(600))
    (bad,) = push.publish(topic, b"bad")
    push.wait_attempts(name, 1, "?class=http_5xx")
    for _ in range(11):
        push.publish(topic, *[b"good"] * 100)
    push.receiver.wait(1101, seconds=60)
    until(lambda: ok_of_the_last(push, name))
    (kept,) = push.attempts(name, f"?messageId={bad}")
    assert (kept["class"], kept["attempt"]) == ("http_5xx", 1)


def ok_of_the_last(push, name):
    last = push.receiver.at()[-1].id
    return push.attempts(name, f"?messageId={last}&class=ok")


def test_dead_lettered_attempts_are_all_there(push):
    dead, letters = push.clients.pair()
    push.receiver.on("/push", status(500, body=b"no"))
    topic, name = push.pair(retryPolicy=retry(0.1), deadLetterPolicy=dead_letter(dead))
    (id,) = push.publish(topic, b"bad")
    push.clients.pull_exactly(letters, 1)
    attempts = push.wait_attempts(name, 5, f"?messageId={id}")
    assert [one["attempt"] for one in attempts] == [5, 4, 3, 2, 1]


def test_a_request_under_way_is_no_attempt_yet(push):
    push.receiver.on("/push", never)
    topic, name = push.pair(config={"timeoutSeconds": 60})
    push.publish(topic, b"x")
    push.receiver.wait(1)
    assert push.attempts(name) == []
