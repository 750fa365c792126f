"""Long runs of real clusters under faults, and the checker of what clients saw. `python -m soak` runs it.

`history` is the format, `checker` decides, `generators` are the clients, each a process of its own that writes a
history file; `weather` plans faults and `run` lets all of it loose on a cluster.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parents[1]

# The tests' harness already knows how to run Java's clients.
sys.path.insert(0, str(PROJECT / "tests"))
