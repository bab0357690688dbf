"""What an answer means: which codes succeed, Retry-After, what a receiver says about its errors."""

import email.utils
import time

import pytest

from answers import head_only, interim
from program import Server
from push import Pushing, assert_waited, dead_letter, gaps, retry
from receiver import status

SUCCESS = [200, 201, 202, 203, 204, 205, 206, 207, 226, 299]
FAILURE = {
    300: "http_3xx",
    301: "http_3xx",
    302: "http_3xx",
    304: "http_3xx",
    307: "http_3xx",
    400: "http_4xx",
    404: "http_4xx",
    408: "http_4xx",
    410: "http_4xx",
    429: "http_4xx",
    500: "http_5xx",
    501: "http_5xx",
    599: "http_5xx",
}


def outcome(push, *answers, **fields):
    """The attempts of one message, newest first, when its last answer has counted."""
    push.receiver.on("/push", *answers)
    topic, name = push.pair(**{"retryPolicy": retry(0.1), **fields})
    push.publish(topic, b"x")
    return push.wait_attempts(name, len(answers))


@pytest.mark.parametrize("code", SUCCESS)
def test_success(push, code):
    (attempt,) = outcome(push, code)
    assert (attempt["class"], attempt["status"]) == ("ok", code)
    assert len(push.receiver.at()) == 1


def test_102_is_a_success_though_nothing_follows_it(push):
    (attempt,) = outcome(push, head_only(102))
    assert (attempt["class"], attempt["status"]) == ("ok", 102)
    assert attempt["durationMs"] < 10_000
    assert len(push.receiver.at()) == 1


@pytest.mark.parametrize("code", [100, 103])
def test_other_interim_answers_decide_nothing(push, code):
    attempts = outcome(push, interim(code, then=500), interim(code, then=200))
    assert [one["status"] for one in attempts] == [200, 500]
    assert [one["class"] for one in attempts] == ["ok", "http_5xx"]


@pytest.mark.parametrize("code", FAILURE)
def test_failure(push, code):
    newest, first = outcome(push, code, 200)
    assert (first["class"], first["status"], first["attempt"]) == (FAILURE[code], code, 1)
    assert (newest["class"], newest["attempt"]) == ("ok", 2)


def test_redirects_are_not_followed(push):
    elsewhere = status(307, headers={"Location": push.receiver.url("/elsewhere")})
    newest, first = outcome(push, elsewhere, 200)
    assert first["class"] == "http_3xx"
    assert push.receiver.at("/elsewhere") == []
    assert len(push.receiver.at()) == 2


def test_410_is_a_failure_like_any_other(push):
    attempts = outcome(push, 410, 410, 200)
    assert [one["status"] for one in attempts] == [200, 410, 410]


def test_googles_narrower_successes_when_configured(tmp_path, receiver):
    server = Server(tmp_path, config="[push]\nsuccess = 'google'\n").start()
    push = Pushing(server, receiver)
    try:
        receiver.on("/push", 203, 206, 201)
        topic, name = push.pair(retryPolicy=retry(0.1))
        push.publish(topic, b"x")
        attempts = push.wait_attempts(name, 3)
        assert [one["status"] for one in attempts] == [201, 206, 203]
        assert attempts[0]["class"] == "ok" and attempts[1]["class"] != "ok"
    finally:
        push.close()
        server.stop()


# Retry-After.


@pytest.mark.parametrize("code", [429, 503])
def test_retry_after_in_seconds_is_waited_for(push, code):
    outcome(
        push,
        status(code, headers={"Retry-After": "2"}),
        200,
        retryPolicy=retry(0.1, 60),
    )
    assert_waited(gaps(push.receiver.at())[0], 2)


