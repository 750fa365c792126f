"""Golden transcripts: scripts of messages, timers and syncs, with everything that the members make of them.

With TIDELOG_REWRITE_TRANSCRIPTS=1 the files are written anew; read the difference before you keep it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.raft.stage import perform

FOLDER = Path(__file__).parent / "transcripts"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_the_quorum_does_as_the_transcript_says(path: Path) -> None:
    expected = path.read_text()

    played = perform(expected)

    if os.environ.get("TIDELOG_REWRITE_TRANSCRIPTS"):
        path.write_text(played)
    else:
        assert played == expected
