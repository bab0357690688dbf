"""Google's command line against one server, where it is installed."""

import json
import os
import shutil
import subprocess

GCLOUD = shutil.which("gcloud")
# It starts slowly, and more so on a busy machine.
SECONDS_MAX = 120


class Gcloud:
    """Runs `gcloud pubsub` commands in one project, without an account or a configuration."""

    def __init__(self, server, folder, project):
        self.project = project
        self.env = {
            **os.environ,
            "CLOUDSDK_CONFIG": str(folder),
            "CLOUDSDK_CORE_PROJECT": project,
            "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
            "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "1",
            "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "1",
            "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "1",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_PUBSUB": f"{server.url}/",
        }

    def run(self, *words):
        command = [GCLOUD, "pubsub", *map(str, words), "--format=json"]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS_MAX, env=self.env
        )

    def ok(self, *words):
        """What a command answers that must succeed."""
        told = self.run(*words)
        assert told.returncode == 0, f"{words}: {told.returncode}\n{told.stdout}\n{told.stderr}"
        return json.loads(told.stdout) if told.stdout.strip() else None

    def fails(self, *words):
        """What a command says that must not succeed."""
        told = self.run(*words)
        assert told.returncode != 0, f"{words}: {told.stdout}"
        return told.stderr
