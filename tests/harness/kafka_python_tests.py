"""kafka-python's own integration tests, from its source distribution on PyPI, run against a server of ours.

Fetched once, with the hashes of our lock file, into the cache of the checkout. The distribution holds the tests without
the module that starts servers for them: a stand-in says that the server is there already.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parents[2]
LOCK_FILE: Final = PROJECT / "requirements/dev.txt"
CACHE: Final = PROJECT / ".cache/kafka-python"
SECONDS_MAX: Final = 300
# The Kafka whose behaviour the tests are to expect.
KAFKA_VERSION: Final = "4.2"
STAND_IN: Final = '''"""Services that tests start: here the server runs already."""


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port


class SpawnedService:
    pass
'''


def test_folder() -> Path:
    """Where the distribution is unpacked; fetched when it is not there."""
    requirement = _locked_requirement()
    found = re.match(r"kafka-python==(\S+)", requirement)
    assert found is not None, requirement
    folder = CACHE / f"kafka_python-{found[1]}"
    if not (folder / "test/service.py").exists():
        _fetch(requirement, folder)
    return folder


def run(module: str, bootstrap_servers: str, deselected: list[str]) -> subprocess.CompletedProcess[str]:
    """Run one module of the tests in a process of its own."""
    path = f"test/integration/{module}.py"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--log-level=WARNING", path]
    command += [f"--deselect={path}::{name}" for name in deselected]
    environment = os.environ | {
        "KAFKA_URI": f"kafka://{bootstrap_servers}",
        "KAFKA_VERSION": KAFKA_VERSION,
        "KAFKA_ROOT": str(CACHE),
    }
    return subprocess.run(
        command, cwd=test_folder(), env=environment, capture_output=True, text=True, timeout=SECONDS_MAX
    )


def _locked_requirement() -> str:
    """The lines of the lock file that name kafka-python and the hashes of its files."""
    found = re.search(r"^kafka-python==(?:.*\\\n)*.*$", LOCK_FILE.read_text(), re.MULTILINE)
    assert found is not None, f"{LOCK_FILE} has no kafka-python"
    return found[0]


def _fetch(requirement: str, folder: Path) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    wanted = CACHE / "requirement.txt"
    wanted.write_text(requirement + "\n")
    options = ["--require-hashes", "--no-deps", "--no-binary", ":all:", "--dest", str(CACHE)]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download"]
    subprocess.run([*pip, *options, "--requirement", str(wanted)], check=True)
    with tarfile.open(CACHE / f"{folder.name}.tar.gz") as archive:
        archive.extractall(CACHE, filter="data")
    # A package, so that it comes before Python's own `test`.
    (folder / "test/__init__.py").touch()
    (folder / "test/service.py").write_text(STAND_IN)
