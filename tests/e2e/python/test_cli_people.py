"""The command line for people: what reaches their terminal, and what spares them a surprise."""

import json
import os
import urllib.request

import pytest

import program
from cli import Cli
from clients import numbers
from terminal import OnTerminal, plain, screens
from waiting import until

# Sets the title, colours by C1, deletes, goes back, and turns text around.
HOSTILE = "a\x1b]0;evil\x07b\x9b31mc\x7fd\x08e\rf\u202eg"
STEERING = ["\x1b", "\x07", "\x9b", "\x7f", "\x08", "\u202e"]


@pytest.fixture
def cli(server):
    return Cli(server, f"people-{next(numbers)}")


@pytest.fixture
def hostile(cli):
    """Topics, a subscription and a dead letter that hold whatever could steer a terminal."""
    cli.ok("topic", "create", "orders")
    cli.ok("topic", "create", "dead")
    cli.ok(
        "subscription", "create", "billing", "--topic", "orders", "--description", HOSTILE,
        "--metadata", f"k={HOSTILE}", "--dead-letter-topic", "dead",
    )
    for topic in ("orders", "dead"):
        cli.ok(
            "publish", topic, HOSTILE, "--attribute", f"note={HOSTILE}",
            "--attribute", f"{HOSTILE}=x", "--attribute", f"last_error={HOSTILE}",
            "--ordering-key", HOSTILE,
        )
    return cli


def steering(text, but=""):
    return [one for one in STEERING if one in text and one not in but]


def test_nothing_in_a_message_steers_the_terminal(hostile):
    cli = hostile
    (letter,) = cli.json("dead-letter", "list", "--topic", "dead")["deadLetters"]
    for words in [
        ("tail", "orders"),
        ("tail", "orders", "--data"),
        ("tail", "--subscription", "billing"),
        ("pull", "billing"),
        ("dead-letter", "list", "--topic", "dead"),
        ("dead-letter", "show", letter["messageId"], "--topic", "dead"),
        ("subscription", "describe", "billing"),
        ("subscription", "list"),
        ("topic", "describe", "dead"),
        ("tail", "orders", "--json"),
        ("topic", "describe", HOSTILE),
    ]:
        with OnTerminal(cli, *words) as terminal:
            output, _ = terminal.end()
        shown = output.decode()
        assert steering(shown) == [], (words, shown)
        # A terminal makes \r\n of each line's end; a \r by itself goes back in the line.
        assert "\r" not in shown.replace("\r\n", "\n"), (words, shown)
        assert "\\u001b" in shown or words[0] in ("subscription", "topic"), (words, shown)
        assert steering(cli.run(*words).stdout if "--data" not in words else "") == []


def test_a_line_of_a_message_cannot_pass_for_a_line_of_ours(cli):
    cli.ok("topic", "create", "dead")
    cli.ok("publish", "dead", "x", "--attribute", "note=y\nState            replayed")
    (letter,) = cli.json("dead-letter", "list", "--topic", "dead")["deadLetters"]
    shown = cli.ok("dead-letter", "show", letter["messageId"], "--topic", "dead")
    assert [line for line in shown.splitlines() if line.startswith("State")] == [
        "State            waiting"
    ]


def test_json_has_no_control_characters_and_means_the_same(hostile):
    cli = hostile
    text = cli.ok("tail", "orders", "--json")
    assert steering(text) == []
    (message,) = json.loads(text)["messages"]
    assert message["message"]["attributes"]["note"] == HOSTILE
    assert message["message"]["orderingKey"] == HOSTILE


def test_data_is_raw_in_a_pipe_and_on_a_terminal_only_if_asked(hostile):
    cli = hostile
    assert cli.ok("tail", "orders", "--data") == HOSTILE.replace("\r", "\n") + "\n"
    with OnTerminal(cli, "tail", "orders", "--data", "--raw") as terminal:
        output, code = terminal.end()
    assert code == 0 and b"\x1b]0;evil\x07" in output
    cli.fails(2, "tail", "orders", "--raw")


def test_publish_on_a_terminal_says_that_it_waits(cli):
    cli.ok("topic", "create", "orders")
    cli.ok("subscription", "create", "billing", "--topic", "orders")
    with OnTerminal(cli, "publish", "orders") as terminal:
        terminal.until(b"Ctrl-D")
        terminal.press(b"typed\n\x04")
        _, code = terminal.end()
    assert code == 0
    assert cli.ok("pull", "billing", "--ack", "--data") == "typed\n"
    assert "Ctrl-D" not in cli.run("publish", "orders", stdin="piped\n").stderr


