"""The benchmark: ours beside Apache Kafka, the same generators, one run. `python -m bench` runs it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parents[1]
RESULTS: Final = PROJECT / "bench" / "results"

# The tests' harness already knows how to start both servers.
sys.path.insert(0, str(PROJECT / "tests"))
