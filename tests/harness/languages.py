"""Clients of other languages, built by `scripts/other_languages.sh`, run against a broker: what each of them saw."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
_MADE = _ROOT / ".cache" / "languages"
_SCRIPTS = _ROOT / "tests" / "languages" / "node"
PROGRAM_SECONDS_MAX = 200
# Of franz-go's tests the one that reads the client's own source, which is not there.
_NOT_OF_A_BROKER = "TestOptValuesCoversEveryOption"


def go(program: str, bootstrap_servers: str) -> Any:
    """What a program of ours around a client of Go saw, from the JSON that it prints."""
    return _seen([str(_MADE / "programs" / program), bootstrap_servers])


def node(script: str, bootstrap_servers: str) -> Any:
    """What a script of ours around a client of JavaScript saw, from the JSON that it prints."""
    return _seen([str(_MADE / "bin" / "node"), str(_SCRIPTS / script), bootstrap_servers])


def franz_go_tests(bootstrap_servers: str, records: int) -> subprocess.CompletedProcess[str]:
    """franz-go's own tests, as its authors ship them; they take the broker and how much to do from the environment."""
    told = {"KGO_SEEDS": bootstrap_servers, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": str(records)}
    limits = [f"-test.timeout={PROGRAM_SECONDS_MAX}s", f"-test.skip={_NOT_OF_A_BROKER}"]
    command = [str(_MADE / "programs" / "franz-go-tests"), *limits]
    return subprocess.run(
        command, env=os.environ | told, capture_output=True, text=True, timeout=PROGRAM_SECONDS_MAX + 30, check=False
    )


def _seen(command: list[str]) -> Any:
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_SECONDS_MAX, check=False)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-10_000:]
    return json.loads(done.stdout)