# What is refused leaves nothing behind.


def test_a_standard_set_up_that_is_refused_leaves_nothing_behind(cli):
    cli.fails(3, "subscription", "create", "billing", "--topic", "missing", "--standard")
    assert cli.json("topic", "list")["topics"] == []
    assert cli.json("subscription", "list")["subscriptions"] == []
    cli.ok("topic", "create", "orders")
    cli.fails(
        1, "subscription", "create", "billing", "--topic", "orders", "--standard",
        "--max-attempts", "1000",
    )
    assert len(cli.json("topic", "list")["topics"]) == 1
    # What was there before stays.
    cli.ok("topic", "create", "billing.dlq")
    told = cli.run("subscription", "create", "billing", "--topic", "missing", "--standard")
    assert told.returncode == 3, told.stderr
    assert len(cli.json("topic", "list")["topics"]) == 2
    assert cli.json("subscription", "list")["subscriptions"] == []


def test_what_is_there_already_is_taken_as_it_is(cli):
    cli.ok("topic", "create", "orders", "--if-not-exists")
    told = cli.fails(1, "topic", "create", "orders")
    assert "--if-not-exists" in told
    assert cli.ok("topic", "create", "orders", "--if-not-exists").startswith("there already: ")
    told = cli.run("topic", "create", "orders", "--if-not-exists", "--retention", "1h")
    assert told.returncode == 0 and "messageRetentionDuration" in told.stderr, told.stderr
    for expected in ("made ", "there already: "):
        made = cli.ok(
            "subscription", "create", "billing", "--topic", "orders", "--standard",
            "--if-not-exists",
        )
        assert made.startswith(expected), made
    assert len(cli.json("subscription", "list")["subscriptions"]) == 2


# How commands are given, and how they fail.


def test_flags_that_say_whom_to_ask_may_stand_anywhere(cli):
    cli.ok("topic", "create", "orders")
    for words in [
        ("--server", cli.server.url, "--project", cli.project, "topic", "list"),
        ("topic", "--server", cli.server.url, "--project", cli.project, "list"),
        ("topics", "ls", "--server", cli.server.url, "--project", cli.project),
    ]:
        told = cli.run(*words, without=["POSTRIDER_SERVER", "POSTRIDER_PROJECT"])
        assert told.returncode == 0 and "orders" in told.stdout, told.stderr
    assert json.loads(cli.ok("--json", "topic", "list"))["topics"]
    # The one behind wins, as it did before.
    cli.ok("--server", "http://127.0.0.1:1", "topic", "list", "--server", cli.server.url)
    said = cli.fails(2, "--server", cli.server.url, "verify")
    assert "asks no server" in said


def test_commands_have_the_names_that_people_try(cli):
    cli.ok("topics", "create", "orders")
    for word in ("sub", "subs", "subscriptions"):
        cli.ok(word, "create", word, "--topic", "orders")
        assert word in cli.ok(word, "show", word)
    assert len(cli.json("subs", "ls")["subscriptions"]) == 3
    cli.ok("sub", "rm", "sub")
    assert cli.ok("dead-letters", "ls", "--topic", "orders") == "no dead letters\n"


def test_errors_are_json_where_json_is_asked_for(cli):
    for words, code, kind in [
        (("topic", "describe", "missing"), 3, "not_found"),
        (("topic", "list", "--server", "http://127.0.0.1:1"), 4, "unreachable"),
        (("subscription", "create", "x"), 2, "usage"),
        (("topic", "create", "goog-x"), 1, "failed"),
        (("verify", "--data-dir", "/nowhere"), 1, "failed"),
    ]:
        told = cli.run(*words, "--json")
        assert told.returncode == code, (words, told.stderr)
        error = json.loads(told.stderr.splitlines()[-1])["error"]
        assert (error["kind"], error["exitCode"]) == (kind, code), error
        assert error["message"], error
    cli.ok("topic", "create", "orders")
    cli.ok("subscription", "create", "billing", "--topic", "orders")
    noted = cli.run("pull", "billing", "--wait", "0s", "--json")
    assert json.loads(noted.stderr) == {"note": "no messages"}


