"""What the server writes is for the user it runs as, and for nobody else on the machine."""

import os
import pathlib
import stat

from program import CONFIG, Server
from rest import Rest, encode

TOPIC, NAME = "projects/p/topics/orders", "projects/p/subscriptions/billing"


def modes(folder):
    """Every folder and file below, and what others may do with it."""
    found = {pathlib.Path("."): folder}
    found.update({path.relative_to(folder): path for path in folder.rglob("*")})
    others = stat.S_IRWXG | stat.S_IRWXO
    return {str(name): stat.S_IMODE(path.stat().st_mode) & others for name, path in found.items()}


def open_to_others(folder):
    return sorted(name for name, mode in modes(folder).items() if mode)


def fill(rest):
    """Makes the server write every kind of file it has."""
    rest.topic(TOPIC)
    rest.subscription(NAME, TOPIC)
    rest.ok("POST", f"/v1/{TOPIC}:publish", {"messages": [{"data": encode(b"secret")}]})
    rest.ok("POST", f"/v1/{NAME}:seek", {"time": "2999-01-01T00:00:00Z"})


def test_all_files_are_for_their_owner_alone(tmp_path):
    old = os.umask(0)
    try:
        # A folder that is there already, as systemd makes it.
        data = tmp_path / "data"
        data.mkdir(mode=0o755)
        backups = f'backup_dir = "{tmp_path}/backups"'
        server = Server(tmp_path, config=f"{CONFIG}{backups}\n").start()
    finally:
        os.umask(old)
    rest = Rest(server)
    fill(rest)
    assert open_to_others(data) == []
    copy = rest.ok("PUT", "/v1/backups/first", {})
    assert open_to_others(pathlib.Path(copy["folder"])) == []
    server.stop()
    names = set(modes(data))
    assert {"store.sqlite", "lock", "wal", "free"} <= names, names


def test_files_that_others_could_read_are_closed_at_the_start_and_named(tmp_path):
    server = Server(tmp_path).start()
    fill(Rest(server))
    server.stop()
    for path in [server.data, *server.data.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    server.start()
    assert open_to_others(server.data) == []
    log = server.log.read_text()
    assert "other users of this machine could read" in log
    assert "store.sqlite" in log
    server.restart()
    assert server.log.read_text().count("other users of this machine could read") == 1
    server.stop()
