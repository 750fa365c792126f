"""docs/requirements.md says what the tests prove, because it is made from them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]


def test_the_document_of_requirements_is_up_to_date() -> None:
    script = PROJECT / "scripts/requirements_doc.py"
    checked = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, cwd=PROJECT)

    assert checked.returncode == 0, checked.stdout + checked.stderr