def test_retry_after_as_a_date_is_waited_for(push):
    # The date has whole seconds: three from now may be two and a bit.
    date = email.utils.formatdate(time.time() + 3, usegmt=True)
    began = time.time()
    outcome(
        push,
        status(503, headers={"Retry-After": date}),
        200,
        retryPolicy=retry(0.1, 60),
    )
    wanted = email.utils.parsedate_to_datetime(date).timestamp() - began
    assert_waited(push.receiver.at()[1].arrived - began, wanted)


def test_retry_after_spends_an_attempt_like_any_answer(push):
    newest, first = outcome(push, status(429, headers={"Retry-After": "1"}), 200)
    assert (first["attempt"], newest["attempt"]) == (1, 2)


def test_retry_after_waits_no_longer_than_the_maximum_backoff(push):
    outcome(
        push, status(503, headers={"Retry-After": "3600"}), 200, retryPolicy=retry(0.1, 1)
    )
    assert_waited(gaps(push.receiver.at())[0], 1)


def test_a_backoff_longer_than_retry_after_counts(push):
    outcome(push, status(503, headers={"Retry-After": "0"}), 200, retryPolicy=retry(1.5))
    assert_waited(gaps(push.receiver.at())[0], 1.5)


@pytest.mark.parametrize("code", [500, 404])
def test_retry_after_means_nothing_on_other_codes(push, code):
    outcome(push, status(code, headers={"Retry-After": "20"}), 200, retryPolicy=retry(0.2, 60))
    assert gaps(push.receiver.at())[0] < 10


@pytest.mark.parametrize("value", ["soon", "-5", "1e9", "", "99999999999999999999"])
def test_a_senseless_retry_after_does_no_harm(push, value):
    outcome(push, status(503, headers={"Retry-After": value}), 200, retryPolicy=retry(0.2, 1))
    waited = gaps(push.receiver.at())[0]
    assert 0.2 - 0.05 <= waited < 5


# What the receiver says.


def test_the_receivers_own_class_and_words_are_kept(push):
    said = {"postrider-error-class": "permanent", "postrider-error": "no such customer"}
    newest, first = outcome(push, status(422, body=b"see header", headers=said), 200)
    assert first["class"] == "permanent"
    assert first["status"] == 422
    assert first["error"] == "no such customer"
    assert first["response"] == "see header"
    assert newest["class"] == "ok"


@pytest.mark.parametrize("named", ["transient", "config"])
def test_the_other_classes_a_receiver_may_name(push, named):
    newest, first = outcome(push, status(500, headers={"postrider-error-class": named}), 200)
    assert first["class"] == named


def test_an_unknown_class_is_ignored(push):
    newest, first = outcome(push, status(500, headers={"postrider-error-class": "evil"}), 200)
    assert first["class"] == "http_5xx"


def test_what_a_success_says_about_errors_is_ignored(push):
    (attempt,) = outcome(push, status(200, headers={"postrider-error-class": "permanent"}))
    assert attempt["class"] == "ok"


def test_class_and_words_reach_the_dead_letter(push):
    dead, letters = push.clients.pair()
    said = {"postrider-error-class": "config", "postrider-error": "table is missing"}
    push.receiver.on("/push", status(500, headers=said))
    topic, name = push.pair(retryPolicy=retry(0.1), deadLetterPolicy=dead_letter(dead))
    push.publish(topic, b"bad")
    told = push.clients.pull_exactly(letters, 1)[0].message.attributes
    assert told["error_class"] == "config"
    assert told["last_error"] == "table is missing"
    assert told["last_status"] == "500"
    assert told["failure_reason"] == "max_push_attempts_exceeded"
    assert told["attempts"] == "5"


def test_long_words_are_bounded_in_the_dead_letter(push):
    dead, letters = push.clients.pair()
    push.receiver.on("/push", status(500, headers={"postrider-error": "x" * 60_000}))
    topic, name = push.pair(
        retryPolicy=retry(0.1), deadLetterPolicy=dead_letter(dead)
    )
    push.publish(topic, b"bad")
    told = push.clients.pull_exactly(letters, 1)[0].message.attributes
    assert 0 < len(told["last_error"]) <= 4096
