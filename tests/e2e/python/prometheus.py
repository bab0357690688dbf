"""A real Prometheus that scrapes one server, from the Debian package of that name."""

import json
import math
import pathlib
import socket
import subprocess
import urllib.parse
import urllib.request

from waiting import until

ROOT = pathlib.Path(__file__).resolve().parents[3]
RULES = ROOT / "docs/operating/prometheus-rules.yml"

CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: postrider
    static_configs: [{{targets: ["{address}"]}}]
"""


class Prometheus:
    """The process, its folder, and queries."""

    def __init__(self, folder, server):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        config = self.folder / "prometheus.yml"
        config.write_text(CONFIG.format(rules=RULES, address=server.address))
        self.address = f"127.0.0.1:{free_port()}"
        self.log = self.folder / "prometheus.log"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={config}",
                    f"--storage.tsdb.path={self.folder / 'data'}",
                    f"--web.listen-address={self.address}",
                    "--log.level=warn",
                ],
                stdout=log,
                stderr=log,
            )

    def __enter__(self):
        until(self.has_scraped, seconds=60)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def get(self, path, **query):
        url = f"http://{self.address}{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def has_scraped(self):
        assert self.process.poll() is None, self.log.read_text(errors="replace")
        try:
            return self.values("up == 1")
        except OSError:
            return None

    def values(self, query):
        """The values that a query gives now, without those that are no number."""
        found = self.get("/api/v1/query", query=query)["result"]
        values = [float(one["value"][1]) for one in found]
        return [value for value in values if math.isfinite(value)]


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
