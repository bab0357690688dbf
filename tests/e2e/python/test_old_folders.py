"""Data folders of earlier versions: the program opens them, with everything in them."""

import shutil

import program
from program import ROOT, Server
from rest import Rest

TOPIC, NAME = "projects/p/topics/orders", "projects/p/subscriptions/billing"


def test_a_folder_of_the_first_version_starts_with_its_definitions(tmp_path):
    server = Server(tmp_path)
    shutil.copytree(ROOT / "crates/storage/tests/fixtures/v1", server.data)
    checked = program.run("verify", "--data-dir", server.data)
    assert checked.returncode == 0, checked.stdout
    rest = Rest(server.start())
    topic = rest.ok("GET", f"/v1/{TOPIC}")
    assert topic["labels"] == {"team": "a"}
    assert topic["messageRetentionDuration"] == "2678400s"
    billing = rest.ok("GET", f"/v1/{NAME}")
    assert billing["filter"] == 'attributes.kind = "a"'
    assert billing["enableMessageOrdering"] and billing["retainAckedMessages"]
    assert billing["deadLetterPolicy"]["maxDeliveryAttempts"] == 5
    # What comes now is behind what was there.
    first = rest.publish(TOPIC, b"after")[0]
    assert rest.publish(TOPIC, b"later") == [first + 1]
    server.restart()
    server.stop()