def test_deleting_all_letters_counts_those_that_the_list_shows(cli):
    cli.ok("topic", "create", "orders")
    cli.ok("subscription", "create", "billing", "--topic", "orders", "--standard")
    source = cli.name("subscriptions", "billing")
    for number in range(3):
        cli.ok(
            "publish", "billing.dlq", f"letter {number}",
            "--attribute", f"original_subscription={source}",
        )
    found = until(
        lambda: (letters := cli.json("dead-letter", "list", "--topic", "billing.dlq")[
            "deadLetters"]) and len(letters) == 3 and letters
    )
    cli.ok("dead-letter", "replay", found[0]["messageId"], "--topic", "billing.dlq")
    assert len(cli.json("dead-letter", "list", "--topic", "billing.dlq")["deadLetters"]) == 2
    said = cli.fails(2, "dead-letter", "delete", "--topic", "billing.dlq", "--all", stdin="")
    assert "deletes 2 dead letters" in said
    cli.ok("dead-letter", "delete", "--topic", "billing.dlq", "--all", "--confirm", "2")
    (left,) = cli.json("dead-letter", "list", "--topic", "billing.dlq", "--state", "all")[
        "deadLetters"]
    assert left["state"] == "replayed"
    cli.ok("dead-letter", "delete", "--topic", "billing.dlq", "--all", "--state", "all", "--yes")
    assert cli.json("dead-letter", "list", "--topic", "billing.dlq", "--state", "all")[
        "deadLetters"] == []


# Numbers.


def test_durations_and_places_are_told_in_words(cli):
    cli.ok("topic", "create", "orders", "--retention", "7d")
    cli.ok("subscription", "create", "billing", "--topic", "orders")
    assert "Retention        7d\n" in cli.ok("topic", "describe", "orders")
    shown = cli.ok("subscription", "describe", "billing")
    assert "Retention        7d\n" in shown and "604800s" not in shown
    assert "1970" not in cli.ok("seek", "billing", "--earliest")
    assert "Z\n" in cli.ok("seek", "billing", "--time", "1h")


def test_answers_of_rest_end_their_last_line(server, cli):
    cli.ok("topic", "create", "orders")
    for path in [f"/v1/{cli.name('topics', 'orders')}", "/status", "/alerts", "/v1/nowhere",
                 "/internal/v1/health"]:
        try:
            body = urllib.request.urlopen(server.url + path).read()
        except urllib.error.HTTPError as error:
            body = error.read()
        assert body.endswith(b"}\n") and not body.endswith(b"\n\n"), (path, body)


# Backups lie with the server.


def test_backups_are_listed_and_pruned_where_the_server_has_them(tmp_path):
    server = program.Server(
        tmp_path, config=program.CONFIG + f'backup_dir = "{tmp_path}/backups"\n'
    ).start()
    try:
        cli = Cli(server, "backups")
        assert cli.ok("backup", "list") == "no backups\n"
        for name in ("one", "two", "three"):
            made = cli.ok("backup", name)
            assert server.address in made and f"{tmp_path}/backups/{name}" in made
        (tmp_path / "backups" / "mine").mkdir()
        listed = cli.json("backup", "list")
        assert [one["name"] for one in listed["backups"]] == ["one", "two", "three"]
        assert listed["folder"] == f"{tmp_path}/backups"
        told = cli.run("backup", "list")
        assert server.address in told.stderr and "three" in told.stdout
        assert cli.json("backup", "prune", "--keep", "1", "--dry-run")["wouldDelete"] == [
            "one", "two",
        ]
        assert cli.json("backup", "prune", "--keep", "2")["deleted"] == ["one"]
        assert cli.ok("backup", "prune", "--older-than", "1d") == "no backup to delete\n"
        assert cli.ok("backup", "delete", "two") == "deleted backup two\n"
        cli.fails(3, "backup", "delete", "two")
        cli.fails(3, "backup", "delete", "mine")
        cli.fails(2, "backup", "prune")
        assert sorted(os.listdir(tmp_path / "backups")) == ["mine", "three"]
    finally:
        server.stop()


# What a start warns of.

DECLARED = """
[[topics]]
name = "projects/p/topics/orders"
{topic}

[[subscriptions]]
name = "projects/p/subscriptions/billing"
topic = "projects/p/topics/orders"
dead_letter_policy = {{ dead_letter_topic = "projects/p/topics/dead" }}
{subscription}
"""


def warnings(server):
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    return [line for line in lines if line["level"] == "WARN"]


def test_a_start_warns_of_what_is_not_as_declared(tmp_path):
    config = program.CONFIG + DECLARED.format(topic="", subscription="")
    server = program.Server(tmp_path, config=config).start()
    server.stop()
    (missing,) = [one for one in warnings(server) if "dead letter topic" in one["message"]]
    assert "projects/p/topics/dead" in missing["message"]
    assert missing["subscription"] == "projects/p/subscriptions/billing"
    assert not [one for one in warnings(server) if "declare" in one["message"]]
    server.log.unlink()
    server.config.write_text(
        program.CONFIG
        + DECLARED.format(topic='message_retention = "1h"', subscription='ack_deadline = "60s"')
    )
    server.start()
    server.stop()
    told = {one["name"]: one["message"] for one in warnings(server) if "name" in one}
    assert "message_retention is none, declared 1h" in told["projects/p/topics/orders"]
    assert "ack_deadline is 10s, declared 1m" in told["projects/p/subscriptions/billing"]


def test_missing_rights_are_told_with_the_path(tmp_path):
    """Rights do not stop root, a file in the place of a folder does."""
    (tmp_path / "file").write_text("")
    told = program.run(
        "serve", "--listen", "127.0.0.1:0", "--data-dir", tmp_path / "file" / "data"
    )
    assert told.returncode == 1
    assert f"{tmp_path}/file/data" in told.stderr, told.stderr


# Top.


@pytest.fixture
def several(cli):
    """Subscriptions with backlogs of their own, one of them with a long name."""
    cli.ok("topic", "create", "orders")
    names = ["billing", "shipping", "a-subscription-with-a-very-long-name-for-a-narrow-screen"]
    for number, name in enumerate(names):
        cli.ok("subscription", "create", name, "--topic", "orders")
        cli.ok("publish", "orders", *["x"] * (number + 1))
    return cli


@pytest.mark.parametrize("columns", [40, 80, 160])
def test_top_fits_the_terminal_and_has_keys(several, columns):
    with OnTerminal(
        several, "top", "--interval", "200ms", columns=columns, rows=20
    ) as terminal:
        terminal.until(b"q quit")
        assert not terminal.is_as_before()
        terminal.press(b"n")
        terminal.until(b"(name)" if columns > 40 else b"billing")
        terminal.press(b"q")
        output, code = terminal.end()
        assert code == 0 and terminal.is_as_before()
    assert output.endswith(b"\x1b[?25h\x1b[?1049l"), "the screen is given back"
    shown = screens(output)
    for screen in shown:
        assert len(screen) <= 20
        assert max(len(line) for line in screen) <= columns, screen
    assert any(line.startswith("billing") for line in shown[0]), shown[0]
    assert b"\x1b[1m" in output, "headings stand out"
    assert len([one for one in shown[0] if "BACKLOG" in one]) == 1
    assert "LETTERS" in plain(output) and "WAI" in plain(output)


def test_top_leaves_the_terminal_as_it_was_whatever_ends_it(several):
    for end in (b"\x03", b"\x1b", b"\x04"):
        with OnTerminal(several, "top", "--interval", "200ms") as terminal:
            terminal.until(b"q quit")
            terminal.press(end)
            output, code = terminal.end()
            assert code == 0 and terminal.is_as_before(), end
    with OnTerminal(several, "top", "--interval", "200ms") as terminal:
        terminal.until(b"q quit")
        terminal.process.terminate()
        output, code = terminal.end()
        assert code == 0 and terminal.is_as_before()
        assert output.endswith(b"\x1b[?25h\x1b[?1049l")


def test_top_has_no_colours_where_they_are_not_wanted(several):
    with OnTerminal(several, "top", "--once", env={"NO_COLOR": "1"}) as terminal:
        output, _ = terminal.end()
    assert b"\x1b" not in output and b"BACKLOG" in output
    with OnTerminal(several, "top", "--once") as terminal:
        output, _ = terminal.end()
    assert b"\x1b[1m" in output
    assert "\x1b" not in several.ok("top", "--once")
